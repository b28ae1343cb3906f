/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The delivered part of a socket buffer: the whole frame, or one segment of a packet that its
 * sender left for the device to segment (GSO). A router gets frames as on a wire. The segments are
 * made here, in the copy: headers before each part of the payload, with lengths, identification,
 * sequence number, flags and checksum as the kernel's own cutting gives them (`tcp_gso_segment`,
 * `__udp_gso_segment`).
 */
#ifndef EUROPA_PIECE_H
#define EUROPA_PIECE_H

#include "checksum.h"

struct piece {
	__u32 bytes;	 /* as on the wire, without the tag of `tag`; 0: the whole frame */
	__u32 from;	 /* bytes of payload before this segment's */
	__u16 number;	 /* of the segment */
	__u8 is_last;
	__u8 network;	 /* bytes before the IP header */
	__u8 transport;	 /* bytes before the TCP or UDP header */
	__u8 headers;	 /* bytes of all of them */
	__u8 is_ipv4;
	__u8 is_tcp;
	__u16 tag_type;	 /* EtherType of the VLAN tag beside the bytes, network order; 0: none */
	__u16 tag;	 /* its value, host order */
};

#define MAX_HEADERS 255
#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_CWR 0x80

/* Finds the headers of a packet that needs segmentation; 0 for all other packets. */
static __always_inline int find_headers(context *ctx, struct piece *piece)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 14 + 4 > end)
		return 0;
	__u32 network = 14;
	__u16 type = load16(data + 12);
	if (type == ETH_VLAN || type == ETH_QINQ) {
		network = 18;
		type = load16(data + 16);
	}
	const __u8 *ip = data + network;
	__u32 transport;
	__u8 protocol;
	if (type == ETH_IPV4) {
		if (ip + 20 > end)
			return 0;
		transport = network + (ip[0] & 15) * 4;
		protocol = ip[9];
	} else if (type == ETH_IPV6) {
		if (ip + 40 > end)
			return 0;
		transport = network + 40;
		protocol = ip[6];
	} else {
		return 0;
	}
	piece->is_ipv4 = type == ETH_IPV4;
	piece->is_tcp = protocol == IP_TCP;
	if (protocol != IP_TCP && protocol != IP_UDP)
		return 0;
	const __u8 *l4 = data + (transport & 127);
	if (l4 + 20 > end && (protocol == IP_TCP || l4 + 8 > end))
		return 0;
	piece->network = network;
	piece->transport = transport;
	piece->headers = transport + (protocol == IP_TCP ? (l4[12] >> 4) * 4 : 8);
	return 1;
}

/* Copies a piece into a slot: `length` bytes, with an inserted tag of `tagged` bytes. */
static __always_inline long load_piece(context *ctx, const struct piece *piece, __u32 skip, __u8 *to,
				       __u32 length, int tagged)
{
	__u32 headers = piece->headers;
	if (!piece->bytes && !tagged)
		return frame_load(ctx, skip, to, length);
	if (piece->bytes && !tagged) {
		if (frame_load(ctx, skip + piece->from, to, length))
			return -1;
		if (skip || !piece->from)
			return 0;
		if (headers < 42)
			return -1;
		return frame_load(ctx, 0, to, headers);
	}
	if (frame_load(ctx, piece->from, to + 4, length - 4) || frame_load(ctx, 0, to, 12))
		return -1;
	*(__u16 *)(to + 12) = piece->tag_type;
	*(__u16 *)(to + 14) = bpf_htons(piece->tag);
	if (headers < 42)
		return frame_load(ctx, 12, to + 16, 2);
	return frame_load(ctx, 12, to + 16, headers - 12);
}

/* Changes the headers of a copy, at `frame`, to those of its segment. The checksum is partial then. */
static __always_inline __u32 make_segment(__u8 *frame, const struct piece *piece, __u32 before)
{
	__u8 *ip = frame + (piece->network & 63), *l4 = frame + (piece->transport & 127);
	__u32 size = piece->bytes - piece->transport;
	__u64 pseudo = 0;
	if (piece->is_ipv4) {
		__u16 total = bpf_htons(piece->bytes - piece->network);
		__u16 id = bpf_htons(bpf_ntohs(load16(ip + 4)) + piece->number);
		/* RFC 1624: the loss and the gain of the sum. */
		__u64 sum = (__u16)~load16(ip + 10) + (__u64)(__u16)~load16(ip + 2) + total +
			    (__u16)~load16(ip + 4) + id;
		*(__u16 *)(ip + 2) = total;
		*(__u16 *)(ip + 4) = id;
		*(__u16 *)(ip + 10) = ~fold(sum);
		pseudo = load32(ip + 12) + load32(ip + 16);
	} else {
		*(__u16 *)(ip + 4) = bpf_htons(piece->bytes - piece->network - 40);
		for (int i = 8; i < 40; i += 4)
			pseudo += load32(ip + i);
	}
	__u32 field = 6;
	if (piece->is_tcp) {
		__u32 sequence = (__u32)bpf_ntohs(load16(l4 + 4)) << 16 | bpf_ntohs(load16(l4 + 6));
		sequence += piece->from;
		*(__u16 *)(l4 + 4) = bpf_htons(sequence >> 16);
		*(__u16 *)(l4 + 6) = bpf_htons(sequence & 0xffff);
		if (!piece->is_last)
			l4[13] &= ~(TCP_FIN | TCP_PSH);
		if (piece->from)
			l4[13] &= ~TCP_CWR;
		field = 16;
	} else {
		*(__u16 *)(l4 + 4) = bpf_htons(size);
	}
	pseudo += bpf_htons(piece->is_tcp ? IP_TCP : IP_UDP) + bpf_htons(size & 0xffff);
	*(__u16 *)(l4 + field) = fold(pseudo);
	return PARTIAL(before + piece->transport, field, size);
}

#endif
