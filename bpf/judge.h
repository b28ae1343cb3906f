/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The only way out of a cage: what a router's XDP program wants of a frame is done if it may be.
 * What the program returned lies in `caged`, as Linux 6.1 would believe the program itself.
 */
#ifndef EUROPA_JUDGE_H
#define EUROPA_JUDGE_H

#include "deliver.h"
#include "egress.h"

/* Puts the tag of its VLAN into a frame; 0 if there was room. */
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

/* Has a frame leave by interface `id`, if that is allowed. */
static __always_inline int leave(struct xdp_md *ctx, __u32 id, __u32 bytes, int back)
{
	struct europa_interface *by = bpf_map_lookup_elem(&interfaces, &id);
	struct europa_counters *count = counters_of(id);
	if (!by || !count)
		return XDP_DROP;
	count->tx_offered++;
	__u32 cause = 0;
	if (bytes < 14 || bytes > by->max_frame ||
	    (by->flags & EUROPA_IF_STRIP_VLAN && insert_tag(ctx, by->vlan))) {
		count->tx_drop_length++;
		cause = CAUSE(tx_drop_length);
	} else {
		cause = refusal(ctx, id, by, count);
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
	/* Metadata is the program's own: nobody behind it sees it. */
	__u32 metadata = now->metadata;
	if (metadata && bpf_xdp_adjust_meta(ctx, metadata & 0xff))
		return XDP_DROP;
	if (verdict == XDP_PASS) {
		struct delivery whole = { .interface = id };
		deliver(ctx, &whole, DELIVER_SEEN);
		return XDP_DROP;
	}
	count->rx_packets++;
	count->rx_bytes += now->bytes;
	if (verdict == XDP_DROP) {
		count->rx_drop_program++;
		return XDP_DROP;
	}
	if (verdict != XDP_TX && verdict != XDP_REDIRECT) {
		count->rx_drop_aborted++;
		return XDP_DROP;
	}
	if (verdict == XDP_TX)
		target = id;
	if (target >= EUROPA_MAX_INTERFACES_TOTAL) {
		count->rx_drop_target++;
		return XDP_DROP;
	}
	__u32 bytes = now->resized ? frame_bytes(ctx) : now->bytes;
	return leave(ctx, target, bytes, verdict == XDP_TX);
}

#endif
