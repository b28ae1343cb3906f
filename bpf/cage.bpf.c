/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The cage around the XDP program of a router with `run: kernel`. Europa's own linker replaces
 * `tenant` by the program, and helpers by the functions of the same name here
 * (crates/cage/src/cage.rs). libbpf loads none of this.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "substrate.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAP(name, kind, entries, type_)                  \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_##kind);       \
		__uint(max_entries, entries);            \
		__type(key, __u32);                      \
		__type(value, type_);                    \
	} name SEC(".maps")

struct cage_zeros {
	__u8 bytes[EUROPA_CAGE_ROOM];
};

/* Written by the node. */
MAP(judges, PROG_ARRAY, 1, __u32);
MAP(caged, PERCPU_ARRAY, 1, struct europa_caged);
MAP(cage_zeros, ARRAY, 1, struct cage_zeros);
/* The router's: interfaces of the node by the router's own numbers of devices, from 1 on. */
MAP(cage_targets, ARRAY, EUROPA_CAGE_DEVICES, __u32);

/* The routes and neighbours of the router's slow path, as the node writes them: see
 * crates/node/src/cages/fib.rs. */
#define OPEN_IN4 1
#define OPEN_IN6 2
#define OPEN_OUT4 4
#define OPEN_OUT6 8
struct cage_port {
	__u8 mac[6];
	__u16 open; /* tables that no other setting of Linux overrides: OPEN_ */
	__u32 mtu4;
	__u32 mtu6;
};
#define ROUTE_DEVICE 1
#define ROUTE_BLACKHOLE 2
struct cage_route {
	__u32 kind; /* ROUTE_, or 0: Linux decides */
	__u32 device;
	__u32 has_gateway;
	__u8 gateway[16];
};
struct cage_prefix4 {
	__u32 bits;
	__u8 address[4];
};
struct cage_prefix6 {
	__u32 bits;
	__u8 address[16];
};
struct cage_neighbour {
	__u32 device;
	__u32 family;
	__u8 address[16];
};
struct cage_mac {
	__u8 bytes[8];
};
MAP(cage_ports, ARRAY, EUROPA_CAGE_DEVICES, struct cage_port);

#define TABLE(name, kind, key_, value_)                  \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_##kind);       \
		__uint(max_entries, 1 << 20);            \
		__uint(map_flags, BPF_F_NO_PREALLOC);    \
		__type(key, key_);                       \
		__type(value, value_);                   \
	} name SEC(".maps")
TABLE(cage_routes4, LPM_TRIE, struct cage_prefix4, struct cage_route);
TABLE(cage_routes6, LPM_TRIE, struct cage_prefix6, struct cage_route);
TABLE(cage_neighbours, HASH, struct cage_neighbour, struct cage_mac);

#define HELPER __attribute__((noinline, used))

/* Values of maps that redirect, beside numbers of devices: the router's own process. */
#define TO_PROCESS 0x80000000u

/* Stands for the router's program. */
HELPER int tenant(struct xdp_md *ctx)
{
	int verdict = XDP_DROP;
	asm volatile("" : "+r"(verdict) : "r"(ctx));
	return verdict;
}

SEC("xdp.frags") int europa_cage(struct xdp_md *ctx)
{
	__u32 zero = 0, verdict = tenant(ctx);
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	if (now) {
		*(volatile __u32 *)&now->verdict = verdict;
		bpf_tail_call(ctx, &judges, 0);
	}
	return XDP_DROP;
}

/* Notes the output device of a frame. */
static __always_inline void aim(__u32 device)
{
	__u32 zero = 0;
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	__u32 *target = bpf_map_lookup_elem(&cage_targets, &device);
	if (now)
		now->target = target && device ? *target : EUROPA_NONE;
}

HELPER long europa_redirect(__u32 device, __u64 flags)
{
	if (flags)
		return XDP_ABORTED;
	aim(device);
	return XDP_REDIRECT;
}

HELPER long europa_redirect_map(void *map, __u64 key, __u64 flags)
{
	__u32 place = key;
	__u32 *value = bpf_map_lookup_elem(map, &place);
	if (!value || !*value)
		return flags & 3;
	if (*value & TO_PROCESS)
		return XDP_PASS;
	aim(*value);
	return XDP_REDIRECT;
}

#define FAMILY_IPV4 2
#define FAMILY_IPV6 10

/* The route to a destination, as far as the tables of the slow path's Linux alone decide it. */
static __always_inline struct cage_route *route_to(const struct bpf_fib_lookup *params)
{
	if (params->family == FAMILY_IPV4) {
		struct cage_prefix4 key = { .bits = 32 };
		__builtin_memcpy(key.address, &params->ipv4_dst, 4);
		return bpf_map_lookup_elem(&cage_routes4, &key);
	}
	struct cage_prefix6 key = { .bits = 128 };
	__builtin_memcpy(key.address, params->ipv6_dst, 16);
	return bpf_map_lookup_elem(&cage_routes6, &key);
}

