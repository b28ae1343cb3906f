// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Counts the benchmark's frames and drops them; everything else passes.
#include "headers.h"

/* Values of enum tcx_action_base, which older system headers lack. */
enum { NEXT_PROGRAM = -1, DROP = 2 };

/* Mirrored by `Counters` in src/sink.rs. */
struct counters {
	__u64 packets;
	__u64 bytes;
	__u64 out_of_order; /* stamped frames whose number is not above the last one seen */
	__u64 highest;      /* highest sequence number seen */
	__u64 wrong_ttl;    /* packets whose TTL the routers did not lower by the number in `config` */
	__u64 delay_ns;     /* sum of one-way delays of stamped frames */
	__u64 jitter_ns;    /* sum of the differences between successive delays */
	__u64 last_ns;      /* the last delay */
};

const volatile struct {
	__u8 expected_ttl; /* 0: the sink does not check TTLs */
	__u8 stamped;
	__u8 flows; /* 1: the sink counts the packets of each flow */
} config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* Packets by the last two bytes of their destination, if `config` has the number of flows. */
enum { MOST_FLOWS = 1024 };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MOST_FLOWS);
	__type(key, __u32);
	__type(value, __u64);
} flows SEC(".maps");

/* One-way delays: eight classes for each power of two of nanoseconds. Mirrored in src/sink.rs. */
enum { DELAY_BITS = 3, DELAYS = 64 << DELAY_BITS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DELAYS);
	__type(key, __u32);
	__type(value, __u64);
} delays SEC(".maps");

/* Position of the highest bit of a value that is not 0. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32) { bit += 32; value >>= 32; }
	if (value >> 16) { bit += 16; value >>= 16; }
	if (value >> 8) { bit += 8; value >>= 8; }
	if (value >> 4) { bit += 4; value >>= 4; }
	if (value >> 2) { bit += 2; value >>= 2; }
	return bit + (value >> 1);
}

static __always_inline void note_delay(struct counters *c, __u64 delay)
{
	__u64 change = delay > c->last_ns ? delay - c->last_ns : c->last_ns - delay;
	__u32 bit = highest_bit(delay | 1 << DELAY_BITS);
	__u32 class = bit << DELAY_BITS | (delay >> (bit - DELAY_BITS) & ((1 << DELAY_BITS) - 1));
	__u64 *one = bpf_map_lookup_elem(&delays, &class);

	c->delay_ns += delay;
	if (c->last_ns)
		c->jitter_ns += change;
	c->last_ns = delay;
	if (one)
		(*one)++;
}

/* True if the frame was the generator's and the sink has counted it. */
static __always_inline int count(__u8 *data, __u8 *end, __u32 length)
{
	__u32 key = 0;
	struct counters *c;

	if (data + UDP_END > end || *(__u16 *)(data + ETHERNET_TYPE) != bpf_htons(0x0800) ||
	    data[IPV4 + 9] != 17 || *(__u16 *)(data + UDP + 2) != bpf_htons(9))
		return 0;
	c = bpf_map_lookup_elem(&counters, &key);
	if (!c)
		return 0;
	c->packets++;
	c->bytes += length;
	if (config.expected_ttl && data[IPV4_TTL] != config.expected_ttl)
		c->wrong_ttl++;
	if (config.flows) {
		__u64 *flow;

		key = bpf_ntohs(*(__u16 *)(data + IPV4_DESTINATION + 2));
		flow = bpf_map_lookup_elem(&flows, &key);
		if (flow)
			(*flow)++;
	}
	if (config.stamped && data + STAMP_END <= end) {
		__u64 number = *(__u64 *)(data + UDP_END);

		if (c->packets > 1 && number <= c->highest)
			c->out_of_order++;
		else
			c->highest = number;
		note_delay(c, bpf_ktime_get_ns() - *(__u64 *)(data + UDP_END + 8));
	}
	return 1;
}

/* For systems that send raw frames (XDP, Europa). */
SEC("xdp")
int sink_xdp(struct xdp_md *context)
{
	__u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;

	return count(data, end, end - data) ? XDP_DROP : XDP_PASS;
}

/* For systems that send socket buffers, which an XDP sink would make veth copy. */
SEC("tcx/ingress")
int sink_tcx(struct __sk_buff *context)
{
	__u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;

	return count(data, end, context->len) ? DROP : NEXT_PROGRAM;
}

/* Makes a veth accept redirected frames while its GRO is off. */
SEC("xdp")
int pass(struct xdp_md *context)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
