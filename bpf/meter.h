/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The highest rates at which slices receive from ports. */
#ifndef EUROPA_METER_H
#define EUROPA_METER_H

#include "ring.h"

/* Takes a frame's bytes out of a bucket; false if it has fewer. One compare-and-swap for a frame
 * that passes, none for one that does not, and no cost without a meter. */
static __noinline int within_rate(__u32 number, __u32 bytes)
{
	struct europa_meter *meter = bpf_map_lookup_elem(&meters, &number);
	if (!meter || !meter->cost)
		return 1;
	/* 64ths of a nanosecond last for nine years, and a byte at 100 Gb/s has five. */
	__u64 now = bpf_ktime_get_ns() * 64;
	__u64 charge = (bytes & 0x1ffff) * meter->cost >> 20;
	for (int try = 0; try < MAX_TRIES; try++) {
		__u64 until = *(volatile __u64 *)&meter->used_until, from = until;
		/* Another CPU may have looked at the clock after this one. */
		if ((__s64)(now - until) > (__s64)meter->burst)
			from = now - meter->burst;
		if ((__s64)(from + charge - now) > 0)
			return 0;
		if (__sync_val_compare_and_swap(&meter->used_until, until, from + charge) == until)
			return 1;
	}
	/* Other CPUs were faster each time. The bucket may now lack a frame for each CPU: later refills
	 * cover it, so over time the rate holds. */
	__sync_fetch_and_add(&meter->used_until, charge);
	return 1;
}

#endif
