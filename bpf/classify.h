/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whose frame is it? */
#ifndef EUROPA_CLASSIFY_H
#define EUROPA_CLASSIFY_H

#include "deliver.h"

/* Network namespace that this instance of the program serves: device indices are valid only within
 * one. */
const volatile __u32 namespace = 0;

/* Copies of broadcasts a port may have made: this many a second, as many at once. */
#define COPIES_PER_SECOND 100000
#define COPIES_AT_ONCE 4096
/* Interfaces that one broadcast reaches at most. */
#define MAX_GROUP 1024

#define EUROPA_PORT_MATCHES                                                        \
	(EUROPA_PORT_HAS_MPLS | EUROPA_PORT_HAS_VXLAN | EUROPA_PORT_HAS_UDP |      \
	 EUROPA_PORT_HAS_PREFIX)

struct frame {
	__u8 to[6];
	__u16 vlan;       /* 0: untagged, or only a priority tag */
	__u16 type;       /* EtherType behind the tag, network order */
	__u8 network;      /* offset behind the EtherType */
	__u8 is_neighbour; /* ARP or neighbour discovery */
};

static __always_inline int same_mac(const __u8 *a, const __u8 *b)
{
	return *(__u32 *)a == *(__u32 *)b && *(__u16 *)(a + 4) == *(__u16 *)(b + 4);
}

/* The interface that has a frame's VLAN and MAC address on its port. A hint, correct in most cases;
 * hint and interface's row cost a tenth of a look-up in the hash table. Then the row is in `row`. */
static __always_inline __u32 match_mac(struct europa_port *port, const struct frame *frame,
				       struct europa_interface **row)
{
	__u32 id = port->id;
	__u64 address = *(__u32 *)frame->to | (__u64) * (__u16 *)(frame->to + 4) << 32 |
			(__u64)frame->vlan << 48;
	__u32 place = europa_hint_place(address, id);
	struct europa_hint *hint = bpf_map_lookup_elem(&hints, &place);
	if (hint) {
		__u32 likely = *(volatile __u32 *)&hint->interface;
		struct europa_interface *to = bpf_map_lookup_elem(&interfaces, &likely);
		if (to && to->flags & EUROPA_IF_BY_MAC && to->port == id &&
		    to->vlan == frame->vlan && same_mac(to->mac, frame->to)) {
			*row = to;
			return likely;
		}
	}
	struct europa_exact key = { .port = id, .vlan = frame->vlan, .kind = EUROPA_MATCH_MAC };
	__builtin_memcpy(key.value, frame->to, 6);
	__u32 *match = bpf_map_lookup_elem(&exact, &key);
	return match ? *match : EUROPA_NONE;
}

/* The port table is open-addressed with few probes: the first probe nearly always hits. */
static __always_inline struct europa_port *port_of(__u32 ifindex)
{
	for (int probe = 0; probe < EUROPA_PORT_PROBES; probe++) {
		__u32 place = (ifindex + namespace * 61 + probe * EUROPA_PORT_STRIDE) % EUROPA_MAX_PORTS;
		struct europa_port *port = bpf_map_lookup_elem(&ports, &place);
		if (port && port->ifindex == ifindex && port->namespace == namespace)
			return port;
	}
	return 0;
}

/* Reads the fields of every frame; false if it is shorter. */
static __always_inline int parse(context *ctx, struct frame *frame)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 14 > end)
		return 0;
	*(__u32 *)frame->to = *(__u32 *)data;
	*(__u16 *)(frame->to + 4) = *(__u16 *)(data + 4);
	frame->type = load16(data + 12);
	frame->network = 14;
	frame->vlan = 0;
#ifdef EUROPA_TC
	if (ctx->vlan_present) {
		frame->vlan = ctx->vlan_tci & 0xfff;
		goto neighbour;
	}
#endif
	if (frame->type == ETH_VLAN || frame->type == ETH_QINQ) {
		if (data + 18 > end)
			return 0;
		frame->vlan = bpf_ntohs(load16(data + 14)) & 0xfff;
		frame->type = load16(data + 16);
		frame->network = 18;
	}
