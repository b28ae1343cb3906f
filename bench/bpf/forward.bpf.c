// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The two XDP references: plain redirect, and the work of an IPv4 router.
#include "headers.h"

enum { PORTS = 64, FAMILY_INET = 2 };

/* The device to which `redirect` sends frames that enter by a port. Mirrored by src/systems/xdp.rs. */
struct wire {
	__u8 macs[12]; /* destination and source, as they stand in the frame */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PORTS);
	__type(key, __u32); /* interface by which the frame entered */
	__type(value, struct wire);
} wires SEC(".maps");

/* redirect: the output device by entering interface. route: every port, by its own index. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

SEC("xdp")
int redirect(struct xdp_md *context)
{
	__u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	__u32 key = context->ingress_ifindex;
	struct wire *wire;

	if (data + IPV4 > end)
		return XDP_ABORTED;
	if (*(__u16 *)(data + ETHERNET_TYPE) != bpf_htons(0x0800))
		return XDP_PASS;
	wire = bpf_map_lookup_elem(&wires, &key);
	if (!wire)
		return XDP_PASS;
	__builtin_memcpy(data, wire->macs, sizeof(wire->macs));
	return bpf_redirect_map(&ports, key, XDP_DROP);
}

/* Header checksum of 20 bytes: an IPv4 router must check it (RFC 1812, 5.2.2). */
static __always_inline int checksum_is_right(const __u8 *header)
{
	__u32 sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += *(const __u16 *)(header + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

SEC("xdp")
int route(struct xdp_md *context)
{
	__u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct bpf_fib_lookup fib = {};
	__u16 *checksum;
	__u32 sum;

	if (data + UDP > end)
		return XDP_ABORTED;
	/* Linux processes packets with options and packets whose TTL ends here. */
	if (*(__u16 *)(data + ETHERNET_TYPE) != bpf_htons(0x0800) || data[IPV4] != 0x45 ||
	    data[IPV4_TTL] <= 1)
		return XDP_PASS;
	if (!checksum_is_right(data + IPV4))
		return XDP_DROP;

	fib.family = FAMILY_INET;
	fib.tos = data[IPV4 + 1];
	fib.l4_protocol = data[IPV4 + 9];
	fib.tot_len = bpf_ntohs(*(__u16 *)(data + IPV4_LENGTH));
	__builtin_memcpy(&fib.ipv4_src, data + IPV4_SOURCE, 4);
	__builtin_memcpy(&fib.ipv4_dst, data + IPV4_DESTINATION, 4);
	fib.ifindex = context->ingress_ifindex;
	switch (bpf_fib_lookup(context, &fib, sizeof(fib), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		break;
	case BPF_FIB_LKUP_RET_BLACKHOLE:
	case BPF_FIB_LKUP_RET_UNREACHABLE:
	case BPF_FIB_LKUP_RET_PROHIBIT:
		return XDP_DROP;
	default:
		return XDP_PASS;
	}

	/* RFC 1141: decrementing the high byte of a word adds 0x0100 to the sum. */
	checksum = (__u16 *)(data + IPV4_CHECKSUM);
	sum = *checksum + bpf_htons(0x0100);
	*checksum = sum + (sum >= 0xffff);
	data[IPV4_TTL]--;
	__builtin_memcpy(data, fib.dmac, 6);
	__builtin_memcpy(data + 6, fib.smac, 6);
	return bpf_redirect_map(&ports, fib.ifindex, XDP_DROP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
