/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Copies the frame of a receive program into a free slot of a router's pool. */
#ifndef EUROPA_DELIVER_H
#define EUROPA_DELIVER_H

#include "checksum.h"
#include "meter.h"
#ifdef EUROPA_TC
#include "piece.h"
#endif
#include "ring.h"
#include "tap.h"

/* The number of wake-ups that one router may cause each second, and at once. */
#define WAKES_PER_SECOND 200000
#define WAKES_AT_ONCE 512

/* Wakes a router that has set its sleep flag and waits on its waker. The number of wake-ups is
 * limited: a wake-up costs the receiving CPU about a microsecond, which would delay all later
 * frames. Returns 0 if the router must wait. */
static __noinline int wake(__u32 pool, struct europa_pool_state *state)
{
	__u64 now = bpf_ktime_get_ns();
	if (!state)
		return 0;
	__u64 since = now - state->wake_refilled_ns;
	/* Another CPU may have refilled the bucket since this one read the clock. */
	if ((__s64)since > 1000000) {
		__s64 tokens = state->wake_tokens + (__s64)(since / (1000000000 / WAKES_PER_SECOND));
		state->wake_tokens = tokens > WAKES_AT_ONCE ? WAKES_AT_ONCE : tokens;
		state->wake_refilled_ns = now;
	}
	if (state->wake_tokens <= 0) {
		state->wakes_refused++;
		return 0;
	}
	state->wake_tokens--;
	state->wakes++;
	void *waker = bpf_map_lookup_elem(&wakers, &pool);
	if (waker)
		bpf_ringbuf_output(waker, &now, sizeof(now), BPF_RB_FORCE_WAKEUP);
	return 1;
}

/* A backlog may exceed EUROPA_RX_BACKLOG for this time. */
#define BURST_NS 100000000ull
/* A router that was behind counts as behind until it had no longer backlog for this time. */
#define BEHIND_NS 20000000ull
/* The backlog is checked once in this number of packets: reading it misses the cache, as the other
 * CPU writes it. */
#define BACKLOG_EVERY 64

/* The router is behind: its ring and slots did not suffice. */
static __always_inline void fall_behind(struct europa_interface *to)
{
	to->behind_until = bpf_ktime_get_coarse_ns() + BEHIND_NS;
}

/* Whether a router with a long backlog, or with none, is behind. A router that had no core for a
 * short time catches up. For a router that cannot process all packets, waiting packets only add
 * delay and cold slots. */
static __always_inline int is_behind(struct europa_interface *to, int has_backlog)
{
	if (!has_backlog) {
		if (to->burst_began)
			to->burst_began = 0;
		return 0;
	}
	__u64 now = bpf_ktime_get_coarse_ns();
	if (!to->burst_began)
		to->burst_began = now;
	if (now >= to->behind_until && now - to->burst_began <= BURST_NS)
		return 0;
	to->behind_until = now + BEHIND_NS;
	return 1;
}

struct short_frame {
	__u8 bytes[SHORT_FRAME];
};

/* Copies a frame of `length` (8 to SHORT_FRAME) bytes into a slot; 0 if the frame is contiguous.
 * Not static, so that the verifier checks it once, not for each call. */
__noinline int copy_short_in(context *ctx, struct short_frame *to, __u32 length)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (!to)
		return -1;
	for (__u32 at = 0; at + 8 <= SHORT_FRAME; at += 8) {
		if (at + 8 > length)
			break;
		if (data + at + 8 > end)
			return -1;
		*(__u64 *)(to->bytes + at) = *(const __u64 *)(data + at);
	}
	__u32 last = length - 8;
	if (last > SHORT_FRAME - 8 || data + last + 8 > end)
		return -1;
	*(__u64 *)(to->bytes + last) = *(const __u64 *)(data + last);
	return 0;
}

/* Copies a frame of SHORTEST_FRAME + 4 to SHORTEST_FRAME + 12 bytes into a slot, without a call; 0
 * if it has such a length and is contiguous. The last word overlaps the former ones. */