/* bpf_fib_lookup over the slow path's tables, with the router's own numbers of devices. Packets
 * that the tables do not cover get "not forwarded": the program passes them on. */
HELPER long europa_fib_lookup(void *ctx, struct bpf_fib_lookup *params, int bytes, __u32 flags)
{
	if (bytes < (int)sizeof(*params) || flags & ~(BPF_FIB_LOOKUP_DIRECT | BPF_FIB_LOOKUP_OUTPUT))
		return -22;
	int is_v4 = params->family == FAMILY_IPV4;
	if (!is_v4 && params->family != FAMILY_IPV6)
		return -97;
	__u32 device = params->ifindex;
	struct cage_port *in = bpf_map_lookup_elem(&cage_ports, &device);
	if (!in)
		return -19;
	if (!(in->open & (is_v4 ? OPEN_IN4 : OPEN_IN6)))
		return BPF_FIB_LKUP_RET_NOT_FWDED;
	struct cage_route *route = route_to(params);
	if (!route || !route->kind)
		return BPF_FIB_LKUP_RET_NOT_FWDED;
	if (route->kind == ROUTE_BLACKHOLE)
		return BPF_FIB_LKUP_RET_BLACKHOLE;
	device = route->device;
	struct cage_port *out = bpf_map_lookup_elem(&cage_ports, &device);
	if (!out || !(out->open & (is_v4 ? OPEN_OUT4 : OPEN_OUT6)))
		return BPF_FIB_LKUP_RET_NOT_FWDED;
	__u32 mtu = is_v4 ? out->mtu4 : out->mtu6;
	if (params->tot_len) {
		if (params->tot_len > mtu) {
			params->mtu_result = mtu;
			return BPF_FIB_LKUP_RET_FRAG_NEEDED;
		}
		params->mtu_result = mtu;
	}
	struct cage_neighbour key = { .device = device, .family = params->family };
	if (route->has_gateway) {
		if (is_v4)
			__builtin_memcpy(&params->ipv4_dst, route->gateway, 4);
		else
			__builtin_memcpy(params->ipv6_dst, route->gateway, 16);
	}
	if (is_v4)
		__builtin_memcpy(key.address, &params->ipv4_dst, 4);
	else
		__builtin_memcpy(key.address, params->ipv6_dst, 16);
	params->ifindex = device;
	struct cage_mac *mac = bpf_map_lookup_elem(&cage_neighbours, &key);
	if (!mac)
		return BPF_FIB_LKUP_RET_NO_NEIGH;
	__builtin_memcpy(params->dmac, mac->bytes, 6);
	__builtin_memcpy(params->smac, out->mac, 6);
	params->rt_metric = 0;
	params->h_vlan_proto = 0;
	params->h_vlan_TCI = 0;
	return BPF_FIB_LKUP_RET_SUCCESS;
}

/* Notes that a frame has another length. */
static __always_inline void resize(void)
{
	__u32 zero = 0;
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	if (now)
		now->resized = 1;
}

HELPER long europa_xdp_adjust_tail(struct xdp_md *ctx, int by)
{
	resize();
	return bpf_xdp_adjust_tail(ctx, by);
}

HELPER long europa_trace_printk(void)
{
	return 0;
}

/* Bytes that are uncovered before a frame hold older frames, so they are cleared. */
HELPER long europa_xdp_adjust_head(struct xdp_md *ctx, int by)
{
	__u32 zero = 0, room = -by;
	void *zeros = bpf_map_lookup_elem(&cage_zeros, &zero);
	resize();
	if (by >= 0)
		return bpf_xdp_adjust_head(ctx, by);
	asm volatile("" : "+r"(room));
	if (!zeros || room > EUROPA_CAGE_ROOM)
		return -22;
	if (bpf_xdp_adjust_head(ctx, by))
		return -22;
	asm volatile("" : "+r"(room));
	/* Linux 6.1 learns nothing from a number that is not 0. */
	room = (room - 1) & (EUROPA_CAGE_ROOM - 1);
	asm volatile("" : "+r"(room));
	bpf_xdp_store_bytes(ctx, 0, zeros, room + 1);
	return 0;
}

HELPER long europa_xdp_adjust_meta(struct xdp_md *ctx, int by)
{
	__u32 zero = 0;
	struct europa_caged *now = bpf_map_lookup_elem(&caged, &zero);
	if (!now)
		return -22;
	long failed = bpf_xdp_adjust_meta(ctx, by);
	if (failed)
		return failed;
	now->metadata -= by;
	if (by >= 0)
		return 0;
	__u32 room = -by;
	for (__u32 at = 0; at < 256; at += 4) {
		__u8 *metadata = (void *)(long)ctx->data_meta, *data = (void *)(long)ctx->data;
		if (at >= room || metadata + at + 4 > data)
			break;
		*(__u32 *)(metadata + at) = 0;
	}
	return 0;
}
