// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Sends UDP frames. Run in live-frame mode: the kernel calls `generate` for each frame, in batches
// of 64, and sends the redirected frames out of the device.
#include "headers.h"

enum { BATCH = 64, ALLOWED_DEBT = 1024 };

/* Mirrored by `Config::to_bytes` in src/generator.rs. */
const volatile struct {
	__u64 packets_per_second; /* 0: as fast as possible */
	__u32 ifindex;
	__u32 destinations; /* 1, or a power of two up to 65536: the low bits vary */
	__u32 stamp;        /* 1: write sequence number and time after the UDP header */
	__u8 header[UDP_END];
	__u8 padding[2];
	__u32 routers; /* 0, or their number; the MAC address of each ends in a number */
	__u32 more_padding;
} config = {};

/* Mirrored by `Generator::sent`. One thread runs the program, so nothing is atomic. */
struct {
	__u64 sent;
	__u64 started_ns;
	__u64 forgiven; /* packets that were due while the machine could not send them */
	__u64 quota;
	__u64 random;
	__u32 left_in_batch;
	__u32 padding;
} state = {};

/* The clock is read once for each batch: reading it costs more than sending a packet. */
static __always_inline int may_send(void)
{
	if (!state.left_in_batch) {
		__u64 now = bpf_ktime_get_ns(), due, accounted;

		if (!state.started_ns)
			state.started_ns = now;
		/* 10^7 packets/s overflow 2^64 after half an hour; a run takes seconds. */
		due = (now - state.started_ns) * config.packets_per_second / 1000000000ULL;
		accounted = state.sent + state.forgiven;
		state.quota = due > accounted ? due - accounted : 0;
		if (state.quota > ALLOWED_DEBT) {
			state.forgiven += state.quota - ALLOWED_DEBT;
			state.quota = ALLOWED_DEBT;
		}
		state.left_in_batch = BATCH;
	}
	state.left_in_batch--;
	if (!state.quota)
		return 0;
	state.quota--;
	return 1;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

SEC("xdp")
int generate(struct xdp_md *context)
{
	__u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;

	if (data + UDP_END > end)
		return XDP_ABORTED;
	if (config.packets_per_second && !may_send())
		return XDP_DROP;

	/* Live frames are recycled and hold what the last receiver left in them. */
	for (int i = 0; i < UDP_END; i += 2)
		*(__u16 *)(data + i) = *(const volatile __u16 *)(config.header + i);

	if (config.destinations > 1) {
		__u16 *destination = (__u16 *)(data + IPV4_DESTINATION + 2);
		__u16 *checksum = (__u16 *)(data + IPV4_CHECKSUM);
		__u16 before = *destination, after;

		state.random = state.random * 6364136223846793005ULL + 1442695040888963407ULL;
		after = bpf_htons((bpf_ntohs(before) & ~(config.destinations - 1)) |
				  ((state.random >> 33) & (config.destinations - 1)));
		*destination = after;
		/* RFC 1624, equation 3. */
		*checksum = ~fold((__u16)~*checksum + (__u16)~before + after);
	}
	if (config.routers) {
		__u16 *destination = (__u16 *)(data + IPV4_DESTINATION + 2);
		__u16 *checksum = (__u16 *)(data + IPV4_CHECKSUM);
		__u16 before = *destination, number;

		state.random = state.random * 6364136223846793005ULL + 1442695040888963407ULL;
		number = bpf_htons((__u32)(state.random >> 33) % config.routers);
		*(__u16 *)(data + 4) = number;
		*destination = number;
		*checksum = ~fold((__u16)~*checksum + (__u16)~before + number);
	}
	if (config.stamp) {
		if (data + STAMP_END > end)
			return XDP_ABORTED;
		*(__u64 *)(data + UDP_END) = state.sent;
		*(__u64 *)(data + UDP_END + 8) = bpf_ktime_get_ns();
	}
	state.sent++;
	return bpf_redirect(config.ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