static __always_inline int copy_shortest_in(context *ctx, __u8 *to, __u32 length)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 last = length - 8;
	/* Two comparisons, see deliver_into. */
	asm volatile("" : "+r"(last));
	if (last > SHORTEST_FRAME + 4)
		return -1;
	asm volatile("" : "+r"(last));
	if (last < SHORTEST_FRAME - 8 || data + last + 8 > end)
		return -1;
	if (data + SHORTEST_FRAME + 4 > end)
		return -1;
#pragma unroll
	for (__u32 at = 0; at < SHORTEST_FRAME + 4; at += 8)
		*(__u64 *)(to + at) = *(const __u64 *)(data + at);
	*(__u64 *)(to + last) = *(const __u64 *)(data + last);
	return 0;
}

/* Flag of a delivery, like EUROPA_PORT_LOCAL_SENDER: a router's XDP program has handled the frame. */
#define DELIVER_SEEN 2

struct delivery {
	__u32 interface;
	/* Several functions have this struct on their stacks, which have 512 bytes together. */
	__u8 skip;   /* bytes before the frame that the router sees: the outer headers, 110 at most */
	__u8 front;  /* bytes of metadata of an XDP program that begin the frame, for a user part */
	__u16 flags; /* of the word */
#ifdef EUROPA_TC
	struct piece piece;
#endif
};

/* Bytes of the delivered frame, including skipped ones. */
static __always_inline __u32 delivered_bytes(context *ctx, const struct delivery *d)
{
#ifdef EUROPA_TC
	if (d->piece.bytes)
		return d->piece.bytes;
#endif
	return frame_bytes(ctx);
}

/* Bytes of a VLAN tag beside the frame that the copy includes. */
static __always_inline __u32 missing_tag(const struct delivery *d, const struct europa_interface *to)
{
#ifdef EUROPA_TC
	if (d->piece.tag_type && !d->skip && !(to->flags & EUROPA_IF_STRIP_VLAN))
		return 4;
#endif
	return 0;
}

/* Generic over the slot size, which is a constant in each of its uses. Returns the cause of a drop,
 * or 0. If `tapped` is set, taps get the copied frame, and `tapped` is cleared. */
