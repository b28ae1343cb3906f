/* SPDX-License-Identifier: Apache-2.0 */
/* A router's end of its packet pool, for data planes in C (C11, Linux).
 *
 * The node starts the program that a router's document names (`fast_path: {program: [...]}`). The
 * program runs in the router's sandbox with the pool's descriptors, whose numbers are in its
 * environment. It takes packets from receive rings, changes them in place, and puts them into
 * transmit rings.
 *
 *	struct europa pool;
 *	struct europa_packet packet;
 *
 *	if (europa_open(&pool) < 0)
 *		return 1;
 *	for (;;) {
 *		for (uint32_t from = 0; from < pool.interfaces; from++)
 *			while (europa_receive(&pool, from, &packet))
 *				if (!europa_send(&pool, 1 - from, &packet))
 *					europa_drop(&pool, &packet);
 *		europa_wait(&pool);
 *	}
 *
 * europa_receive() ends such a loop after EUROPA_BATCH packets of an interface, so that a flooded
 * interface does not delay the others. It also tells the switch which packets were sent meanwhile.
 * The program must send or drop every received packet once: otherwise the pool loses its slot. */
#ifndef EUROPA_H
#define EUROPA_H

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "europa_pool.h"

/* Number of times that an idle program checks its rings before it sleeps. */
#define EUROPA_LOOKS 64

/* Most packets of an interface in a turn; then the next interface has its turn. */
#define EUROPA_BATCH 64

/* A packet in the pool. The program may change its bytes, and also `data` and `length`, as long as
 * the packet stays inside its slot: there is room in front of a received frame. */
struct europa_packet {
	uint8_t *data;
	uint32_t length;
	uint32_t slot;
	uint32_t queue; /* of the slice, up to EUROPA_WORD_QUEUE_MAX; 0: the interface's own */
	/* The result of EUROPA_RESULT_BYTES that a rule of the slice gave for a key; NULL: none. */
	const uint8_t *result;
	int keyed; /* see europa_key() */
};

/* One end of a ring: its memory, and the position of this side. */
struct europa_ring {
	_Atomic uint64_t *words;
	uint32_t mask;
	uint32_t at;
	uint32_t turn; /* packets received in this turn */
};

struct europa {
	uint8_t *memory;
	struct europa_pool_header *header;
	/* One row for each interface: names, addresses, MTUs. */
	const struct europa_interface_row *rows;
	uint32_t interfaces;
	uint32_t slots;
	uint32_t slot_bytes;
	struct europa_ring rx[EUROPA_MAX_INTERFACES];
	struct europa_ring tx[EUROPA_MAX_INTERFACES];
	struct europa_ring fill;
	/* The switch's sleep flag, and the doorbell that wakes the switch. */
	const _Atomic uint64_t *switch_sleeps;
	int doorbell;
	/* The events that wake this program: a BPF ring buffer with its two positions, and a pipe. */
	_Atomic uint64_t *waker_read;
	const _Atomic uint64_t *waker_written;
	int waker;
	int wake;
	int sent;
	int received;
	int busy;
	unsigned idle;
};

static inline int europa_number(const char *name, uint32_t *value)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return -1;
	*value = (uint32_t)strtoul(text, &end, 10);
	return *end ? -1 : 0;
}

static inline struct europa_ring europa_ring_at(const struct europa *pool,
						struct europa_ring_place place)
{
	uint8_t *control = pool->memory + (size_t)pool->slots * pool->slot_bytes;
	struct europa_ring ring = {
		(_Atomic uint64_t *)(control + (size_t)place.first_word * 8), place.words - 1, 0, 0,
	};

	return ring;
}

static inline size_t europa_end(struct europa_ring_place place, size_t end)
{
	size_t own = ((size_t)place.first_word + place.words) * 8;

	return own > end ? own : end;
}

