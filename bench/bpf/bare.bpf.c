// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The smallest possible receive and transmit programs, as a baseline: drop all frames, and redirect
// them.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} way_out SEC(".maps");

SEC("xdp.frags")
int bare_drop(struct xdp_md *context)
{
	return XDP_DROP;
}

SEC("xdp")
int bare_redirect(struct xdp_md *context)
{
	return bpf_redirect_map(&way_out, 0, XDP_DROP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
