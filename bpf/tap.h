/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Taps: copies of an interface's frames for `europa capture`. An interface without a capture costs
 * one read of a word in a cache line that is already loaded. A captured interface costs a bounded
 * number of copies a second: its tap's rate. A tap wakes no process: the reader polls.
 */
#ifndef EUROPA_TAP_H
#define EUROPA_TAP_H

#include "context.h"
#include "maps.h"

/* Number of a drop counter, as records carry it. */
#define CAUSE(counter) ((__u32)(__builtin_offsetof(struct europa_counters, counter) / 8))

/* The router does not see the VLAN tag. */
#define TAPPED_TAGGED 1
/* The frame does not hold it. */
#define TAPPED_NOTHING 2

/* The copied part. Linux before 6.13 allows 512 bytes of stack for all nested calls. */
struct tapped {
	__u64 copy; /* address of the router's copy; 0: the frame is as it sees it */
	__u32 taps;
	__u32 interface;
	__u16 length;   /* as the router sees it */
	__u16 skip;     /* bytes before the router's view */
	__u8 form; /* TAPPED_ */
	__u8 direction;
	__u8 cause;
	__u8 way;
};

/* Whether this tap's rate has room for a record. Racing CPUs may let a few more through. */
static __always_inline int tap_allows(struct europa_tap_side *side, __u64 rate, __u64 now)
{
	__u64 since = now - side->refilled_ns;
	/* Another CPU may have refilled since this one looked at the clock. */
	if ((__s64)since > 1000000) {
		__u64 most = rate / 8 + 1024;
		__u64 fresh = since > 1000000000 ? rate : (since / 1000) * rate / 1000000;
		__s64 tokens = side->tokens + (__s64)fresh;
		side->tokens = tokens > (__s64)most ? (__s64)most : tokens;
		side->refilled_ns = now;
	}
	if (side->tokens <= 0)
		return 0;
	side->tokens--;
	return 1;
}

/* Copies into a record of `bytes`, a constant in each of its uses; 0 on success. */
static __always_inline int tap_into(context *ctx, void *ring, const struct tapped *t,
				    __u64 now, __u64 frame, __u32 captured,
				    const __u32 bytes)
{
	const __u32 room = bytes - sizeof(struct europa_record);
	struct europa_record *record = bpf_ringbuf_reserve(ring, bytes, 0);
	if (!record)
		return -1;
	__u8 *data = (void *)(record + 1);
	record->time_ns = now;
	record->interface = t->interface;
	record->length = t->length;
	record->direction = t->direction;
	record->cause = t->cause;
	record->way = t->way;
	record->frame = frame;
	asm volatile("" : "+r"(captured));
	if (captured > room)
		captured = room;
	__u32 skip = t->skip;
	if (captured <= 12) {
		captured = 0;
	} else if (t->copy) {
		if (bpf_probe_read_kernel(data, captured, (void *)t->copy))
			captured = 0;
	} else if (t->form & TAPPED_TAGGED) {
		if (frame_load(ctx, skip, data, 12) ||
		    frame_load(ctx, skip + 16, data + 12, captured - 12))
			captured = 0;
	} else if (frame_load(ctx, skip, data, captured)) {
		captured = 0;
	}
	record->captured = captured;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The number that all records of one frame of a kernel router's program share. */
static __always_inline __u64 frame_number(const struct tapped *t)
{
#ifdef EUROPA_CAGES
	__u32 zero = 0;
	struct europa_caged *caged_now = bpf_map_lookup_elem(&caged, &zero);
	if (caged_now && (t->way == EUROPA_WAY_CAGE || t->way == EUROPA_WAY_VERDICT))
		return (__u64)(bpf_get_smp_processor_id() + 1) << 32 | caged_now->number;
#endif
	return 0;
}

/* Copies the frame for every tap that wants it. Not static, so that the verifier checks it once,
 * not for every state of a caller. */
__noinline int tap(context *ctx, const struct tapped *t)
{
	if (!ctx || !t)
		return 0;
	__u64 now = bpf_ktime_get_ns(), frame = frame_number(t);
	for (__u32 i = 0; i < EUROPA_MAX_TAPS; i++) {
		__u32 number = i;
		if (!(t->taps & 1u << i))
			continue;
		struct europa_tap *state = bpf_map_lookup_elem(&tap_state, &number);
		void *ring = bpf_map_lookup_elem(&tap_rings, &number);
		if (!state || !ring)
			continue;
		struct europa_tap_side *side =
			t->direction == EUROPA_TAP_IN ? &state->received : &state->sent;
		if (!tap_allows(side, state->rate, now)) {
			__sync_fetch_and_add(&side->lost_rate, 1);
			continue;
		}
		__u32 captured = t->form & TAPPED_NOTHING ? 0 : t->length;
		if (captured > state->snaplen)
			captured = state->snaplen;
		int lost;
		if (captured <= 128 - 32)
			lost = tap_into(ctx, ring, t, now, frame, captured, 128);
		else if (captured <= 512 - 32)
			lost = tap_into(ctx, ring, t, now, frame, captured, 512);
		else if (captured <= 2048 - 32)
			lost = tap_into(ctx, ring, t, now, frame, captured, 2048);
		else if (captured <= 10240 - 32)
			lost = tap_into(ctx, ring, t, now, frame, captured, 10240);
		else
			lost = tap_into(ctx, ring, t, now, frame, captured, 16384);
		if (lost)
			__sync_fetch_and_add(&side->lost_room, 1);
	}
	return 0;
}

#endif
