/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The transmit program: run by a switch worker in live-frame mode, once for each descriptor of its
 * transmit list. Copies the frame out of its router's pool, checks the copy, which only this
 * program can write, and sends it.
 */
#include "egress.h"
#include "fence.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Which worker runs this instance. */
const volatile __u32 worker = 0;

/* Sets the length of a recycled frame: it has its former contents. */
static __always_inline int set_length(struct xdp_md *ctx, __u32 length)
{
	/* The frame is contiguous. */
	int change = (int)length - (int)(ctx->data_end - ctx->data);
	return change ? bpf_xdp_adjust_tail(ctx, change) : 0;
}

/* Copies the frame behind its outer headers; 0 if that is possible. */
static __always_inline int copy_out(struct xdp_md *ctx, __u32 id, struct europa_interface *from,
				    void *pool, __u32 slots, __u64 word, const __u32 slot_bytes)
{
	__u32 slot = word >> EUROPA_WORD_SLOT_SHIFT & (slots - 1);
	__u32 offset = word >> EUROPA_WORD_OFFSET_SHIFT & EUROPA_WORD_OFFSET_MASK;
	__u32 length = word & EUROPA_WORD_LENGTH_MASK;
	__u8 *memory = bpf_map_lookup_elem(pool, &slot);
	if (!memory)
		return -1;
	asm volatile("" : "+r"(length), "+r"(offset));
	if (length < 14 || length > from->max_frame || offset + length > slot_bytes)
		return -1;
	if (length > EUROPA_MAX_LIVE_FRAME - MAX_ENCAP)
		return -1;
	/* The verifier does not relate two variables: it needs a bound for each of them, with a sum that
	 * fits. The contents of a small slot fit one of these cases (except a frame of over 1536 bytes
	 * that a router has moved back, which is refused). */
	if (offset <= 384) {
		if (length > slot_bytes - 384)
			return -1;
	} else if (offset <= 512) {
		if (length > slot_bytes - 512)
			return -1;
	} else if (offset > 1023 || length > slot_bytes - 1023) {
		return -1;
	}
	__u8 *frame = memory + offset;
	if (from->flags & EUROPA_IF_VXLAN)
		return encapsulate(ctx, id, frame, length);
	if (from->flags & EUROPA_IF_STRIP_VLAN) {
		__u32 tag = bpf_htonl(0x81000000u | from->vlan);
		if (bpf_xdp_store_bytes(ctx, 0, frame, 12) ||
		    bpf_xdp_store_bytes(ctx, 12, &tag, 4))
			return -1;
		return bpf_xdp_store_bytes(ctx, 16, frame + 12, length - 12);
	}
	if (length <= SHORT_FRAME && !copy_short_out(ctx, frame, length))
		return 0;
	return bpf_xdp_store_bytes(ctx, 0, frame, length);
}

/* Returns the slot to the ring that its word names: the frame has been sent. */
static __always_inline void give_back_into(void *pool, struct europa_pool_state *state, __u64 word,
					   const __u32 slot_bytes)
{
	__u32 slots = state->slots;
	__u64 slot = free_word(word >> EUROPA_WORD_SLOT_SHIFT & (slots - 1));
	if (word >> EUROPA_WORD_FLAGS_SHIFT & EUROPA_WORD_RETURN)
		ring_append(pool, slots, state->done_first, state->done_mask, &state->done_tail,
			    slot, slot_bytes);
	else
		ring_append(pool, slots, state->recycle_first, state->recycle_mask,
			    &state->recycle_tail, slot, slot_bytes);
}

/* Copies a frame out of its pool and returns the slot. Returns the cause if there is no copy, or 0. */
static __always_inline __u32 take(struct xdp_md *ctx, __u32 id, struct europa_interface *from,
				  struct europa_pool_state *state, __u32 pool_id, __u64 word,
				  void *pools, struct europa_counters *count,
				  const __u32 slot_bytes)
{
	void *pool = bpf_map_lookup_elem(pools, &pool_id);
	if (!pool) {
		count->tx_drop_pool++;
		return CAUSE(tx_drop_pool);
	}
	__u32 refused = copy_out(ctx, id, from, pool, state->slots, word, slot_bytes);
	if (refused) {
		count->tx_drop_length++;
		refused = CAUSE(tx_drop_length);
	}
	give_back_into(pool, state, word, slot_bytes);
	return refused;
}

SEC("xdp") int europa_transmit(struct xdp_md *ctx)
{
	__u32 self = worker;
	struct europa_worker *list = bpf_map_lookup_elem(&workers, &self);
	if (!list)
		return XDP_DROP;
	__u32 head = *(volatile __u32 *)&list->head;
	__u32 place = self * EUROPA_TRANSMIT_LIST + (head & (EUROPA_TRANSMIT_LIST - 1));
	struct europa_transmit *next = bpf_map_lookup_elem(&transmit_list, &place);
	if (!next || head == *(volatile __u32 *)&list->tail)
		return XDP_DROP;
	__u64 word = next->word;
	__u32 id = next->interface, pool_id = next->pool;
	*(volatile __u32 *)&list->head = head + 1;

	struct europa_interface *from = bpf_map_lookup_elem(&interfaces, &id);
	struct europa_pool_state *state = bpf_map_lookup_elem(&pool_state, &pool_id);
	struct europa_counters *count = counters_of(id);
	if (!from || !state || !count)
		return XDP_DROP;
	__u32 length = word & EUROPA_WORD_LENGTH_MASK;
	/* A length that no frame can have fails in copy_out, which counts it. */
	__u32 whole = (length + before_frame(id, from)) & 0xfff;
	if (length >= 14 && set_length(ctx, whole))
		length = 0;
	__u32 cause;
	if (state->kind == EUROPA_POOL_USUAL)
		cause = take(ctx, id, from, state, pool_id, word, &usual_pools, count,
			     EUROPA_SMALL_SLOT_BYTES);
	else if (state->kind == EUROPA_POOL_LARGE)
		cause = take(ctx, id, from, state, pool_id, word, &large_pools, count,
			     EUROPA_LARGE_SLOT_BYTES);
	else
		cause = take(ctx, id, from, state, pool_id, word, &small_pools, count,
			     EUROPA_SMALL_SLOT_BYTES);
	/* Without a copy the frame has its former contents, possibly of another router. */
	__u32 copied = !cause;
	if (!cause && is_fenced(from)) {
		count->tx_drop_fenced++;
		cause = CAUSE(tx_drop_fenced);
	}
	if (!cause)
		cause = refusal(ctx, id, from, count);
	if (from->taps) {
		struct tapped tapped = {
			.taps = from->taps,
			.interface = id,
			.length = word & EUROPA_WORD_LENGTH_MASK,
			.skip = from->flags & EUROPA_IF_VXLAN ? before_frame(id, from) : 0,
			.form = (!(from->flags & EUROPA_IF_VXLAN) && from->flags & EUROPA_IF_STRIP_VLAN
					 ? TAPPED_TAGGED : 0) | (copied ? 0 : TAPPED_NOTHING),
			.direction = EUROPA_TAP_OUT,
			.cause = cause,
			.way = EUROPA_WAY_LIVE,
		};
		tap(ctx, &tapped);
	}
	if (cause)
		return XDP_DROP;
	count->tx_packets++;
	count->tx_bytes += length;
	return bpf_redirect_map(&devices, from->port, XDP_DROP);
}
