/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The fence: a port interface of a router that another node may take over carries frames until the
 * deadline of its node's lease only. The clock is CLOCK_BOOTTIME, which also runs while the machine
 * is suspended. The Rust twin, for frames that leave by a socket, is crates/substrate/src/fence.rs.
 */
#ifndef EUROPA_FENCE_H
#define EUROPA_FENCE_H

#include "maps.h"

/* Whether an interface must drop its frames now. For other interfaces it costs a test of a flag. */
static __always_inline int is_fenced(const struct europa_interface *row)
{
	if (__builtin_expect(!(row->flags & EUROPA_IF_FENCED), 1))
		return 0;
	__u32 zero = 0;
	struct europa_fence *until = bpf_map_lookup_elem(&fence, &zero);
	return !until || bpf_ktime_get_boot_ns() >= *(volatile __u64 *)&until->deadline_ns;
}

#endif