#ifdef EUROPA_TC
neighbour:
#endif
	frame->is_neighbour = frame->type == ETH_ARP;
	if (frame->type == ETH_IPV6) {
		__u8 *ip = data + frame->network;
		if (ip + 41 <= end && ip[6] == IP_ICMP6 && ip[40] >= 133 && ip[40] <= 137)
			frame->is_neighbour = 1;
	}
	return 1;
}

/* The progress of a frame's copies to a group. */
struct copying {
	context *ctx;
	struct europa_port *port;
	__u32 next, flags;
};

/* Copies to one interface of a group. Returns whether that was the last one. */
static long copy_to_next(__u32 step, struct copying *copying)
{
	struct europa_port *port = copying->port;
	struct delivery delivery = { .interface = copying->next, .flags = EUROPA_WORD_COPY };
	struct europa_interface *to = bpf_map_lookup_elem(&interfaces, &delivery.interface);
	if (!to)
		return 1;
	copying->next = to->next;
	if ((to->flags & copying->flags) != copying->flags || to->flags & EUROPA_IF_VXLAN)
		return 0;
	if (port->copy_tokens <= 0) {
		port->copies_refused++;
		return 0;
	}
	port->copy_tokens--;
	deliver_all(copying->ctx, &delivery, port->flags & EUROPA_PORT_LOCAL_SENDER);
	return 0;
}

/* Copies to every interface that shares port and VLAN and has all of `flags`, up to the port's
 * bound; Linux also gets the frame. */
static __noinline int copy_to_group(context *ctx, struct europa_port *port,
				    struct frame *frame, __u32 flags)
{
	if (!ctx || !port || !frame)
		return VERDICT_TAKEN;
	struct copying copying = { .ctx = ctx, .port = port, .flags = flags };
	copying.next = port->id << 16 | frame->vlan;
	__u32 *first = bpf_map_lookup_elem(&groups, &copying.next);
	copying.next = first ? *first : EUROPA_NONE;
	port->to_linux++;
	/* The owner of the whole port sees tagged frames too. */
	if (frame->vlan && port->all != EUROPA_NONE) {
		struct delivery whole = { .interface = port->all, .flags = EUROPA_WORD_COPY };
		deliver_all(ctx, &whole, port->flags & EUROPA_PORT_LOCAL_SENDER);
	}
	if (copying.next == EUROPA_NONE)
		return VERDICT_LINUX;

	__u64 now = bpf_ktime_get_ns();
	__u64 since = now - port->copy_refilled_ns;
	/* Another CPU may have refilled since this one looked at the clock. */
	if ((__s64)since > 1000000) {
		__s64 tokens = since > 1000000000 ? COPIES_AT_ONCE
			: port->copy_tokens + (__s64)(since / (1000000000 / COPIES_PER_SECOND));
		port->copy_tokens = tokens > COPIES_AT_ONCE ? COPIES_AT_ONCE : tokens;
		port->copy_refilled_ns = now;
	}
	bpf_loop(MAX_GROUP, copy_to_next, &copying, 0);
	return VERDICT_LINUX;
}

/* An exact match of a number, in big endian, right-aligned. */
static __always_inline __u32 match_number(struct europa_port *port, __u16 vlan, __u8 kind,
					  __u32 number)
{
	struct europa_exact key = { .port = port->id, .vlan = vlan, .kind = kind };
	__u32 big = bpf_htonl(number);
	__builtin_memcpy(key.value + 2, &big, 4);
	__u32 *match = bpf_map_lookup_elem(&exact, &key);
	return match ? *match : EUROPA_NONE;
}

/* Whether a tunnel's outer addresses are its own in reverse: only the other end may inject packets
 * into it. The caller checked that `ip` is a whole header. */
