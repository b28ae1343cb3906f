/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replacement of a router's program, inside its process: see tests/src/hijack.rs, which
 * compiles this, writes it over the router's code and jumps to `start`.
 *
 * It has what the router had and nothing else: no library, no writable memory but the
 * stack and what it finds mapped. So: no tables of pointers, no globals.
 */
#include "../../sdk/c/europa_pool.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

/* Its attacks; the same names, in the same order, in tests/src/hijack.rs. */
enum attack {
	FORGE,    /* well-formed descriptors of random slots, lengths, offsets, interfaces */
	TWICE,    /* one slot in every ring, many times */
	FLOOD,    /* allowed frames, as fast as they are taken */
	FORBIDDEN,/* frames from others' addresses, with tags, of other protocols */
	TOCTOU,   /* allowed frames whose addresses change while they are sent */
	HEADER,   /* cursors, ring places, interface table, sleep flag */
	GARBAGE,  /* anything, anywhere in the pool */
	WAKER,    /* the position in its own waker's ring */
	STALL,    /* fill everything, drain nothing */
	DESCRIPTORS, /* use of every descriptor for what it is not meant for */
	CONTROL,  /* nonsense, false answers and huge messages to the node */
	MEMORY,   /* making read-only mappings writable */
	FILES,    /* opening files, devices and /proc */
	ATTACKS
};

#define MAPPINGS 16

struct orders {
	/* written by the test */
	u64 pool;
	u64 pool_bytes;
	u64 waker; /* its writable page */
	u64 read_only[MAPPINGS]; /* start of other mappings that are shared */
	u64 read_only_bytes[MAPPINGS];
	u32 control;           /* descriptor of the control socket */
	u32 only;              /* 0, or 1 + the only attack to make */
	u8 own_mac[2][6], own_host[2][6], other_mac[2][6], other_host[2][6];
	u8 own_net[2], other_net[2]; /* first two bytes of addresses */
	u32 reserved;
	u64 forbidden_call;    /* not 0: make this system call next ... */
	u64 arguments[6];      /* ... with these */
	/* written here */
	u64 rounds[ATTACKS];
	u64 breaches;          /* what should have been refused and was not ... */
	u64 breach;            /* ... the last of them: attack << 32 | detail */
	i64 call_returned;     /* a forbidden call came back with this */
	u64 calls_returned;
};
_Static_assert(sizeof(struct orders) == 536, "as in tests/src/hijack.rs");

/* The compiler calls these of its own accord. */
__attribute__((used)) void *memset(void *to, int value, unsigned long bytes)
{
	for (u8 *at = to; bytes; bytes--)
		*at++ = value;
	return to;
}
__attribute__((used)) void *memcpy(void *to, const void *from, unsigned long bytes)
{
	const u8 *source = from;
	for (u8 *at = to; bytes; bytes--)
		*at++ = *source++;
	return to;
}

