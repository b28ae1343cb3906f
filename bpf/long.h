/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Copies an unsegmented packet of TCP (a super-packet) into a long slot of a pool whose router
 * accepts such packets. The switch gives it to a device that segments it, or segments it itself.
 */
#ifndef EUROPA_LONG_H
#define EUROPA_LONG_H

#include "fence.h"
#include "piece.h"
#include "ring.h"

/* Shorter packets are segmented here: a super-packet is longer than any live frame. */
#define LONG_LEAST 4096
/* Packets with smaller segments are segmented here: no sender of a stream makes them
 * (TCP_MIN_SND_MSS). */
#define LONG_SEGMENT 48
/* More are cut: the end of a packet in its slot is a number of 16 bits. */
#define LONG_MOST (EUROPA_LONG_SLOT_BYTES - 1 - EUROPA_RX_OFFSET_BYTES - EUROPA_TAIL_BYTES)

#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_URG 0x20
#define IP_DF bpf_htons(0x4000)

/* Whether the headers are those of a usual stream, which the switch supports: no tag; IPv4 without
 * options and with DF, or IPv6 without extension headers; and only flags that apply to all
 * segments. */
static __always_inline int is_plain_stream(context *ctx, const struct piece *piece)
{
	__u8 ip[8], flags;
	if (!piece->is_tcp || piece->network != 14 || ctx->vlan_present ||
	    piece->transport != (piece->is_ipv4 ? 34 : 54) || piece->headers < piece->transport + 20)
		return 0;
	if (frame_load(ctx, 14, ip, sizeof(ip)) || frame_load(ctx, piece->transport + 13, &flags, 1))
		return 0;
	if (flags & (TCP_SYN | TCP_RST | TCP_URG))
		return 0;
	return !piece->is_ipv4 || (ip[0] == 0x45 && *(__u16 *)(ip + 6) == IP_DF);
}

/* Copies `length` bytes to the elements of a long slot, which begins at `memory`; 0 on success. */
static __always_inline int load_long(context *ctx, void *pool, __u8 *memory, __u32 element,
				     __u32 length, const __u32 slot_bytes)
{
	const __u32 begin = EUROPA_RX_OFFSET_BYTES;
	__u32 at = slot_bytes - begin;
	if (frame_load(ctx, 0, memory + begin, slot_bytes - begin))
		return -1;
	for (__u32 i = 1; i < EUROPA_LONG_SLOT_BYTES / slot_bytes; i++) {
		__u32 left = length - at;
		asm volatile("" : "+r"(left));
		if (left < 1)
			return 0;
		element++;
		__u8 *next = bpf_map_lookup_elem(pool, &element);
		if (!next)
			return -1;
		if (left >= slot_bytes) {
			if (frame_load(ctx, at, next, slot_bytes))
				return -1;
			at += slot_bytes;
			continue;
		}
		/* Bounds that the verifier understands, as in deliver_into. */
		asm volatile("" : "+r"(left));
		if (left >= slot_bytes)
			return -1;
		asm volatile("" : "+r"(left));
		if (left < 1)
			return -1;
		return frame_load(ctx, at, next, left) ? -1 : 0;
	}
	return 0;
}

/* Generic over the slot size, like deliver_into. 0 if the packet is delivered or dropped; else it
 * must be segmented. */
