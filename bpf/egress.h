/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checks on the copy that is sent, and the headers added to it. The Rust twin, for frames that
 * leave by a socket, is crates/switch/src/egress.rs; one table tests both.
 */
#ifndef EUROPA_EGRESS_H
#define EUROPA_EGRESS_H

#include "checksum.h"
#include "tap.h"

#define MAX_ENCAP 72

/* Bytes that are added before, or inserted into, a frame of this interface. */
static __always_inline __u32 before_frame(__u32 id, struct europa_interface *from)
{
	if (from->flags & EUROPA_IF_VXLAN) {
		struct europa_encap *outer = bpf_map_lookup_elem(&encap, &id);
		return outer ? outer->bytes & 127 : 0;
	}
	return from->flags & EUROPA_IF_STRIP_VLAN ? 4 : 0;
}

/* Why the copy may not leave, counted; 0 if it may. */
static __always_inline __u32 refusal(struct xdp_md *ctx, __u32 id, struct europa_interface *from,
				     struct europa_counters *count)
{
	/* Inside a VXLAN the frame is the tenant's own: MAC and VLAN affect no other tenant. */
	if (from->flags & EUROPA_IF_VXLAN)
		return 0;
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 14 > end)
		return CAUSE(tx_drop_length);
	if (!(from->flags & EUROPA_IF_ANY_SOURCE) &&
	    (*(__u32 *)(data + 6) != *(__u32 *)from->mac ||
	     *(__u16 *)(data + 10) != *(__u16 *)(from->mac + 4))) {
		count->tx_drop_source++;
		return CAUSE(tx_drop_source);
	}
	__u16 type = load16(data + 12);
	__u8 *ip = data + 14;
	if (from->flags & EUROPA_IF_STRIP_VLAN) {
		if (data + 18 > end)
			return CAUSE(tx_drop_length);
		/* The tag behind its VLAN's tag: a switch whose native VLAN is that one removes the outer tag,
		 * and an inner tag would then choose the VLAN. */
		type = load16(data + 16);
		ip = data + 18;
	}
	if ((type == ETH_VLAN || type == ETH_QINQ) && !(from->flags & EUROPA_IF_TAGS)) {
		count->tx_drop_vlan++;
		return CAUSE(tx_drop_vlan);
	}
	if (!(from->flags & EUROPA_IF_BOUND))
		return 0;
	if (type == ETH_IPV4 || type == ETH_ARP) {
		/* ARP: the sender's protocol address. */
		__u32 at = type == ETH_IPV4 ? 12 : 14;
		if (ip + 20 <= end) {
			struct europa_prefix4 key = { .bits = 64, .scope = id };
			__builtin_memcpy(key.address, ip + at, 4);
			if (bpf_map_lookup_elem(&bound4, &key))
				return 0;
		}
	} else if (type == ETH_IPV6) {
		if (ip + 40 <= end) {
			struct europa_prefix6 key = { .bits = 160, .scope = id };
			__builtin_memcpy(key.address, ip + 8, 16);
			if (bpf_map_lookup_elem(&bound6, &key))
				return 0;
		}
	}
	count->tx_drop_address++;
	return CAUSE(tx_drop_address);
}

/* Puts the outer headers before a frame: UDP port from the addresses inside (RFC 7348
 * section 5), lengths, IPv4 checksum. */
static __always_inline int encapsulate(struct xdp_md *ctx, __u32 id, __u8 *frame, __u32 length)
{
	struct europa_encap *outer = bpf_map_lookup_elem(&encap, &id);
	if (!outer)
		return -1;
	__u32 flow = *(__u16 *)(frame + 4) * 31 + *(__u16 *)(frame + 10);
	__u16 source = bpf_htons(0xc000 | ((flow ^ flow >> 14) & 0x3fff));
	__u16 udp = bpf_htons(length + 16);
	if (outer->bytes == 50) {
		if (bpf_xdp_store_bytes(ctx, 0, outer->header, 50) ||
		    bpf_xdp_store_bytes(ctx, 50, frame, length))
			return -1;
		__u16 total = bpf_htons(length + 36);
		__u64 sum = total;
		for (int i = 14; i < 34; i += 2)
			sum += load16(outer->header + i);
		__u16 check = ~fold(sum);
		if (bpf_xdp_store_bytes(ctx, 16, &total, 2) ||
		    bpf_xdp_store_bytes(ctx, 24, &check, 2) ||
		    bpf_xdp_store_bytes(ctx, 34, &source, 2))
			return -1;
		return bpf_xdp_store_bytes(ctx, 38, &udp, 2);
	}
	if (outer->bytes != 70 || bpf_xdp_store_bytes(ctx, 0, outer->header, 70) ||
	    bpf_xdp_store_bytes(ctx, 70, frame, length) ||
	    bpf_xdp_store_bytes(ctx, 18, &udp, 2) || bpf_xdp_store_bytes(ctx, 54, &source, 2))
		return -1;
	return bpf_xdp_store_bytes(ctx, 58, &udp, 2);
}

#endif
