/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Completes partial checksums in a received copy.
 *
 * A sender on this machine leaves the TCP or UDP checksum to a device that does not exist: the
 * field then holds the folded sum of the pseudo-header (CHECKSUM_PARTIAL), and XDP cannot see the
 * mark in the socket buffer. Completing every packet whose field holds that sum is safe: a correct
 * packet keeps its value.
 */
#ifndef EUROPA_CHECKSUM_H
#define EUROPA_CHECKSUM_H

#include "context.h"
#include "maps.h"

#define ETH_IPV4 bpf_htons(0x0800)
#define ETH_IPV6 bpf_htons(0x86dd)
#define ETH_ARP bpf_htons(0x0806)
#define ETH_MPLS bpf_htons(0x8847)
#define ETH_VLAN bpf_htons(0x8100)
#define ETH_QINQ bpf_htons(0x88a8)
#define IP_TCP 6
#define IP_UDP 17
#define IP_ICMP6 58

static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u32 load16(const __u8 *p)
{
	return *(const __u16 *)p;
}

static __always_inline __u64 load32(const __u8 *p)
{
	return (__u64)load16(p) + load16(p + 2);
}

/* Largest offset of a transport header that is looked at. */
#define MAX_TRANSPORT 512

/* Most bytes that precede the frame that a router sees. */
#define MAX_SKIP 127

/* Bytes that Linux before 6.13 sums up at a time. */
#define PIECE 512

/* The sum of `words` bytes from `start` on, behind a transport header: whole words of a slot. */
static __always_inline __s64 sum_in_pieces(__u8 *start, __u32 words, const __u32 slot_bytes)
{
	__s64 sum = 0;
	__u32 at = 0;
#pragma unroll
	for (__u32 i = 0; i < (slot_bytes - MAX_TRANSPORT) / PIECE - 1; i++) {
		if (at + PIECE > words)
			break;
		sum = bpf_csum_diff(0, 0, (__be32 *)(start + at), PIECE, sum);
		at += PIECE;
	}
	return bpf_csum_diff(0, 0, (__be32 *)(start + at), (words - at) & (PIECE - 4), sum);
}

/* A partial checksum in a frame: bytes from the frame's start to the transport header, from there
 * to the field, and of header and data. As one number, which is 0 if there is none. */
#define PARTIAL(transport, field, size) ((transport) | (field) << 10 | (size) << 16)

/* Finds a partial checksum in the `length` bytes after the first `skip` bytes of the received
 * frame. It reads the frame, not the copy: reading bytes just written to memory that another CPU
 * used last is slow. Not static, so that the verifier checks it once, not for each call. */
__noinline __u32 partial_checksum(context *ctx, __u32 skip, __u32 length)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (skip > MAX_SKIP)
		return 0;
	data += skip;
	if (data + 22 > end)
		return 0;
	/* A tag that the slot will not have, and a second one. */
	__u32 network = 14;
	__u16 type = load16(data + 12);
	if (type == ETH_VLAN || type == ETH_QINQ) {
		network = 18;
		type = load16(data + 16);
		if (type == ETH_VLAN || type == ETH_QINQ) {
			network = 22;
			type = load16(data + 20);
		}
	}
	const __u8 *ip = data + network;
	__u64 pseudo;
	__u32 transport, size;
	__u8 protocol;
	if (type == ETH_IPV4) {
		/* A fragment's checksum covers more than the fragment: never partial. */
		if (ip + 20 > end || ip[0] >> 4 != 4 || load16(ip + 6) & bpf_htons(0x3fff))
			return 0;
		__u32 header = (ip[0] & 15) * 4;
		transport = network + header;
		size = bpf_ntohs(load16(ip + 2));
		if (size <= header)
			return 0;
		size -= header;
		protocol = ip[9];
		pseudo = load32(ip + 12) + load32(ip + 16);
	} else if (type == ETH_IPV6) {
		if (ip + 40 > end)
			return 0;
		transport = network + 40;
		size = bpf_ntohs(load16(ip + 4));
		protocol = ip[6];
		pseudo = 0;
		for (int i = 8; i < 40; i += 4)
			pseudo += load32(ip + i);
	} else {
		return 0;
	}
	__u32 field, least;
	if (protocol == IP_TCP)
		field = 16, least = 20;
	else if (protocol == IP_UDP)
		field = 6, least = 8;
	else
		return 0;
	if (size < least || transport + size > length)
		return 0;
	/* The sum of a non-empty header is never 0. */
	const __u8 *there = data + transport + field;
	if (there + 2 > end || !load16(there))
		return 0;
	pseudo = fold(pseudo + bpf_htons(protocol) + bpf_htons(size));
	if (load16(there) != pseudo)
		return 0;
	return PARTIAL(transport, field, size);
}

/* Whether partial_checksum would find none, without a call for the common frames: IPv4 without tag
 * and options, with UDP or TCP. */
static __always_inline int is_surely_complete(context *ctx)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u8 *ip = data + 14;
	if (ip + 40 > end || load16(data + 12) != ETH_IPV4 || ip[0] != 0x45)
		return 0;
	__u8 protocol = ip[9];
	if (protocol != IP_UDP && protocol != IP_TCP)
		return 0;
	__u16 there = load16(protocol == IP_UDP ? ip + 26 : ip + 36);
	__u16 size = bpf_ntohs(load16(ip + 2)) - 20;
	__u64 pseudo = load32(ip + 12) + load32(ip + 16) + bpf_htons(protocol) + bpf_htons(size);
	return !there || there != fold(pseudo);
}

/* Completes the partial checksum of the copy that begins at `offset`. Returns its position in the
 * slot, or 0 if the checksum is unchanged. */
static __always_inline __u32 complete_checksum(__u8 *slot, __u32 offset, __u32 partial,
					       const __u32 slot_bytes)
{
	__u32 transport = offset + (partial & 1023), field = partial >> 10 & 31;
	__u32 size = partial >> 16;
	if (transport > MAX_TRANSPORT)
		return 0;
	asm volatile("" : "+r"(transport));
	__u8 *start = slot + transport;
	/* Whole words, with zeroes behind the last byte; every slot has room for them. The mask is for
	 * Linux before 6.4, which does not track the bounds of a number on the stack. */
	if (transport + size + 4 > slot_bytes)
		return 0;
	asm volatile("" : "+r"(size));
	__u32 words = size & (slot_bytes - 4);
	if (words > slot_bytes - MAX_TRANSPORT - 8)
		return 0;
	asm volatile("" : "+r"(words));
	__s64 sum = bpf_csum_diff(0, 0, (__be32 *)start, words, 0);
	if (sum < 0)
		sum = sum_in_pieces(start, words, slot_bytes);
	if (sum < 0)
		return 0;
	__u64 total = sum;
	const __u8 *rest = start + words;
	if (size & 2) {
		total += load16(rest);
		if (size & 1)
			total += rest[2];
	} else if (size & 1) {
		total += rest[0];
	}
	__u16 result = ~fold(total);
	/* Only a field at offset 6 is UDP's, and only UDP uses 0 for "no checksum". */
	if (field == 6 && result == 0)
		result = 0xffff;
	*(__u16 *)(start + field) = result;
	return transport + field;
}

#endif