static __always_inline __u32 deliver_into(context *ctx, void *pool, __u32 pool_word,
					  struct europa_pool_state *state,
					  struct europa_interface *to,
					  struct europa_counters *count, const struct delivery *d,
					  int complete, struct tapped *tapped,
					  const __u32 slot_bytes)
{
	const __u32 room = slot_bytes - EUROPA_RX_OFFSET_BYTES - EUROPA_RX_PLACES_MASK * 64 -
			   EUROPA_TAIL_BYTES;
	__u32 slots = state->slots;
	__u32 length = delivered_bytes(ctx, d);
	__u32 *rx_tail = &to->rx_tail[!!(pool_word & EUROPA_POOL_ODD)];

	/* A full ring is detected before anything is copied. */
	__u32 tail = *(volatile __u32 *)rx_tail;
	__u64 *around;
	__u64 *place = word_among(pool, slots, to->rx_first + (tail & to->rx_mask), &around,
				  slot_bytes);
	if (!is_free_place(place, rx_tail, tail)) {
		fall_behind(to);
		count->rx_drop_ring++;
		return CAUSE(rx_drop_ring);
	}
	if (!(tail & (BACKLOG_EVERY - 1)) && to->rx_mask >= EUROPA_RX_BACKLOG) {
		__u64 *old = word_at(pool, slots,
				     to->rx_first + ((tail - EUROPA_RX_BACKLOG) & to->rx_mask),
				     slot_bytes);
		if (!old || is_behind(to, *(volatile __u64 *)old != 0)) {
			count->rx_drop_ring++;
			return CAUSE(rx_drop_ring);
		}
	}
	if (length <= d->skip) {
		count->rx_drop_long++;
		return CAUSE(rx_drop_long);
	}
	const __u32 tag = missing_tag(d, to);
	length += tag - d->skip;
	if (length < 14 || length > room) {
		count->rx_drop_long++;
		return CAUSE(rx_drop_long);
	}
	__u64 word = ring_take(pool, slots, state->recycle_first, state->recycle_mask,
			       &state->recycle_head, slot_bytes);
	if (!word)
		word = ring_take(pool, slots, state->spare_first, state->spare_mask,
				 &state->spare_head, slot_bytes);
	if (!word)
		word = ring_take(pool, slots, state->fill_first, state->fill_mask,
				 &state->fill_head, slot_bytes);
	if (!word) {
		fall_behind(to);
		count->rx_drop_slots++;
		return CAUSE(rx_drop_slots);
	}
	__u32 slot = word >> EUROPA_WORD_SLOT_SHIFT & (slots - 1);
	__u8 *memory = bpf_map_lookup_elem(pool, &slot);
	if (!memory)
		return CAUSE(rx_drop_slots);
	/* Bounds for the verifier. The assembly keeps the compiler from removing them, from merging
	 * two comparisons into one of a difference, and from spilling the number before it is
	 * compared. Linux before 6.18 does not track a spilled number. */
	asm volatile("" : "+r"(length));
	if (length > room)
		return CAUSE(rx_drop_long);
	asm volatile("" : "+r"(length));
	if (length < 14)
		return CAUSE(rx_drop_long);
	asm volatile("" : "+r"(length));
	__u32 begin = EUROPA_RX_OFFSET_BYTES + (slot & EUROPA_RX_PLACES_MASK) * 64, offset = begin;
	__u32 partial = 0;
#ifdef EUROPA_TC
	const int is_piece = d->piece.bytes != 0;
#else
	const int is_piece = 0;
#endif
	if (complete & EUROPA_PORT_LOCAL_SENDER && !is_piece && (d->skip || !is_surely_complete(ctx))) {
		partial = partial_checksum(ctx, d->skip, length - tag);
		/* The transport header follows the tag. */
		partial = partial ? partial + tag : 0;
	}
	/* The ring entry is taken before the copy: a locked instruction would otherwise wait until the
	 * copy has left this CPU. The reader waits for the entry's word. */
	if (!take_place(pool, slots, rx_tail, to->rx_first, to->rx_mask, &tail, &place, &around,
			slot_bytes))
		goto give_back;
#ifdef EUROPA_TC
	if (d->skip || tag || is_piece || length > SHORT_FRAME ||
	    (copy_shortest_in(ctx, memory + begin, length) &&
	     copy_short_in(ctx, (struct short_frame *)(memory + begin), length))) {
		load_piece(ctx, &d->piece, d->skip, memory + begin, length, tag);
		if (is_piece && !d->skip)
			partial = make_segment(memory + begin + tag, &d->piece, tag);
	}
#else
	if (d->skip || length > SHORT_FRAME ||
	    (copy_shortest_in(ctx, memory + begin, length) &&
	     copy_short_in(ctx, (struct short_frame *)(memory + begin), length)))
		frame_load(ctx, d->skip, memory + begin, length);
#endif
	if (!EUROPA_TAGS_ASIDE && to->flags & EUROPA_IF_STRIP_VLAN && !(complete & DELIVER_SEEN)) {
		/* The addresses move over the tag, within the slot. */
		__u32 *frame = (__u32 *)(memory + offset);
		__u32 a = frame[0], b = frame[1], c = frame[2];
		frame[1] = a, frame[2] = b, frame[3] = c;
		offset += 4;
		length -= 4;
	}
#ifndef EUROPA_TC
	if (d->front) {
		/* The metadata stays in the slot, right before the frame. */
		__u32 front = d->front & 0xfc;
		offset += front;
		length -= front;
		((struct europa_metadata *)memory)->front = front;
	}
#endif
	__u32 checksum = partial ? complete_checksum(memory, begin, partial, slot_bytes) : 0;
	if (checksum) {
		count->rx_checksums++;
	}
	/* Captures get the frame before the router can write to the slot. */
	if (tapped && tapped->taps) {
		tapped->copy = (__u64)(memory + offset);
		tapped->length = length;
		tap(ctx, tapped);
		tapped->taps = 0;
	}

	word = free_word(slot) | length | (__u64)offset << EUROPA_WORD_OFFSET_SHIFT |
	       (__u64)to->local << EUROPA_WORD_INTERFACE_SHIFT |
	       (__u64)d->flags << EUROPA_WORD_FLAGS_SHIFT;
	publish(place, word);
	count->rx_packets++;
	count->rx_bytes += length;
	/* A reader that waits for the word before this one sleeps only when it has both. */
	__u32 before = to->rx_first + ((tail - 1) & to->rx_mask);
	if (before / (slot_bytes / 8) == (to->rx_first + (tail & to->rx_mask)) / (slot_bytes / 8) &&
	    *(volatile __u64 *)(around + (before & (slot_bytes / 8 - 1))))
		return 0;
	__u64 *header = word_at(pool, slots, 0, slot_bytes);
	if (header) {
		__u32 *asleep = (void *)header + __builtin_offsetof(struct europa_pool_header, asleep);
		if (*(volatile __u32 *)asleep) {
			*(volatile __u32 *)asleep = 0;
			/* A refused wake-up is retried on the next frame. */
			if (!wake(pool_word & ~EUROPA_POOL_ODD, state))
				*(volatile __u32 *)asleep = 1;
		}
	}
	return 0;
give_back:
	count->rx_drop_ring++;
	ring_append(pool, slots, state->recycle_first, state->recycle_mask, &state->recycle_tail,
		    free_word(slot), slot_bytes);
	return CAUSE(rx_drop_ring);
}

