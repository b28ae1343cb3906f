/* Parses Ethernet, VLAN tags, IPv4, IPv6, TCP and UDP; counts, and drops by prefix and port. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__u32 source;
	__u32 destination;
	__u16 ports[2];
};
struct count {
	__u64 packets;
	__u64 bytes;
};
struct prefix {
	__u32 length;
	__u8 address[4];
};

const volatile __u16 closed_port = 53;
const volatile __u8 closed_protocols[4] = {50, 51, 0, 89};
__u64 seen;
__u32 last_length = 7;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct flow);
	__type(value, struct count);
} flows SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} protocols SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, __u32);
} prefixes SEC(".maps");

struct vlan {
	__be16 tag;
	__be16 type;
};

static __always_inline int parse_ports(void *at, void *end, __u8 protocol, __u16 ports[2])
{
	struct udphdr *udp = at;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return 0;
	if ((void *)(udp + 1) > end)
		return -1;
	ports[0] = udp->source;
	ports[1] = udp->dest;
	return 1;
}

SEC("xdp")
int parse(struct xdp_md *ctx)
{
	void *at = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = at;
	struct flow flow = {};
	__u32 protocol = 0;

	seen++;
	last_length = end - at;
	at += sizeof(*ethernet);
	if (at > end)
		return XDP_ABORTED;
	__be16 type = ethernet->h_proto;
#pragma unroll
	for (int depth = 0; depth < 2; depth++) {
		struct vlan *vlan = at;
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(vlan + 1) > end)
			return XDP_DROP;
		type = vlan->type;
		at = vlan + 1;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;
		if ((void *)(ip + 1) > end || ip->ihl < 5)
			return XDP_DROP;
		flow.source = ip->saddr;
		flow.destination = ip->daddr;
		protocol = ip->protocol;
		at += ip->ihl * 4;
		struct prefix key = {.length = 32};
		__builtin_memcpy(key.address, &ip->saddr, 4);
		__u32 *action = bpf_map_lookup_elem(&prefixes, &key);
		if (action && *action < 3)
			return *action;
		if (action)
			__sync_fetch_and_add(action, 1);
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = at;
		if ((void *)(ip + 1) > end)
			return XDP_DROP;
		flow.source = ip->saddr.in6_u.u6_addr32[3];
		flow.destination = ip->daddr.in6_u.u6_addr32[3];
		protocol = ip->nexthdr;
		at = ip + 1;
	} else {
		return XDP_PASS;
	}
	for (int i = 0; i < 4; i++)
		if (protocol && protocol == closed_protocols[i])
			return XDP_DROP;
	if (parse_ports(at, end, protocol, flow.ports) < 0)
		return XDP_ABORTED;
	__u64 *of_protocol = bpf_map_lookup_elem(&protocols, &protocol);
	if (of_protocol)
		*of_protocol += 1;
	struct count *count = bpf_map_lookup_elem(&flows, &flow);
	if (count) {
		count->packets++;
		count->bytes += last_length;
	} else {
		struct count first = {1, last_length};
		long error = bpf_map_update_elem(&flows, &flow, &first, BPF_NOEXIST);
		if (error)
			seen += -error;
	}
	if (flow.ports[1] == bpf_htons(closed_port))
		return XDP_DROP;
	if (flow.ports[0] == bpf_htons(closed_port)) {
		bpf_map_delete_elem(&flows, &flow);
		return XDP_TX;
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
