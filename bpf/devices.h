/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Output devices, by port. */
#ifndef EUROPA_DEVICES_H
#define EUROPA_DEVICES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "substrate.h"

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, EUROPA_MAX_PORTS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

#endif
