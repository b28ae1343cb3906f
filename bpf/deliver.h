/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Copies the frame of a receive program into a free slot of a router's pool. */
#ifndef EUROPA_DELIVER_H
#define EUROPA_DELIVER_H

#include "checksum.h"
#include "meter.h"
#include "ring.h"
#include "tap.h"

/* Wake-ups that one router may cause: this many a second, and as many at once. */
#define WAKES_PER_SECOND 200000
#define WAKES_AT_ONCE 512

/* Wakes a router that has set its sleep flag and waits on its waker. A router that
 * keeps setting the flag is woken only so often: a wake-up costs the receiving CPU
 * about a microsecond, and would otherwise be paid by everybody behind it. 0 if it must wait. */
static __noinline int wake(__u32 pool, struct europa_pool_state *state)
{
	__u64 now = bpf_ktime_get_ns();
	if (!state)
		return 0;
	__u64 since = now - state->wake_refilled_ns;
	/* Another CPU may have refilled since this one looked at the clock. */
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

/* A backlog may exceed EUROPA_RX_BACKLOG for so long. */
#define BURST_NS 100000000ull
/* A router that was behind is, until no longer backlog was seen for so long. */
#define BEHIND_NS 20000000ull
/* The backlog is looked at once in so many packets: the other CPU has just written there. */
#define BACKLOG_EVERY 64

/* The router is behind: what it can hold did not do. */
static __always_inline void fall_behind(struct europa_interface *to)
{
	to->behind_until = bpf_ktime_get_coarse_ns() + BEHIND_NS;
}

/* Whether a router that has a long backlog now, or has none, is behind. One that was without a
 * core for a moment catches up; what waits for one that cannot is only delay, and cold slots. */
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

/* Copies a frame of `length` (8 to SHORT_FRAME) bytes into a slot; 0 if it lies in one piece. Not
 * static: so it is verified once, and not with each way that leads here. */
__noinline int copy_short_in(struct xdp_md *ctx, struct short_frame *to, __u32 length)
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

/* Copies a frame of SHORTEST_FRAME + 4 to SHORTEST_FRAME + 12 bytes into a slot, without a call; 0 if
 * it is that long and lies in one piece. The last word overlaps those before. */
static __always_inline int copy_shortest_in(struct xdp_md *ctx, __u8 *to, __u32 length)
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

struct delivery {
	__u32 interface;
	__u16 skip;  /* bytes before the frame that the router sees */
	__u16 flags; /* of the word */
};

/* Generic over the slot size, which is a constant in each of its uses. Returns why the
 * frame was dropped, or 0; `tapped`, if there is one, gets what the copy has different from the
 * frame. */
static __always_inline __u32 deliver_into(struct xdp_md *ctx, void *pool, __u32 pool_word,
					  struct europa_pool_state *state,
					  struct europa_interface *to,
					  struct europa_counters *count, const struct delivery *d,
					  int complete, struct tapped *tapped,
					  const __u32 slot_bytes)
{
	const __u32 room = slot_bytes - EUROPA_RX_OFFSET_BYTES - EUROPA_RX_PLACES_MASK * 64 -
			   EUROPA_TAIL_BYTES;
	__u32 slots = state->slots;
	__u32 length = bpf_xdp_get_buff_len(ctx);
	__u32 *rx_tail = &to->rx_tail[!!(pool_word & EUROPA_POOL_ODD)];

	/* A router that does not drain its ring is found out before anything is copied. */
	__u32 tail = *(volatile __u32 *)rx_tail;
	__u64 *around;
	__u64 *place = word_among(pool, slots, to->rx_first + (tail & to->rx_mask), &around,
				  slot_bytes);
	if (!place || (*(volatile __u64 *)place && *(volatile __u32 *)rx_tail == tail)) {
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
	length -= d->skip;
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
	/* Bounds that the verifier understands, where the compiler cannot undo them, nor make one
	 * comparison of a difference out of two, nor put the number aside before it is compared,
	 * which Linux before 6.18 does not follow. */
	asm volatile("" : "+r"(length));
	if (length > room)
		return CAUSE(rx_drop_long);
	asm volatile("" : "+r"(length));
	if (length < 14)
		return CAUSE(rx_drop_long);
	asm volatile("" : "+r"(length));
	__u32 begin = EUROPA_RX_OFFSET_BYTES + (slot & EUROPA_RX_PLACES_MASK) * 64, offset = begin;
	__u32 partial = 0;
	if (complete && (d->skip || !is_surely_complete(ctx)))
		partial = partial_checksum(ctx, d->skip, length);
	/* The place is taken first: what orders CPUs would otherwise wait until the copy has left
	 * this one. Who reads there waits for the word. */
	int tries = MAX_TRIES;
	for (;;) {
		__u32 now = __sync_val_compare_and_swap(rx_tail, tail, tail + 1);
		if (now == tail)
			break;
		/* Another CPU was here since this place was seen to be free. */
		tail = now;
		place = word_among(pool, slots, to->rx_first + (tail & to->rx_mask), &around,
				   slot_bytes);
		if (!place || (*(volatile __u64 *)place && *(volatile __u32 *)rx_tail == tail))
			goto give_back;
		if (!is_left(&tries))
			goto give_back;
	}
	if (d->skip || length > SHORT_FRAME ||
	    (copy_shortest_in(ctx, memory + begin, length) &&
	     copy_short_in(ctx, (struct short_frame *)(memory + begin), length)))
		bpf_xdp_load_bytes(ctx, d->skip, memory + begin, length);
	if (to->flags & EUROPA_IF_STRIP_VLAN) {
		/* The addresses move over the tag, within the slot. */
		__u32 *frame = (__u32 *)(memory + offset);
		__u32 a = frame[0], b = frame[1], c = frame[2];
		frame[1] = a, frame[2] = b, frame[3] = c;
		offset += 4;
		length -= 4;
	}
	__u32 checksum = partial ? complete_checksum(memory, begin, partial, slot_bytes) : 0;
	if (checksum) {
		count->rx_checksums++;
		if (tapped && tapped->taps && checksum < slot_bytes - 1) {
			tapped->patch_at = checksum - offset;
			tapped->patch = load16(memory + checksum);
		}
	}

	word = free_word(slot) | length | (__u64)offset << EUROPA_WORD_OFFSET_SHIFT |
	       (__u64)to->local << EUROPA_WORD_INTERFACE_SHIFT |
	       (__u64)d->flags << EUROPA_WORD_FLAGS_SHIFT;
	publish(place, word);
	count->rx_packets++;
	count->rx_bytes += length;
	/* Whoever has the word before this one still to come does not sleep before both. */
	__u32 before = to->rx_first + ((tail - 1) & to->rx_mask);
	if (before / (slot_bytes / 8) == (to->rx_first + (tail & to->rx_mask)) / (slot_bytes / 8) &&
	    *(volatile __u64 *)(around + (before & (slot_bytes / 8 - 1))))
		return 0;
	__u64 *header = word_at(pool, slots, 0, slot_bytes);
	if (header) {
		__u32 *asleep = (void *)header + __builtin_offsetof(struct europa_pool_header, asleep);
		if (*(volatile __u32 *)asleep) {
			*(volatile __u32 *)asleep = 0;
			/* Who was not woken now is to be by a later frame. */
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

/* When work on a frame began, or 0: to read the clock for each frame would cost more than to find
 * its owner. */
static __always_inline __u64 begin_sample(struct europa_counters *count, __u64 refused)
{
	__u64 offered = count->rx_packets + count->rx_drop_ring + count->rx_drop_slots +
			count->rx_drop_long + refused;
	return offered & 63 ? 0 : bpf_ktime_get_ns();
}

/* Copies the frame, less its first `skip` bytes, to interface `d->interface`. */
static __noinline int deliver(struct xdp_md *ctx, const struct delivery *d, int complete)
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
	struct tapped tapped = { .taps = to->taps };
	__u32 cause = 0;
	__u64 began = begin_sample(count, to->meter ? count->rx_drop_rate : 0);
	if (__builtin_expect(to->meter != 0, 0) &&
	    !within_rate(to->meter, bpf_xdp_get_buff_len(ctx))) {
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
		__u32 tag = to->flags & EUROPA_IF_STRIP_VLAN ? 4 : 0;
		tapped.interface = id;
		tapped.skip = d->skip;
		tapped.tagged = tag != 0;
		tapped.length = bpf_xdp_get_buff_len(ctx) - d->skip - tag;
		tapped.direction = EUROPA_TAP_IN;
		tapped.cause = cause;
		tap(ctx, &tapped);
	}
	if (began)
		count->rx_kernel_ns += (bpf_ktime_get_ns() - began) * 64;
	return 0;
}

/* The same without a call, for what most frames are: whole ones, for a pool of the usual kind whose
 * interface has neither captures nor a rate. False, and nothing done, for another one. */
static __always_inline int deliver_usual(struct xdp_md *ctx, __u32 id, struct europa_interface *to,
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
