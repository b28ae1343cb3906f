/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Offsets of the only frame that the benchmark sends: Ethernet, IPv4 without options, UDP. */
#ifndef BENCH_HEADERS_H
#define BENCH_HEADERS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

enum {
	ETHERNET_TYPE = 12,
	IPV4 = 14,
	IPV4_LENGTH = 16,
	IPV4_TTL = 22,
	IPV4_CHECKSUM = 24,
	IPV4_SOURCE = 26,
	IPV4_DESTINATION = 30,
	UDP = 34,
	UDP_END = 42,
	STAMP_END = 58, /* sequence number and time of sending, 8 bytes each */
};

#endif
