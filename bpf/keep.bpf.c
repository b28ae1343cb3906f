/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which frames of a device Linux gets while `europa click` has the device. Packet sockets see
 * frames before these programs do, so frames that are dropped here still reach the router.
 *
 * The router gives frames to Linux by a packet socket with a mark. At egress they are redirected to
 * ingress; at ingress they pass, with the packet type of the mark.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* crates/substrate/src/keep.rs has the same numbers. */
#define MARK 0xe17a0000
#define MARK_MASK 0xffff0000
#define SNIFFERS 0x100
#define TYPE_MASK 0xff

static __always_inline int receive(struct __sk_buff *skb, int otherwise)
{
	__u32 mark = skb->mark;
	if ((mark & MARK_MASK) != MARK)
		return otherwise;
	if (mark & SNIFFERS)
		return TC_ACT_SHOT;
	skb->mark = 0;
	bpf_skb_change_type(skb, mark & TYPE_MASK);
	return TC_ACT_UNSPEC;
}

/* Frames from the link are the router's alone. */
SEC("tcx/ingress") int europa_keep(struct __sk_buff *skb)
{
	return receive(skb, TC_ACT_SHOT);
}

/* Linux gets frames from the link, too. */
SEC("tcx/ingress") int europa_share(struct __sk_buff *skb)
{
	return receive(skb, TC_ACT_UNSPEC);
}

SEC("tcx/egress") int europa_return(struct __sk_buff *skb)
{
	if ((skb->mark & MARK_MASK) != MARK)
		return TC_ACT_UNSPEC;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}
