/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The argument of a receive program: a frame in a driver's buffer (XDP), or a socket buffer (tc).
 *
 * A socket buffer may be a packet that is yet to be cut into segments, of up to 64 kB (GSO), and its
 * VLAN tag always stands beside its bytes. So a frame is read by pieces: `struct piece` says which
 * part of the buffer a delivery is. A buffer of XDP has one piece, all of it.
 */
#ifndef EUROPA_CONTEXT_H
#define EUROPA_CONTEXT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#ifdef EUROPA_TC
typedef struct __sk_buff context;
/* A frame's outer VLAN tag stands beside its bytes. */
#define EUROPA_TAGS_ASIDE 1
#define VERDICT_TAKEN 2	 /* TC_ACT_SHOT */
#define VERDICT_LINUX -1 /* TC_ACT_UNSPEC: other attached programs, then Linux */

static __always_inline __u32 frame_bytes(context *ctx)
{
	return ctx->len;
}

static __always_inline long frame_load(context *ctx, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes(ctx, offset, to, length);
}
#else
typedef struct xdp_md context;
#define EUROPA_TAGS_ASIDE 0
#define VERDICT_TAKEN XDP_DROP
#define VERDICT_LINUX XDP_PASS

static __always_inline __u32 frame_bytes(context *ctx)
{
	return bpf_xdp_get_buff_len(ctx);
}

static __always_inline long frame_load(context *ctx, __u32 offset, void *to, __u32 length)
{
	return bpf_xdp_load_bytes(ctx, offset, to, length);
}
#endif

#endif