static __always_inline int from_remote(__u32 id, const __u8 *ip, __u16 type)
{
	struct europa_encap *outer = bpf_map_lookup_elem(&encap, &id);
	if (!outer)
		return 0;
	const __u8 *own = outer->header + 14;
	if (type == ETH_IPV4)
		return outer->bytes == 50 && *(__u32 *)(ip + 12) == *(__u32 *)(own + 16) &&
		       *(__u32 *)(ip + 16) == *(__u32 *)(own + 12);
	if (outer->bytes != 70)
		return 0;
	for (int i = 0; i < 16; i += 2)
		if (load16(ip + 8 + i) != load16(own + 24 + i) ||
		    load16(ip + 24 + i) != load16(own + 8 + i))
			return 0;
	return 1;
}

/* A frame that is addressed to the port itself. */
static __noinline int match_own(context *ctx, struct europa_port *port, struct frame *frame,
				struct delivery *delivery)
{
	if (!ctx || !port || !frame || !delivery)
		return 0;
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 network = frame->network & 31;
	__u16 type = frame->type; /* once: the verifier follows it in a register */
	__u8 *ip = data + network;
	if (type == ETH_MPLS) {
		if (ip + 4 > end || !(port->flags & EUROPA_PORT_HAS_MPLS))
			return 0;
		delivery->interface = match_number(port, frame->vlan, EUROPA_MATCH_MPLS,
						   bpf_ntohl(*(__u32 *)ip) >> 12);
		return 0;
	}
	__u32 header;
	__u8 protocol;
	int first_fragment;
	if (type == ETH_IPV4) {
		if (ip + 20 > end)
			return 0;
		header = (ip[0] & 15) * 4;
		protocol = ip[9];
		first_fragment = !(load16(ip + 6) & bpf_htons(0x1fff));
	} else if (type == ETH_IPV6) {
		if (ip + 40 > end)
			return 0;
		header = 40;
		protocol = ip[6];
		first_fragment = 1;
	} else {
		return 0;
	}
	__u8 *udp = ip + (header & 63);
	if (protocol == IP_UDP && first_fragment && udp + 8 <= end) {
		__u16 destination = bpf_ntohs(load16(udp + 2));
		__u8 *vxlan = udp + 8;
		if (port->flags & EUROPA_PORT_HAS_VXLAN && destination == 4789 &&
		    vxlan + 8 <= end && vxlan[0] & 8) {
			delivery->interface = match_number(port, frame->vlan, EUROPA_MATCH_VXLAN,
							   bpf_ntohl(*(__u32 *)(vxlan + 4)) >> 8);
			if (delivery->interface != EUROPA_NONE) {
				if (!from_remote(delivery->interface, ip, type)) {
					delivery->interface = EUROPA_NONE;
					return 0;
				}
				delivery->skip = network + (header & 63) + 16;
				return 0;
			}
		}
		if (port->flags & EUROPA_PORT_HAS_UDP) {
			delivery->interface = match_number(port, frame->vlan, EUROPA_MATCH_UDP,
							   destination);
			if (delivery->interface != EUROPA_NONE)
				return 0;
		}
	}
	if (!(port->flags & EUROPA_PORT_HAS_PREFIX))
		return 0;
	__u32 scope = port->id << 16 | frame->vlan;
	__u32 *match;
	if (type == ETH_IPV4) {
		struct europa_prefix4 key = { .bits = 64, .scope = scope };
		__builtin_memcpy(key.address, ip + 16, 4);
		match = bpf_map_lookup_elem(&prefix4, &key);
	} else {
		struct europa_prefix6 key = { .bits = 160, .scope = scope };
		__builtin_memcpy(key.address, ip + 24, 16);
		match = bpf_map_lookup_elem(&prefix6, &key);
	}
	if (match)
		delivery->interface = *match;
	return 0;
}

/* An interface that takes a whole VLAN, or the whole port. */
static __always_inline void match_whole(struct europa_port *port, struct frame *frame,
					struct delivery *delivery)
{
	if (!(port->flags & EUROPA_PORT_HAS_ALL))
		return;
	delivery->interface = match_number(port, 0, EUROPA_MATCH_VLAN, frame->vlan);
	if (delivery->interface == EUROPA_NONE)
		delivery->interface = port->all;
}

#endif
