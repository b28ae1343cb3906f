/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Ring operations of the substrate; the Rust twin, model-checked, is
 * crates/pool/src/ring.rs. Entries lie in the pool, where its router can write:
 * each is read once and masked. Cursors lie where it cannot.
 *
 * All functions are generic over the slot size, a constant once inlined.
 */
#ifndef EUROPA_RING_H
#define EUROPA_RING_H

#include "maps.h"

#define MAX_TRIES 4

/* Counts a try. Linux before 6.4 recognizes a loop only by its backward jump, so the comparison
 * must come last. */
static __always_inline int is_left(int *tries)
{
	int left = *tries - 1;
	asm volatile("" : "+r"(left));
	*tries = left;
	return left > 0;
}

/* Publishes a word to its reader, after all earlier writes. On x86 any store does, but the CPU may
 * read the sleep flag before others see the word: the sleeper keeps checking for longer than that
 * takes (crates/pool/src/unseen.rs). Elsewhere an exchange orders both. */
static __always_inline void publish(__u64 *to, __u64 word)
{
#if defined(__TARGET_ARCH_x86)
	asm volatile("" ::: "memory");
	*(volatile __u64 *)to = word;
	asm volatile("" ::: "memory");
#else
	__sync_lock_test_and_set(to, word);
#endif
}

/* Control word `word` of a pool with `slots` slots, and where the words around it begin. */
static __always_inline __u64 *word_among(void *pool, __u32 slots, __u32 word, __u64 **around,
					 const __u32 slot_bytes)
{
	const __u32 words_per_slot = slot_bytes / 8;
	__u32 index = slots + word / words_per_slot;
	__u64 *element = bpf_map_lookup_elem(pool, &index);
	if (!element)
		return 0;
	/* The verifier allows no arithmetic before this check. */
	asm volatile("" : "+r"(element));
	*around = element;
	return element + (word & (words_per_slot - 1));
}

static __always_inline __u64 *word_at(void *pool, __u32 slots, __u32 word, const __u32 slot_bytes)
{
	__u64 *around;
	return word_among(pool, slots, word, &around, slot_bytes);
}

/* Whether a place at the tail of a receive ring is free: empty, or another CPU has just moved on. */
static __always_inline int is_free_place(const __u64 *place, const __u32 *rx_tail, __u32 tail)
{
	return place && !(*(volatile __u64 *)place && *(volatile __u32 *)rx_tail == tail);
}

/* Takes the place at the tail of a receive ring that several CPUs fill. `tail`, `place` and
 * `around` hold the last known values, and get those of the taken entry; 0 if the ring is full. */
static __always_inline int take_place(void *pool, __u32 slots, __u32 *rx_tail, __u32 first,
				      __u32 mask, __u32 *tail, __u64 **place, __u64 **around,
				      const __u32 slot_bytes)
{
	int tries = MAX_TRIES;
	for (;;) {
		__u32 now = __sync_val_compare_and_swap(rx_tail, *tail, *tail + 1);
		if (now == *tail)
			return 1;
		/* Another CPU was here since this place was seen to be free. */
		*tail = now;
		*place = word_among(pool, slots, first + (now & mask), around, slot_bytes);
		if (!is_free_place(*place, rx_tail, now) || !is_left(&tries))
			return 0;
	}
}

/* Takes the oldest word of a ring with several takers; 0 when it is empty. */
static __always_inline __u64 ring_take(void *pool, __u32 slots, __u32 first, __u32 mask,
				       __u32 *head, const __u32 slot_bytes)
{
	for (int try = 0; try < MAX_TRIES; try++) {
		__u32 cursor = *(volatile __u32 *)head;
		__u64 *entry = word_at(pool, slots, first + (cursor & mask), slot_bytes);
		if (!entry)
			return 0;
		__u64 word = *(volatile __u64 *)entry;
		if (!(word & EUROPA_WORD_VALID)) {
			/* Empty, unless another taker was here between the two looks. */
			if (*(volatile __u32 *)head == cursor)
				return 0;
			continue;
		}
		if (__sync_val_compare_and_swap(head, cursor, cursor + 1) == cursor) {
			*(volatile __u64 *)entry = 0;
			return word;
		}
	}
	return 0;
}

/* Adds a word to a ring that has room for every slot. */
static __always_inline void ring_append(void *pool, __u32 slots, __u32 first, __u32 mask,
					__u32 *tail, __u64 word, const __u32 slot_bytes)
{
	__u32 cursor = __sync_fetch_and_add(tail, 1);
	__u64 *entry = word_at(pool, slots, first + (cursor & mask), slot_bytes);
	if (entry)
		*(volatile __u64 *)entry = word;
}

static __always_inline __u64 free_word(__u32 slot)
{
	return EUROPA_WORD_VALID | (__u64)slot << EUROPA_WORD_SLOT_SHIFT;
}

/* Frames up to this length are copied by words: a helper call and the kernel's memcpy
 * take 50 ns however short a frame is, this takes about 10 for one of 64 bytes. */
#define SHORT_FRAME 128
/* Most of them have this length, or a few bytes more. */
#define SHORTEST_FRAME 60

/* Copies `length` (8 to SHORT_FRAME) bytes out of a slot into the frame; 0 if the frame has that
 * length and is contiguous. The last word overlaps the former one. */
static __always_inline int copy_short_out(struct xdp_md *ctx, const __u8 *from, __u32 length)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 at = 0;
	/* Most frames are the shortest ones: they are copied without a check for each word. */
	if (length >= SHORTEST_FRAME && data + SHORTEST_FRAME <= end) {
#pragma unroll
		for (; at < SHORTEST_FRAME - 4; at += 8)
			*(__u64 *)(data + at) = *(const __u64 *)(from + at);
	}
	for (; at + 8 <= SHORT_FRAME; at += 8) {
		if (at + 8 > length)
			break;
		if (data + at + 8 > end)
			return -1;
		*(__u64 *)(data + at) = *(const __u64 *)(from + at);
	}
	__u32 last = (length - 8) & (SHORT_FRAME - 1);
	__u8 *to = data + last;
	if (to + 8 > end)
		return -1;
	*(__u64 *)to = *(const __u64 *)(from + last);
	return 0;
}

#endif