/* Maps the pool of this process. Returns 0, or -1 with errno. */
static inline int europa_open(struct europa *pool)
{
	uint32_t fd, status, worker, waker, wake, doorbell, busy = 0;
	size_t slots, page = 4096, end = page;
	const struct europa_interface_row *rows;
	struct europa_pool_header *header;
	uint8_t *memory;

	memset(pool, 0, sizeof(*pool));
	errno = EINVAL;
	if (europa_number("EUROPA_POOL", &fd) || europa_number("EUROPA_SLOTS", &pool->slots) ||
	    europa_number("EUROPA_SLOT_BYTES", &pool->slot_bytes) ||
	    europa_number("EUROPA_INTERFACES", &pool->interfaces) ||
	    europa_number("EUROPA_STATUS", &status) || europa_number("EUROPA_WORKER", &worker) ||
	    europa_number("EUROPA_WAKER", &waker) || europa_number("EUROPA_WAKE", &wake) ||
	    europa_number("EUROPA_DOORBELL", &doorbell) ||
	    pool->interfaces > EUROPA_MAX_INTERFACES || worker > 63)
		return -1;
	europa_number("EUROPA_BUSY", &busy);
	slots = (size_t)pool->slots * pool->slot_bytes;
	/* The header has the size of the rest. The interface rows fit into the same two pages. */
	memory = mmap(NULL, slots + 2 * page, PROT_READ, MAP_SHARED, (int)fd, 0);
	if (memory == MAP_FAILED)
		return -1;
	header = (struct europa_pool_header *)(memory + slots);
	rows = (const struct europa_interface_row *)(header + 1);
	if (header->magic != EUROPA_ABI_MAGIC || header->version != EUROPA_ABI_VERSION) {
		munmap(memory, slots + 2 * page);
		errno = EPROTO;
		return -1;
	}
	end = europa_end(header->fill, end);
	for (uint32_t i = 0; i < pool->interfaces; i++)
		end = europa_end(rows[i].tx, europa_end(rows[i].rx, end));
	munmap(memory, slots + 2 * page);
	end = (end + page - 1) / page * page;
	pool->memory = mmap(NULL, slots + end, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (pool->memory == MAP_FAILED)
		return -1;
	pool->header = (struct europa_pool_header *)(pool->memory + slots);
	pool->rows = (const struct europa_interface_row *)(pool->header + 1);
	pool->fill = europa_ring_at(pool, pool->header->fill);
	for (uint32_t i = 0; i < pool->interfaces; i++) {
		pool->rx[i] = europa_ring_at(pool, pool->rows[i].rx);
		pool->tx[i] = europa_ring_at(pool, pool->rows[i].tx);
	}
	memory = mmap(NULL, page, PROT_READ, MAP_SHARED, (int)status, 0);
	if (memory == MAP_FAILED)
		return -1;
	pool->switch_sleeps = (const _Atomic uint64_t *)(memory + worker * 64);
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, (int)waker, 0);
	if (memory == MAP_FAILED)
		return -1;
	pool->waker_read = (_Atomic uint64_t *)memory;
	memory = mmap(NULL, page, PROT_READ, MAP_SHARED, (int)waker, (off_t)page);
	if (memory == MAP_FAILED)
		return -1;
	pool->waker_written = (const _Atomic uint64_t *)memory;
	pool->waker = (int)waker;
	pool->wake = (int)wake;
	pool->doorbell = (int)doorbell;
	pool->busy = busy != 0;
	return 0;
}

/* Returns the number of the interface with this name, or -1. */
static inline int europa_interface(const struct europa *pool, const char *name)
{
	for (uint32_t i = 0; i < pool->interfaces; i++)
		if (!strncmp((const char *)pool->rows[i].name, name, 16))
			return (int)i;
	return -1;
}

/* Tells the switch which packets were sent. europa_receive() and europa_wait() do this when they
 * end a turn; only a program that sends much between these calls needs europa_flush(). */