static inline i64 call(i64 number, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f)
{
	i64 result;
	register i64 r10 asm("r10") = d;
	register i64 r8 asm("r8") = e;
	register i64 r9 asm("r9") = f;
	asm volatile("syscall"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return result;
}
enum {
	NR_read = 0, NR_write = 1, NR_open = 2, NR_mmap = 9, NR_mprotect = 10, NR_ioctl = 16,
	NR_mremap = 25, NR_nanosleep = 35, NR_sendmsg = 46, NR_fcntl = 72, NR_openat = 257,
};
struct state {
	struct orders *o;
	u64 random;
	u32 slots, slot_bytes, interfaces;
	struct europa_ring_place fill, recycle, done, rx[2], tx[2];
	u64 words; /* of the whole pool */
	u32 turn;
};

static u64 any(struct state *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static volatile u64 *control_words(struct state *s)
{
	return (volatile u64 *)(s->o->pool + (u64)s->slots * s->slot_bytes);
}

static volatile u64 *entry(struct state *s, struct europa_ring_place ring, u32 at)
{
	return control_words(s) + ring.first_word + (at & (ring.words - 1));
}

static volatile u8 *slot_at(struct state *s, u32 slot)
{
	return (volatile u8 *)(s->o->pool + (u64)(slot & (s->slots - 1)) * s->slot_bytes);
}

static u64 word_of(u32 slot, u32 offset, u32 length, u32 interface, u32 flags)
{
	return EUROPA_WORD_VALID | (u64)(slot & EUROPA_WORD_SLOT_MASK) << EUROPA_WORD_SLOT_SHIFT |
	       (u64)(flags & EUROPA_WORD_FLAGS_MASK) << EUROPA_WORD_FLAGS_SHIFT |
	       (u64)(interface & EUROPA_WORD_INTERFACE_MASK) << EUROPA_WORD_INTERFACE_SHIFT |
	       (u64)(offset & EUROPA_WORD_OFFSET_MASK) << EUROPA_WORD_OFFSET_SHIFT |
	       (length & EUROPA_WORD_LENGTH_MASK);
}

/* Wakes the switch, by any descriptor that may be the doorbell. */
static void ring_bells(void)
{
	u64 one = 1;
	for (u32 fd = 4; fd < 12; fd++) {
		call(NR_fcntl, fd, 4 /* F_SETFL */, 04000 /* O_NONBLOCK */, 0, 0, 0);
		call(NR_write, fd, (i64)&one, 8, 0, 0, 0);
	}
}

static void forge(struct state *s)
{
	for (u32 i = 0; i < 256; i++) {
		u64 r = any(s), q = any(s);
		u32 side = r & 1;
		u32 length = q & 1 ? 14 + (q >> 8) % 1500 : q >> 8;
		*entry(s, s->tx[side], s->turn++) =
			word_of(r >> 8, r >> 32, length, r >> 48, q >> 32);
	}
}

static void twice(struct state *s)
{
	u64 word = word_of(any(s), 0, 0, 0, 0);
	for (u32 i = 0; i < s->slots; i++) {
		*entry(s, s->fill, i) = word;
		*entry(s, s->done, i) = word;
		*entry(s, s->recycle, i) = word;
	}
	for (u32 i = 0; i < s->tx[0].words; i++) {
		*entry(s, s->tx[0], i) = word | 100;
		*entry(s, s->tx[1], i) = word | 200;
	}
}

/* Writes a frame that this router may send on `side`. */
static u32 frame(struct state *s, u32 slot, u32 side)
{
	volatile u8 *f = slot_at(s, slot) + 192;
	u32 length = any(s) & 3 ? 60 : 1000;
	for (int i = 0; i < 6; i++) {
		f[i] = s->o->own_host[side][i];
		f[6 + i] = s->o->own_mac[side][i];
	}
	f[12] = 8, f[13] = 0, f[14] = 0x45, f[15] = 0;
	f[16] = (length - 14) >> 8, f[17] = (length - 14), f[18] = f[19] = f[20] = f[21] = 0;
	/* The checksum is not right: hosts drop it early, which is cheap for them. */
	f[22] = 64, f[23] = 17, f[24] = f[25] = 0;
	f[26] = s->o->own_net[0], f[27] = s->o->own_net[1], f[28] = 9, f[29] = 9;
	f[30] = s->o->own_net[0], f[31] = s->o->own_net[1], f[32] = side + 1, f[33] = 2;
	return length;
}

static void submit(struct state *s, u32 slot, u32 side, u32 length)
{
	*entry(s, s->tx[side], s->turn++) = word_of(slot, 192, length, 0, any(s) & 2);
}

static void flood(struct state *s)
{
	for (u32 i = 0; i < 256; i++) {
		u32 slot = any(s), side = any(s) & 1;
		submit(s, slot, side, frame(s, slot, side));
	}
}

/* Makes a frame forbidden, in one of several ways. */
static void spoil(struct state *s, u32 slot, u32 side, u32 way)
{
	volatile u8 *f = slot_at(s, slot) + 192;
	switch (way % 8) {
	case 0: /* from the other tenant's router */
		for (int i = 0; i < 6; i++)
			f[6 + i] = s->o->other_mac[side][i];
		break;
	case 1: /* from the other tenant's host, to its router */
		for (int i = 0; i < 6; i++) {
			f[i] = s->o->other_mac[side][i];
			f[6 + i] = s->o->other_host[side][i];
		}
		break;
	case 2: /* with an address of the other tenant */
		f[26] = s->o->other_net[0], f[27] = s->o->other_net[1];
		break;
	case 3: /* on a VLAN */
		f[12] = 0x81, f[13] = 0, f[14] = 0, f[15] = 10, f[16] = 8, f[17] = 0;
		break;
	case 4: /* an ARP that claims an address of the other tenant */
		f[12] = 8, f[13] = 6;
		f[28] = s->o->other_net[0], f[29] = s->o->other_net[1];
		break;
	case 5: /* another protocol */
		f[12] = 0x88, f[13] = 0xcc;
		break;
	case 6: /* a multicast source */
		f[6] |= 1;
		break;
	default: /* IPv6 */
		f[12] = 0x86, f[13] = 0xdd;
	}
}

static void forbidden(struct state *s)
{
	for (u32 i = 0; i < 256; i++) {
		u32 slot = any(s), side = any(s) & 1, length = frame(s, slot, side);
		spoil(s, slot, side, i);
		submit(s, slot, side, length);
	}
}

static void toctou(struct state *s)
{
	/* Many in the ring, so that the switch is busy with them while they change. */
	for (u32 i = 0; i < 128; i++)
		submit(s, i, i & 1, frame(s, i, i & 1));
	ring_bells();
	for (u32 way = 0; way < 64; way++) {
		for (u32 i = 0; i < 128; i++) {
			if (way & 1)
				frame(s, i, i & 1);
			else
				spoil(s, i, i & 1, way / 2);
		}
	}
}

static void header(struct state *s)
{
	volatile u64 *words = control_words(s);
	u32 head = sizeof(struct europa_pool_header) / 8;
	for (u32 i = 0; i < 64; i++)
		words[any(s) % (head + s->interfaces * 8)] = any(s);
	volatile struct europa_pool_header *h = (void *)words;
	h->asleep = any(s);
}

static void garbage(struct state *s)
{
	volatile u64 *words = (volatile u64 *)s->o->pool;
	u64 start = any(s) % s->words, end = start + 65536;
	if (end > s->words)
		end = s->words;
	for (u64 i = start; i < end; i++)
		words[i] = any(s);
	/* Rings more often than chance would have it. */
	volatile u64 *control = control_words(s);
	for (u64 i = 0; control + i < words + s->words; i++)
		control[i] = any(s);
}

static void waker(struct state *s)
{
	volatile u64 *position = (volatile u64 *)s->o->waker;
	if (!position)
		return;
	for (u32 i = 0; i < 16; i++)
		*position = any(s) & 1 ? any(s) : any(s) & 0xfff;
	for (u32 i = 1; i < 512; i++)
		position[i] = any(s);
}

static void stall(struct state *s)
{
	i64 time[2] = { 0, 1000000 };
	for (u32 i = 0; i < s->rx[0].words; i++) {
		*entry(s, s->rx[0], i) = ~0ull;
		*entry(s, s->rx[1], i) = ~0ull;
	}
	call(NR_nanosleep, (i64)time, 0, 0, 0, 0, 0);
}

static void breach(struct state *s, u32 attack, u32 detail)
{
	s->o->breaches++;
	s->o->breach = (u64)attack << 32 | detail;
}

static void descriptors(struct state *s)
{
	u8 buffer[64];
	u64 most = ~0ull - 1;
	for (u32 fd = 0; fd < 16; fd++) {
		if (fd == s->o->control)
			continue;
		/* Blocking, for every process that shares the open file ... */
		call(NR_fcntl, fd, 4, 0, 0, 0, 0);
		if (any(s) & 1) {
			int off = 0;
			call(NR_ioctl, fd, 0x5421 /* FIONBIO */, (i64)&off, 0, 0, 0);
		}
		/* ... but not for its own calls. */
		u32 own = fd >= 4;
		if (own)
			call(NR_fcntl, fd, 4, 04000, 0, 0, 0);
		if (own)
			for (int i = 0; i < 8; i++) {
				call(NR_read, fd, (i64)buffer, 64, 0, 0, 0);
				call(NR_write, fd, (i64)&most, 8, 0, 0, 0);
			}
		else if (fd) /* the log */
			call(NR_write, fd, (i64)slot_at(s, 0), 65536, 0, 0, 0);
		if (own && any(s) & 1)
			call(NR_fcntl, fd, 4, 0, 0, 0, 0);
	}
}

struct part {
	const void *base;
	u64 length;
};
struct message {
	void *name;
	u32 name_length;
	struct part *parts;
	u64 count;
	void *control;
	u64 control_length;
	i64 flags;
};

static void say(struct state *s, const void *text, u64 length, void *rights, u64 rights_length)
{
	struct part part = { text, length };
	struct message message = { 0, 0, &part, 1, rights, rights_length, 0 };
	call(NR_sendmsg, s->o->control, (i64)&message, 0x4040 /* DONTWAIT, NOSIGNAL */, 0, 0, 0);
}

static void control(struct state *s)
{
	u64 kind = any(s) % 6;
	if (kind == 0)
		say(s, (void *)s->o->pool, any(s) % 4096, 0, 0);
	else if (kind == 1)
		say(s, (void *)s->o->pool, 4 << 20, 0, 0);
	else if (kind == 2) { /* every descriptor, given away */
		struct {
			u64 length;
			u32 level, type;
			u32 fds[32];
		} rights = { 16 + 4 * 32, 1, 1, { 0 } };
		for (u32 i = 0; i < 32; i++)
			rights.fds[i] = 1 + i % 2;
		say(s, "{\"Done\":\"x\"}", 12, &rights, rights.length);
	} else
		for (u32 i = 0; i < 64; i++)
			say(s, "{\"Done\":\"x\"}", 12, 0, 0);
}

static void memory(struct state *s)
{
	for (u32 i = 0; i < MAPPINGS; i++) {
		if (!s->o->read_only[i])
			continue;
		if (!call(NR_mprotect, s->o->read_only[i], s->o->read_only_bytes[i], 3, 0, 0, 0))
			breach(s, MEMORY, i);
	}
	/* Any descriptor, any page but the pool's and the waker's own, written. */
	for (u32 fd = 4; fd < 12; fd++)
		for (u64 page = 1; page < 4; page++) {
			i64 at = call(NR_mmap, 0, 4096, 3, 1 /* SHARED */, fd, page * 4096);
			if (at > 0 || at < -4095)
				breach(s, MEMORY, 0x100 | fd);
		}
	/* A pool's mapping made longer. */
	i64 at = call(NR_mremap, s->o->pool, s->words * 8, s->words * 16, 1 /* MAYMOVE */, 0, 0);
	if (at > 0 || at < -4095)
		breach(s, MEMORY, 0x200);
}

static void files(struct state *s)
{
	i64 results[6];
	results[0] = call(NR_openat, -100, (i64) "/", 0, 0, 0, 0);
	results[1] = call(NR_openat, -100, (i64) "/proc/self/fd/4", 2, 0, 0, 0);
	results[2] = call(NR_openat, -100, (i64) "/sys/fs/bpf", 0, 0, 0, 0);
	results[3] = call(NR_openat, -100, (i64) "/run/europa", 0, 0, 0, 0);
	results[4] = call(NR_open, (i64) "/etc/passwd", 0, 0, 0, 0, 0);
	results[5] = call(NR_ioctl, 1, 0x5401, 0, 0, 0, 0);
	for (u32 i = 0; i < 6; i++)
		if (results[i] >= 0)
			breach(s, FILES, i);
}

static void attack(struct state *s, u32 which)
{
	switch (which) {
	case FORGE: forge(s); break;
	case TWICE: twice(s); break;
	case FLOOD: flood(s); break;
	case FORBIDDEN: forbidden(s); break;
	case TOCTOU: toctou(s); break;
	case HEADER: header(s); break;
	case GARBAGE: garbage(s); break;
	case WAKER: waker(s); break;
	case STALL: stall(s); break;
	case DESCRIPTORS: descriptors(s); break;
	case CONTROL: control(s); break;
	case MEMORY: memory(s); break;
	case FILES: files(s); break;
	}
	s->o->rounds[which]++;
}

/* The test's tracer jumps here, with the address of the orders as first argument. The function
 * never returns. */
__attribute__((section(".start"), noreturn, used)) void start(struct orders *orders)
{
	struct state s;
	s.o = orders;
	s.random = 0x9e3779b97f4a7c15ull ^ (u64)orders;
	s.turn = 0;
	/* Behind the slots, however many there are; its contents are right still. */
	volatile struct europa_pool_header *h = 0;
	for (u64 at = 0; at + sizeof(*h) < orders->pool_bytes; at += EUROPA_SMALL_SLOT_BYTES) {
		h = (void *)(orders->pool + at);
		if (h->magic == EUROPA_ABI_MAGIC && (u64)h->slots * h->slot_bytes == at)
			break;
	}
	s.slots = h->slots;
	s.slot_bytes = h->slot_bytes;
	s.interfaces = h->interfaces;
	s.fill.first_word = h->fill.first_word, s.fill.words = h->fill.words;
	s.recycle.first_word = h->recycle.first_word, s.recycle.words = h->recycle.words;
	s.done.first_word = h->done.first_word, s.done.words = h->done.words;
	volatile struct europa_interface_row *rows = (void *)(h + 1);
	for (u32 i = 0; i < 2; i++) {
		s.rx[i].first_word = rows[i].rx.first_word, s.rx[i].words = rows[i].rx.words;
		s.tx[i].first_word = rows[i].tx.first_word, s.tx[i].words = rows[i].tx.words;
	}
	s.words = (u64)s.slots * s.slot_bytes / 8 + s.tx[1].first_word + s.tx[1].words;
	volatile u64 *forbidden_call = &orders->forbidden_call;
	for (;;) {
		if (*forbidden_call) {
			i64 number = *forbidden_call;
			*forbidden_call = 0;
			volatile u64 *a = orders->arguments;
			orders->call_returned = call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
			orders->calls_returned++;
		}
		if (orders->only)
			attack(&s, orders->only - 1);
		else
			for (u32 i = 0; i < 4; i++)
				attack(&s, any(&s) % ATTACKS);
		ring_bells();
	}
}
