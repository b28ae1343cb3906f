/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Entry into the cage of a router's XDP program. The program gets a frame as its router would:
 * policed, without the VLAN's tag, and with a complete checksum.
 */
#ifndef EUROPA_ENTER_H
#define EUROPA_ENTER_H

#include "deliver.h"

/* Counts a frame that has no program. */
static __always_inline void lose(__u32 id)
{
	struct europa_counters *count = counters_of(id);
	if (count)
		count->rx_drop_aborted++;
}

#ifdef EUROPA_TC
/* A port with a kernel router receives by XDP. Only frames that arrived before the port's change
 * get here; they are dropped, so that no frame avoids the program. */
#define ENTER_CAGE(ctx, id, row, complete) lose(id)
#else

/* Completes a partial checksum in the frame itself. */
static __noinline int complete_in_frame(struct xdp_md *ctx, __u32 partial)
{
	__u32 zero = 0, transport = partial & 1023, field = partial >> 10 & 31;
	__u32 size = partial >> 16;
	struct cage_frame *copy = bpf_map_lookup_elem(&cage_frames, &zero);
	if (!copy)
		return 0;
	asm volatile("" : "+r"(size));
	if (size > EUROPA_LARGE_SLOT_BYTES - MAX_TRANSPORT - 8)
		return 0;
	asm volatile("" : "+r"(size));
	if (size < 8)
		return 0;
	if (bpf_xdp_load_bytes(ctx, transport, copy->bytes, size))
		return 0;
	if (!complete_checksum(copy->bytes, 0, partial & ~1023u, EUROPA_LARGE_SLOT_BYTES))
		return 0;
	return !bpf_xdp_store_bytes(ctx, transport + field, copy->bytes + field, 2);
}

/* Removes the outer VLAN tag of a frame; 0 on success. */
static __always_inline int strip_tag(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 18 > end)
		return -1;
	__u32 *frame = (__u32 *)data;
	__u32 a = frame[0], b = frame[1], c = frame[2];
	frame[1] = a, frame[2] = b, frame[3] = c;
	return bpf_xdp_adjust_head(ctx, 4);
}

/* Removes a frame's note of how many links between kernel routers it has crossed. The judge of the
 * former router wrote it (bpf/judge.h). Frames from the switch have no note. */
static __always_inline __u32 take_hops(struct xdp_md *ctx)
{
	__u32 *note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return 0;
	__u32 hops = *note;
	return bpf_xdp_adjust_meta(ctx, 4) ? EUROPA_CAGE_HOPS : hops;
}

static __always_inline void note_entry(struct europa_caged *now, __u32 id, __u32 bytes)
{
	now->interface = id;
	now->bytes = bytes;
	now->target = EUROPA_NONE;
	now->verdict = 0;
	now->metadata = 0;
	now->resized = 0;
	now->hops = 0;
	now->taps = 0;
}

/* The same as prepare(), without a call, for the common case: a whole frame for an interface
 * without rate, captures, VLAN, link and fence. 0 on success. */
static __always_inline int prepare_usual(struct xdp_md *ctx, __u32 id,
					 const struct europa_interface *to, __u32 complete)
{
	__u32 zero = 0;
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	if (!now || to->meter || to->taps ||
	    to->flags & (EUROPA_IF_STRIP_VLAN | EUROPA_IF_WIRE | EUROPA_IF_FENCED) ||
	    (complete & EUROPA_PORT_LOCAL_SENDER && !is_surely_complete(ctx)))
		return -1;
	note_entry(now, id, frame_bytes(ctx));
	return 0;
}

/* Makes a frame ready for a router's program; why it does not get it, or 0. */
static __noinline __u32 prepare(struct xdp_md *ctx, __u32 id, __u32 complete)
{
	__u32 zero = 0;
	struct europa_interface *to = bpf_map_lookup_elem(&interfaces, &id);
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	struct europa_counters *count = counters_of(id);
	if (!to || !now || !count)
		return 1;
	if (is_fenced(to)) {
		count->rx_drop_fenced++;
		return 1;
	}
	__u32 hops = to->flags & EUROPA_IF_WIRE ? take_hops(ctx) : 0;
	if (to->meter && !within_rate(to->meter, frame_bytes(ctx))) {
		count->rx_drop_rate++;
		return 1;
	}
	if (complete & EUROPA_PORT_LOCAL_SENDER && !is_surely_complete(ctx)) {
		__u32 partial = partial_checksum(ctx, 0, frame_bytes(ctx));
		if (partial && complete_in_frame(ctx, partial))
			count->rx_checksums++;
	}
	if (to->flags & EUROPA_IF_STRIP_VLAN && strip_tag(ctx)) {
		count->rx_drop_long++;
		return 1;
	}
	note_entry(now, id, frame_bytes(ctx));
	now->hops = hops;
	if (to->taps) {
		now->taps = to->taps;
		now->number++;
		struct tapped tapped = {
			.taps = to->taps,
			.interface = id,
			.length = now->bytes,
			.direction = EUROPA_TAP_IN,
			.way = EUROPA_WAY_CAGE,
		};
		tap(ctx, &tapped);
	}
	return 0;
}

/* Gives a frame to a router's program and does not return; without a program, the frame is dropped
 * and counted. A macro: Linux before 6.10 allows tail calls from a program's main function only. */
#define ENTER_CAGE(ctx, id, row, complete)                         \
	do {                                                       \
		__u32 own = id;                                    \
		if (!prepare_usual(ctx, own, row, complete) ||     \
		    !prepare(ctx, own, complete)) {                \
			bpf_tail_call(ctx, &cages, own);           \
			lose(own);                                 \
		}                                                  \
	} while (0)

#endif

/* Whether a program has a whole port: then it also sees broadcasts, as no other interface shares
 * them. */
static __always_inline int has_whole_port(struct europa_port *port, const struct frame *frame,
					  struct europa_interface **row)
{
	__u32 id = port->all;
	if (id == EUROPA_NONE || frame->vlan)
		return 0;
	*row = bpf_map_lookup_elem(&interfaces, &id);
	if (!*row || !((*row)->flags & EUROPA_IF_CAGED) || (*row)->next != EUROPA_NONE)
		return 0;
	__u32 group = port->id << 16;
	__u32 *first = bpf_map_lookup_elem(&groups, &group);
	return first && *first == id;
}

#endif