static inline void europa_flush(struct europa *pool)
{
	if (!pool->sent)
		return;
	pool->sent = 0;
	/* The program reads the flag after it has published the sent packets. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(pool->switch_sleeps, memory_order_relaxed))
		/* A full doorbell already rings. */
		(void)!write(pool->doorbell, "", 1);
}

/* Takes the next packet of an interface. Returns 0 if there is none, or after EUROPA_BATCH packets;
 * then the next interface has its turn. */
static inline int europa_receive(struct europa *pool, uint32_t interface,
				 struct europa_packet *packet)
{
	struct europa_ring *ring = &pool->rx[interface];
	_Atomic uint64_t *entry = &ring->words[ring->at & ring->mask];
	uint64_t word = atomic_load_explicit(entry, memory_order_acquire);
	uint32_t offset;

	if (!(word & EUROPA_WORD_VALID) || ring->turn == EUROPA_BATCH) {
		ring->turn = 0;
		europa_flush(pool);
		return 0;
	}
	atomic_store_explicit(entry, 0, memory_order_release);
	ring->at++;
	ring->turn++;
	packet->slot = (uint32_t)(word >> EUROPA_WORD_SLOT_SHIFT) & EUROPA_WORD_SLOT_MASK;
	packet->slot &= pool->slots - 1;
	packet->length = (uint32_t)word & EUROPA_WORD_LENGTH_MASK;
	offset = (uint32_t)(word >> EUROPA_WORD_OFFSET_SHIFT) & EUROPA_WORD_OFFSET_MASK;
	packet->data = pool->memory + (size_t)packet->slot * pool->slot_bytes + offset;
	packet->queue = 0;
	packet->keyed = 0;
	packet->result = NULL;
	if (word >> EUROPA_WORD_FLAGS_SHIFT & EUROPA_WORD_RESULT)
		packet->result = pool->memory + (size_t)packet->slot * pool->slot_bytes +
				 offsetof(struct europa_metadata, result);
	pool->received = 1;
	pool->idle = 0;
	return 1;
}

/* Requests a look-up of a key in the slice's rules that have a `key`, when the packet is sent.
 * Returns the EUROPA_KEY_BYTES of the key, which are zero, for the caller to fill in. */
static inline uint8_t *europa_key(struct europa *pool, struct europa_packet *packet)
{
	uint8_t *slot = pool->memory + (size_t)packet->slot * pool->slot_bytes;

	packet->keyed = 1;
	return memset(slot + offsetof(struct europa_metadata, key), 0, EUROPA_KEY_BYTES);
}

/* Sends a packet. Returns 0 if the ring has no room; the packet is then still the caller's. */
static inline int europa_send(struct europa *pool, uint32_t interface,
			      const struct europa_packet *packet)
{
	struct europa_ring *ring = &pool->tx[interface];
	_Atomic uint64_t *entry = &ring->words[ring->at & ring->mask];
	uint8_t *slot = pool->memory + (size_t)packet->slot * pool->slot_bytes;
	uint64_t offset = (uint64_t)(packet->data - slot);

	if (atomic_load_explicit(entry, memory_order_acquire) & EUROPA_WORD_VALID)
		return 0;
	atomic_store_explicit(entry,
			      EUROPA_WORD_VALID | (uint64_t)packet->slot << EUROPA_WORD_SLOT_SHIFT |
				      offset << EUROPA_WORD_OFFSET_SHIFT | packet->length |
				      (uint64_t)(packet->queue & 0xff) << EUROPA_WORD_QUEUE_LOW_SHIFT |
				      (uint64_t)(packet->queue >> 8 & 0x7f)
					      << EUROPA_WORD_QUEUE_HIGH_SHIFT |
				      (packet->keyed ? (uint64_t)EUROPA_WORD_KEY
							       << EUROPA_WORD_FLAGS_SHIFT :
						       0),
			      memory_order_release);
	ring->at++;
	pool->sent = 1;
	return 1;
}