/* The time when work on a frame began, or 0: reading the clock for each frame would cost more than
 * finding the frame's owner. */
static __always_inline __u64 begin_sample(struct europa_counters *count, __u64 refused)
{
	__u64 offered = count->rx_packets + count->rx_drop_ring + count->rx_drop_slots +
			count->rx_drop_long + refused;
	return offered & 63 ? 0 : bpf_ktime_get_ns();
}

/* Copies the frame, without its first `skip` bytes, to interface `d->interface`. Not static, so
 * that the verifier checks it once, not for each call. */
__noinline int deliver(context *ctx, const struct delivery *d, int complete)
{
	if (!ctx || !d)
		return 0;
	__u32 id = d->interface;
	struct europa_interface *to = bpf_map_lookup_elem(&interfaces, &id);
	struct europa_counters *count = counters_of(id);
	if (!to || !count)
		return 0;
	__u32 pool_word = *(volatile __u32 *)&to->pool, pool = pool_word & ~EUROPA_POOL_ODD;
	struct europa_pool_state *state = bpf_map_lookup_elem(&pool_state, &pool);
	if (!state || !state->slots)
		return 0;
	struct tapped tapped = {
		.taps = complete & DELIVER_SEEN ? 0 : to->taps,
		.interface = id,
		.skip = d->skip,
		.direction = EUROPA_TAP_IN,
	};
	__u32 cause = 0;
	__u64 began = begin_sample(count, to->meter ? count->rx_drop_rate : 0);
	if (__builtin_expect(to->meter != 0, 0) && !(complete & DELIVER_SEEN) &&
	    !within_rate(to->meter, delivered_bytes(ctx, d))) {
		count->rx_drop_rate++;
		cause = CAUSE(rx_drop_rate);
	} else if (__builtin_expect(state->kind == EUROPA_POOL_USUAL, 1)) {
		void *memory = bpf_map_lookup_elem(&usual_pools, &pool);
		if (memory)
			cause = deliver_into(ctx, memory, pool_word, state, to, count, d, complete, &tapped,
					     EUROPA_SMALL_SLOT_BYTES);
	} else if (state->kind == EUROPA_POOL_LARGE) {
		void *memory = bpf_map_lookup_elem(&large_pools, &pool);
		if (memory)
			cause = deliver_into(ctx, memory, pool_word, state, to, count, d, complete, &tapped,
					     EUROPA_LARGE_SLOT_BYTES);
	} else {
		void *memory = bpf_map_lookup_elem(&small_pools, &pool);
		if (memory)
			cause = deliver_into(ctx, memory, pool_word, state, to, count, d, complete, &tapped,
					     EUROPA_SMALL_SLOT_BYTES);
	}
	if (tapped.taps) {
		__u32 tag = !EUROPA_TAGS_ASIDE && to->flags & EUROPA_IF_STRIP_VLAN ? 4 : 0;
		tapped.form = tag ? TAPPED_TAGGED : 0;
		tapped.length = delivered_bytes(ctx, d) - d->skip - tag;
		tapped.cause = cause;
		tap(ctx, &tapped);
	}
	if (began)
		count->rx_kernel_ns += (bpf_ktime_get_ns() - began) * 64;
	/* The compiler would leave an unused result undefined, and the verifier checks it. */
	int done = 0;
	asm volatile("" : "+r"(done));
	return done;
}

