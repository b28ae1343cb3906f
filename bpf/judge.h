/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The only exit of a cage: carries out the verdict of a router's XDP program on a frame, if it is
 * permitted. The program's return value is in `caged`, because Linux 6.1 would use the program's
 * own.
 */
#ifndef EUROPA_JUDGE_H
#define EUROPA_JUDGE_H

#include "deliver.h"
#include "egress.h"

/* Inserts the tag of its VLAN into a frame; 0 on success. */
static __always_inline int insert_tag(struct xdp_md *ctx, __u16 vlan)
{
	if (bpf_xdp_adjust_head(ctx, -4))
		return -1;
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 18 > end)
		return -1;
	__u32 *frame = (__u32 *)data;
	__u32 a = frame[1], b = frame[2], c = frame[3];
	frame[0] = a, frame[1] = b, frame[2] = c;
	frame[3] = bpf_htonl(0x81000000u | vlan);
	return 0;
}

/* Why a frame may not cross a link of a kernel router, counted; 0 if it may. Without a bound on the
 * links, two routers that send each other a frame would occupy a CPU forever. */
static __always_inline __u32 link_refusal(__u32 bytes, __u32 hops, struct europa_counters *count)
{
	if (hops >= EUROPA_CAGE_HOPS) {
		count->tx_drop_hops++;
		return CAUSE(tx_drop_hops);
	}
	/* Linux before 6.18 loses frames of several fragments on the way into a veth, in silence. */
	if (bytes > EUROPA_MAX_LIVE_FRAME) {
		count->tx_drop_live++;
		return CAUSE(tx_drop_live);
	}
	return 0;
}

/* Notes before a frame how many links it has crossed; 0 on success. A veth keeps metadata. */
static __always_inline int note_hops(struct xdp_md *ctx, __u32 hops)
{
	if (bpf_xdp_adjust_meta(ctx, -4))
		return -1;
	__u32 *note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return -1;
	*note = hops;
	return 0;
}

/* Sends captures of interface `id` the verdict on a frame that does not leave by the kernel. */
static __always_inline void tell_verdict(struct xdp_md *ctx, __u32 taps, __u32 id, __u32 cause, int out)
{
	if (!taps)
		return;
	struct tapped tapped = {
		.taps = taps,
		.interface = id,
		.length = frame_bytes(ctx),
		.direction = out ? EUROPA_TAP_OUT : EUROPA_TAP_IN,
		.cause = cause,
		.way = EUROPA_WAY_VERDICT,
	};
	tap(ctx, &tapped);
}

/* Sends a frame out of interface `id`, if that is allowed. */
static __always_inline int leave(struct xdp_md *ctx, __u32 id, __u32 bytes, __u32 hops, int back)
{
	struct europa_interface *by = bpf_map_lookup_elem(&interfaces, &id);
	struct europa_counters *count = counters_of(id);
	if (!by || !count)
		return XDP_DROP;
	if (by->relay) {
		/* The router's process sends it by this interface, and the switch has it pass filters and
		 * queues. It is offered to the interface then. */
		struct delivery whole = { .interface = by->relay - 1 };
		tell_verdict(ctx, by->taps, id, 0, 1);
		deliver(ctx, &whole, DELIVER_SEEN);
		return XDP_DROP;
	}
	count->tx_offered++;
	__u32 cause = 0;
	if (is_fenced(by)) {
		count->tx_drop_fenced++;
		cause = CAUSE(tx_drop_fenced);
	} else if (bytes < 14 || bytes > by->max_frame ||
		   (by->flags & EUROPA_IF_STRIP_VLAN && insert_tag(ctx, by->vlan))) {
		count->tx_drop_length++;
		cause = CAUSE(tx_drop_length);
	} else {
		cause = refusal(ctx, id, by, count);
		if (!cause && by->flags & EUROPA_IF_WIRE)
			cause = link_refusal(bytes, hops, count);
	}
	if (by->taps) {
		struct tapped tapped = {
			.taps = by->taps,
			.interface = id,
			.length = bytes,
			.form = by->flags & EUROPA_IF_STRIP_VLAN ? TAPPED_TAGGED : 0,
			.direction = EUROPA_TAP_OUT,
			.cause = cause,
			.way = EUROPA_WAY_CAGE,
		};
		tap(ctx, &tapped);
	}
	if (cause)
		return XDP_DROP;
	if (by->flags & EUROPA_IF_WIRE && note_hops(ctx, hops + 1)) {
		count->tx_drop_length++;
		return XDP_DROP;
	}
	if (!back && bpf_redirect_map(&cage_devices, by->port, 0) != XDP_REDIRECT) {
		count->tx_drop_device++;
		return XDP_DROP;
	}
	count->tx_packets++;
	count->tx_bytes += bytes;
	return back ? XDP_TX : XDP_REDIRECT;
}

static __always_inline int judge(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	if (!now)
		return XDP_DROP;
	__u32 id = now->interface, verdict = now->verdict, target = now->target;
	struct europa_counters *count = counters_of(id);
	if (!count)
		return XDP_DROP;
	/* Metadata is the program's own: no program behind it sees it. */
	__u32 metadata = now->metadata;
	if (metadata && bpf_xdp_adjust_meta(ctx, metadata & 0xff))
		return XDP_DROP;
	if (verdict == XDP_PASS) {
		struct delivery whole = { .interface = id };
		tell_verdict(ctx, now->taps, id, 0, 0);
		deliver(ctx, &whole, DELIVER_SEEN);
		return XDP_DROP;
	}
	count->rx_packets++;
	count->rx_bytes += now->bytes;
	if (verdict == XDP_DROP) {
		count->rx_drop_program++;
		tell_verdict(ctx, now->taps, id, CAUSE(rx_drop_program), 0);
		return XDP_DROP;
	}
	if (verdict != XDP_TX && verdict != XDP_REDIRECT) {
		count->rx_drop_aborted++;
		tell_verdict(ctx, now->taps, id, CAUSE(rx_drop_aborted), 0);
		return XDP_DROP;
	}
	if (verdict == XDP_TX)
		target = id;
	if (target >= EUROPA_MAX_INTERFACES_TOTAL) {
		count->rx_drop_target++;
		tell_verdict(ctx, now->taps, id, CAUSE(rx_drop_target), 0);
		return XDP_DROP;
	}
	__u32 bytes = now->resized ? frame_bytes(ctx) : now->bytes;
	return leave(ctx, target, bytes, now->hops, verdict == XDP_TX);
}

#endif