static __always_inline int deliver_long_into(context *ctx, void *pool, __u32 pool_word,
					     struct europa_pool_state *state,
					     struct europa_interface *to,
					     struct europa_counters *count, __u32 headers,
					     const __u32 slot_bytes)
{
	__u32 slots = state->slots, long_slots = state->long_slots;
	__u32 length = ctx->len, segment = ctx->gso_size;
	if (!long_slots || length < LONG_LEAST || length < slot_bytes || length > LONG_MOST ||
	    segment < LONG_SEGMENT || length <= headers + segment)
		return -1;
	__u32 excess = length - headers - segment;
	__u32 frames = (excess + segment - 1) / segment + 1;
	__u64 *header = word_at(pool, slots, 0, slot_bytes);
	if (!header)
		return -1;
	__u32 *asleep = (void *)header + __builtin_offsetof(struct europa_pool_header, asleep);
	if (!*(volatile __u32 *)(asleep + 1))
		return -1;

	__u32 *rx_tail = &to->rx_tail[!!(pool_word & EUROPA_POOL_ODD)];
	__u32 tail = *(volatile __u32 *)rx_tail;
	__u64 *around;
	__u64 *place = word_among(pool, slots, to->rx_first + (tail & to->rx_mask), &around,
				  slot_bytes);
	if (!is_free_place(place, rx_tail, tail)) {
		count->rx_drop_ring += frames;
		return 0;
	}
	__u64 word = ring_take(pool, slots, state->long_recycle_first, long_slots - 1,
			       &state->long_recycle_head, slot_bytes);
	if (!word)
		word = ring_take(pool, slots, state->long_fill_first, long_slots - 1,
				 &state->long_fill_head, slot_bytes);
	if (!word)
		return -1;
	__u32 slot = word >> EUROPA_WORD_SLOT_SHIFT & (long_slots - 1);
	__u32 element = state->long_first + slot * (EUROPA_LONG_SLOT_BYTES / slot_bytes);
	__u8 *memory = bpf_map_lookup_elem(pool, &element);
	if (!memory)
		return -1;
	if (load_long(ctx, pool, memory, element, length, slot_bytes))
		goto give_back;
	struct europa_metadata *metadata = (void *)memory;
	metadata->segment = segment;
	metadata->excess = excess;

	if (!take_place(pool, slots, rx_tail, to->rx_first, to->rx_mask, &tail, &place, &around,
			slot_bytes))
		goto give_back;
	word = free_word(EUROPA_LONG_SLOT | slot) | length |
	       (__u64)EUROPA_RX_OFFSET_BYTES << EUROPA_WORD_OFFSET_SHIFT |
	       (__u64)to->local << EUROPA_WORD_INTERFACE_SHIFT;
	publish(place, word);
	count->rx_packets += frames;
	count->rx_bytes += length + (frames - 1) * headers;
	if (*(volatile __u32 *)asleep) {
		*(volatile __u32 *)asleep = 0;
		/* A refused wake-up is retried on the next frame. */
		if (!wake(pool_word & ~EUROPA_POOL_ODD, state))
			*(volatile __u32 *)asleep = 1;
	}
	return 0;
give_back:
	ring_append(pool, slots, state->long_recycle_first, long_slots - 1,
		    &state->long_recycle_tail, free_word(EUROPA_LONG_SLOT | slot), slot_bytes);
	return -1;
}

/* Delivers a super-packet uncut; 0 if it is delivered or dropped. Not static, so that the verifier
 * checks it once. */
__noinline int deliver_long(context *ctx, __u32 id)
{
	struct europa_interface *to = bpf_map_lookup_elem(&interfaces, &id);
	struct europa_counters *count = counters_of(id);
	/* A capture shows frames as on a wire, and a rate counts them, so neither gets super-packets.
	 */
	if (!ctx || !to || !count || to->taps || to->meter ||
	    to->flags & (EUROPA_IF_STRIP_VLAN | EUROPA_IF_VXLAN) || is_fenced(to))
		return -1;
	struct piece piece = {};
	if (!find_headers(ctx, &piece) || !is_plain_stream(ctx, &piece))
		return -1;
	__u32 headers = piece.headers;
	__u32 pool_word = *(volatile __u32 *)&to->pool, pool = pool_word & ~EUROPA_POOL_ODD;
	struct europa_pool_state *state = bpf_map_lookup_elem(&pool_state, &pool);
	if (!state || !state->slots)
		return -1;
	__u64 began = bpf_ktime_get_ns();
	int cut = -1;
	if (state->kind == EUROPA_POOL_USUAL) {
		void *memory = bpf_map_lookup_elem(&usual_pools, &pool);
		if (memory)
			cut = deliver_long_into(ctx, memory, pool_word, state, to, count, headers,
						EUROPA_SMALL_SLOT_BYTES);
	} else if (state->kind == EUROPA_POOL_LARGE) {
		void *memory = bpf_map_lookup_elem(&large_pools, &pool);
		if (memory)
			cut = deliver_long_into(ctx, memory, pool_word, state, to, count, headers,
						EUROPA_LARGE_SLOT_BYTES);
	} else {
		void *memory = bpf_map_lookup_elem(&small_pools, &pool);
		if (memory)
			cut = deliver_long_into(ctx, memory, pool_word, state, to, count, headers,
						EUROPA_SMALL_SLOT_BYTES);
	}
	if (!cut)
		count->rx_kernel_ns += bpf_ktime_get_ns() - began;
	asm volatile("" : "+r"(cut));
	return cut;
}

#endif