#ifdef EUROPA_TC
#include "long.h"

/* The maximum number of segments into which a packet is cut. */
#define MAX_SEGMENTS 1400

/* The progress of a packet's segmentation. */
struct cutting {
	context *ctx;
	struct delivery delivery;
	__u32 segment; /* bytes of payload; the last segment may have fewer */
	__u32 length;
	__u32 complete;
};

/* Delivers the next segment. Returns whether that was the last one. */
static long deliver_next(__u32 step, struct cutting *cutting)
{
	struct piece *piece = &cutting->delivery.piece;
	__u32 left = cutting->length - piece->headers - piece->from;
	int is_last = left <= cutting->segment;
	piece->is_last = is_last;
	piece->bytes = piece->headers + (is_last ? left : cutting->segment);
	if (deliver(cutting->ctx, &cutting->delivery, 1))
		return 1;
	piece->from += cutting->segment;
	piece->number++;
	return is_last;
}

/* Delivers a frame; cuts it into segments if this is still necessary. */
static __noinline int deliver_all(context *ctx, struct delivery *d, int complete)
{
	if (!ctx || !d)
		return 0;
	if (ctx->vlan_present) {
		d->piece.tag_type = ctx->vlan_proto;
		d->piece.tag = ctx->vlan_tci;
	}
	__u32 segment = ctx->gso_size;
	if (!segment)
		return deliver(ctx, d, complete);
	struct cutting cutting = { .ctx = ctx, .delivery = *d, .segment = segment, .length = ctx->len };
	struct piece *piece = &cutting.delivery.piece;
	if (!find_headers(ctx, piece) || piece->headers >= cutting.length) {
		struct europa_counters *count = counters_of(d->interface);
		if (count)
			count->rx_drop_long++;
		return 0;
	}
	bpf_loop(MAX_SEGMENTS, deliver_next, &cutting, 0);
	return 0;
}

/* Delivers an unsegmented packet uncut, if its router accepts such packets. For other packets,
 * returns false and does nothing. */
static __always_inline int deliver_usual(context *ctx, __u32 id, struct europa_interface *to,
					 int complete)
{
	return ctx->gso_size && !deliver_long(ctx, id);
}
#else
static __always_inline int deliver_all(context *ctx, const struct delivery *d, int complete)
{
	return deliver(ctx, d, complete);
}

/* The same without a call, for the common case: a whole frame for a usual pool whose interface has
 * neither captures nor a rate. For other frames, returns false and does nothing. */
static __always_inline int deliver_usual(context *ctx, __u32 id, struct europa_interface *to,
					 int complete)
{
	__u32 pool_word = *(volatile __u32 *)&to->pool, pool = pool_word & ~EUROPA_POOL_ODD;
	struct europa_pool_state *state = bpf_map_lookup_elem(&pool_state, &pool);
	struct europa_counters *count = counters_of(id);
	if (!state || !count || state->kind != EUROPA_POOL_USUAL || to->taps || to->meter)
		return 0;
	void *memory = bpf_map_lookup_elem(&usual_pools, &pool);
	if (!memory)
		return 0;
	const struct delivery whole = { .interface = id };
	__u64 began = begin_sample(count, 0);
	deliver_into(ctx, memory, pool_word, state, to, count, &whole, complete, 0,
		     EUROPA_SMALL_SLOT_BYTES);
	if (began)
		count->rx_kernel_ns += (bpf_ktime_get_ns() - began) * 64;
	return 1;
}
#endif

#endif