/* Drops a packet: returns its slot for reception. */
static inline void europa_drop(struct europa *pool, const struct europa_packet *packet)
{
	struct europa_ring *ring = &pool->fill;

	/* The ring has room for all slots. */
	atomic_store_explicit(&ring->words[ring->at & ring->mask],
			      EUROPA_WORD_VALID | (uint64_t)packet->slot << EUROPA_WORD_SLOT_SHIFT,
			      memory_order_release);
	ring->at++;
}

/* Takes up to `most` packets of an interface, EUROPA_BATCH at most, and returns their number. The turn
 * of the interface ends with it. */
static inline uint32_t europa_receive_batch(struct europa *pool, uint32_t interface,
					    struct europa_packet *packets, uint32_t most)
{
	uint32_t count = 0;

	while (count < most && europa_receive(pool, interface, &packets[count]))
		count++;
	pool->rx[interface].turn = 0;
	europa_flush(pool);
	return count;
}

/* Sends packets in their order, and drops those for which the ring has no room. Returns the number
 * of dropped packets. */
static inline uint32_t europa_send_batch(struct europa *pool, uint32_t interface,
					 const struct europa_packet *packets, uint32_t count)
{
	uint32_t dropped = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!europa_send(pool, interface, &packets[i])) {
			europa_drop(pool, &packets[i]);
			dropped++;
		}
	return dropped;
}

/* The Ethernet address of an interface: six bytes. */
static inline const uint8_t *europa_mac(const struct europa *pool, uint32_t interface)
{
	return pool->rows[interface].mac;
}

static inline int europa_has_input(const struct europa *pool)
{
	for (uint32_t i = 0; i < pool->interfaces; i++) {
		const struct europa_ring *ring = &pool->rx[i];

		if (atomic_load_explicit(&ring->words[ring->at & ring->mask],
					 memory_order_acquire) &
		    EUROPA_WORD_VALID)
			return 1;
	}
	return 0;
}

/* Whether an interface has a packet. Checks until every packet published before the call must be
 * visible. */
static inline int europa_look_on(const struct europa *pool)
{
	struct timespec begun, now;
	int64_t passed_ns;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		/* The last check comes after that time. */
		clock_gettime(CLOCK_MONOTONIC, &now);
		passed_ns = (now.tv_sec - begun.tv_sec) * 1000000000LL + now.tv_nsec - begun.tv_nsec;
		if (europa_has_input(pool))
			return 1;
	} while (passed_ns < EUROPA_UNSEEN_NS);
	return 0;
}

/* Tells the switch which packets were sent, and sleeps if the program has been idle for a while.
 * Call it when all interfaces have had their turn. It returns at once if a packet was received
 * since the last call. */
static inline void europa_wait(struct europa *pool)
{
	_Atomic uint32_t *asleep = (_Atomic uint32_t *)&pool->header->asleep;
	struct pollfd fds[2] = { { pool->waker, POLLIN, 0 }, { pool->wake, POLLIN, 0 } };
	uint8_t bin[4096];

	europa_flush(pool);
	if (pool->received) {
		pool->received = 0;
		return;
	}
	if (pool->busy || pool->idle++ < EUROPA_LOOKS) {
		sched_yield();
		return;
	}
	/* The publisher writes the ring, then reads the flag. The sleeper sets the flag, then checks the
	 * ring until every store that a processor held back when it read the flag is visible. */
	atomic_store(asleep, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (!europa_look_on(pool)) {
		poll(fds, 2, -1);
		if (fds[1].revents)
			(void)!read(pool->wake, bin, sizeof(bin));
		atomic_store_explicit(pool->waker_read, atomic_load(pool->waker_written),
				      memory_order_release);
	}
	atomic_store_explicit(asleep, 0, memory_order_relaxed);
	pool->idle = 0;
}

#endif
