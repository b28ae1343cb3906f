/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The maps, shared by all programs: pinned by name, found again by every loader. */
#ifndef EUROPA_MAPS_H
#define EUROPA_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "devices.h"
#include "substrate.h"

#ifndef BPF_F_INNER_MAP
#define BPF_F_INNER_MAP (1U << 12)
#endif

/* A pool's memory, one element a slot. All inner maps of a table must have one value size. Their
 * number of elements may differ, but then each look-up is a call. So there are three tables: for
 * small slots, for large slots, and for pools of the usual number of elements. */
struct usual_pool {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EUROPA_USUAL_ELEMENTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, EUROPA_SMALL_SLOT_BYTES);
};
struct small_pool {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(key_size, 4);
	__uint(value_size, EUROPA_SMALL_SLOT_BYTES);
};
struct large_pool {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(key_size, 4);
	__uint(value_size, EUROPA_LARGE_SLOT_BYTES);
};
/* Rings that a sleeping router polls; their contents have no meaning. */
struct waker {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EUROPA_MAX_POOLS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct usual_pool);
} usual_pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EUROPA_MAX_POOLS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct small_pool);
} small_pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EUROPA_MAX_POOLS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct large_pool);
} large_pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EUROPA_MAX_POOLS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct waker);
} wakers SEC(".maps");

/* A capture's ring. */
struct tap_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EUROPA_MAX_TAPS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__array(values, struct tap_ring);
} tap_rings SEC(".maps");

#define SHARED_ARRAY(name, type_, entries)               \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_ARRAY);        \
		__uint(max_entries, entries);            \
		__uint(map_flags, BPF_F_MMAPABLE);       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);     \
		__type(key, __u32);                      \
		__type(value, type_);                    \
	} name SEC(".maps")

SHARED_ARRAY(ports, struct europa_port, EUROPA_MAX_PORTS);
SHARED_ARRAY(interfaces, struct europa_interface, EUROPA_MAX_INTERFACES_TOTAL);
SHARED_ARRAY(hints, struct europa_hint, EUROPA_HINTS);
SHARED_ARRAY(meters, struct europa_meter, EUROPA_MAX_METERS);
SHARED_ARRAY(encap, struct europa_encap, EUROPA_MAX_INTERFACES_TOTAL);
SHARED_ARRAY(pool_state, struct europa_pool_state, EUROPA_MAX_POOLS);
SHARED_ARRAY(counters, struct europa_counters, 1); /* resized by the loader */
SHARED_ARRAY(receivers, struct europa_receiver, 1); /* resized, too: one a CPU */
SHARED_ARRAY(transmit_list, struct europa_transmit, EUROPA_TRANSMIT_LIST *EUROPA_MAX_WORKERS);
SHARED_ARRAY(workers, struct europa_worker, EUROPA_MAX_WORKERS);
SHARED_ARRAY(tap_state, struct europa_tap, EUROPA_MAX_TAPS);

/* The programs cannot write it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_RDONLY_PROG);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct europa_fence);
} fence SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EUROPA_MAX_INTERFACES_TOTAL * 2);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct europa_exact);
	__type(value, __u32);
} exact SEC(".maps");

/* First interface of those that share port and VLAN: port << 16 | vlan. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EUROPA_MAX_INTERFACES_TOTAL);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} groups SEC(".maps");

#define PREFIX_TABLE(name, type_)                        \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);     \
		__uint(max_entries, 1 << 16);            \
		__uint(map_flags, BPF_F_NO_PREALLOC);    \
		__uint(pinning, LIBBPF_PIN_BY_NAME);     \
		__type(key, type_);                      \
		__type(value, __u32);                    \
	} name SEC(".maps")

PREFIX_TABLE(prefix4, struct europa_prefix4);
PREFIX_TABLE(prefix6, struct europa_prefix6);
PREFIX_TABLE(bound4, struct europa_prefix4);
PREFIX_TABLE(bound6, struct europa_prefix6);

/* Programs of routers with `run: kernel`, each in its cage, by interface. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, EUROPA_MAX_INTERFACES_TOTAL);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} cages SEC(".maps");

/* The program behind a router's own: the judge (bpf/judge.h). */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} judges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct europa_caged);
} caged SEC(".maps");

/* Room for a frame whose checksum is completed before its router's program sees it. */
struct cage_frame {
	__u8 bytes[EUROPA_LARGE_SLOT_BYTES];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct cage_frame);
} cage_frames SEC(".maps");

/* Zeros, for the bytes that a program uncovers before a frame. */
struct cage_zeros {
	__u8 bytes[EUROPA_CAGE_ROOM];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, struct cage_zeros);
} cage_zeros SEC(".maps");

/* Output devices for frames of routers with `run: kernel`, by port. Not an array: an array accepts
 * only programs that agree about frames of several fragments. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, EUROPA_MAX_PORTS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} cage_devices SEC(".maps");

/* Number of rows of a counter: one for each CPU, and one more. */
const volatile __u32 counter_rows = 1;

static __always_inline struct europa_counters *counters_of(__u32 interface)
{
	__u32 index = interface * counter_rows + bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&counters, &index);
}

#endif
