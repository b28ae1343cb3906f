/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The argument of a receive program: a frame in a driver's buffer (XDP), or a socket buffer (tc).
 *
 * A socket buffer may hold an unsegmented packet of up to 64 kB (GSO), and its VLAN tag is always
 * outside its bytes. So a frame is read by pieces: `struct piece` names the delivered part of the
 * buffer. A buffer of XDP is one piece.
 */
#ifndef EUROPA_CONTEXT_H
#define EUROPA_CONTEXT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#ifdef EUROPA_TC
typedef struct __sk_buff context;
/* The outer VLAN tag is in the socket buffer's metadata, not in the frame's bytes. */
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
