/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whether the peer of a veth has received all live frames that were sent to it. The switch checks
 * this before it sends by a socket, so that frames are not reordered: where a veth segments, frames
 * of a socket bypass the rings of live frames. The kernel does not export this, so it is read from
 * veth's own structures (drivers/net/veth.c), at their offsets in the running kernel.
 */
#include "devices.h"
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NAPI_SCHEDULED 1
/* Where the private part of a device began before it was a field (Linux 6.10). */
#define NETDEV_ALIGN 32

#define KERNEL __attribute__((preserve_access_index))

struct ptr_ring {
	int consumer_head;
	int size;
	void **queue;
} KERNEL;

struct gro_node {
	unsigned long bitmask;
} KERNEL;

struct napi_struct {
	unsigned long state;
	struct gro_node gro;
} KERNEL;

struct napi_struct___before_6_15 {
	unsigned long gro_bitmask;
} KERNEL;

struct net_device {
	unsigned int real_num_rx_queues;
	unsigned char priv[];
} KERNEL;

struct veth_rq {
	struct napi_struct xdp_napi;
	struct ptr_ring xdp_ring;
} KERNEL;

struct veth_priv {
	struct net_device *peer;
	struct veth_rq *rq;
} KERNEL;

struct bpf_dtab_netdev {
	struct net_device *dev;
} KERNEL;

struct bpf_dtab {
	struct bpf_dtab_netdev **netdev_map;
} KERNEL;

/* The device of a port; numbers of ports are places in the table. */
static __always_inline struct net_device *device_of(__u64 port)
{
	struct bpf_dtab_netdev **entries, *entry = 0;
	/* The verifier allows no addition to a map's address, only to a number that is read from memory.
	 */
	void *table = &devices;
	struct bpf_dtab *address = 0;
	bpf_probe_read_kernel(&address, sizeof(address), &table);
	entries = BPF_CORE_READ(address, netdev_map);
	if (port < EUROPA_MAX_PORTS)
		bpf_probe_read_kernel(&entry, sizeof(entry), entries + port);
	return entry ? BPF_CORE_READ(entry, dev) : 0;
}

static __always_inline struct veth_priv *private_of(struct net_device *device)
{
	__u64 offset;
	if (bpf_core_field_exists(device->priv))
		offset = bpf_core_field_offset(device->priv);
	else
		offset = (bpf_core_type_size(struct net_device) + NETDEV_ALIGN - 1) &
			 ~(__u64)(NETDEV_ALIGN - 1);
	return (void *)device + offset;
}

/* Packets that are held for merging with later ones (gro_flush_timeout). */
static __always_inline unsigned long kept_back(struct napi_struct *napi)
{
	struct napi_struct___before_6_15 *before = (void *)napi;
	if (bpf_core_field_exists(before->gro_bitmask))
		return BPF_CORE_READ(before, gro_bitmask);
	return BPF_CORE_READ(napi, gro.bitmask);
}

/* An unreadable ring does not count as drained. */
static __always_inline int is_drained(struct veth_rq *queue)
{
	struct ptr_ring *ring = (void *)queue + bpf_core_field_offset(queue->xdp_ring);
	struct napi_struct *napi = (void *)queue + bpf_core_field_offset(queue->xdp_napi);
	void **entries, *next = 0;
	int fence = 0, size = 0;
	unsigned long state = 0;
	if (BPF_CORE_READ_INTO(&size, ring, size))
		return 0;
	/* There is no ring, as the peer takes no live frames. */
	if (!size)
		return 1;
	entries = BPF_CORE_READ(ring, queue);
	if (bpf_probe_read_kernel(&next, sizeof(next), entries + BPF_CORE_READ(ring, consumer_head)))
		return 0;
	if (next)
		return 0;
	/* The poller that emptied the ring counts as scheduled until it has passed the frames on. In this
	 * order: it looks at the ring again after that. */
	__sync_fetch_and_add(&fence, 1);
	if (BPF_CORE_READ_INTO(&state, napi, state))
		return 0;
	return !(state & NAPI_SCHEDULED) && !kept_back(napi);
}

/* The receive queues of a device, and whether all that were looked at are drained. */
struct queues {
	struct veth_rq *first;
	int drained;
};

/* Checks one queue; 0 continues. */
static long look(__u32 index, struct queues *queues)
{
	__u64 offset = (__u64)index * bpf_core_type_size(struct veth_rq);
	queues->drained = is_drained((void *)queues->first + offset);
	return !queues->drained;
}

/* Returns XDP_PASS if all frames were received. The packet begins with the port's number; the
 * port's device is a veth. This is an XDP program because all programs that use the table of
 * devices must have one type. */
SEC("xdp") int europa_drained(struct xdp_md *ctx)
{
	__u32 *port = (void *)(long)ctx->data;
	if ((void *)(port + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	struct net_device *device = device_of(*port);
	struct net_device *peer = device ? BPF_CORE_READ(private_of(device), peer) : 0;
	/* A removed peer receives no more frames. */
	if (!peer)
		return XDP_PASS;
	/* A device has at least one queue. */
	struct queues queues = { .first = BPF_CORE_READ(private_of(peer), rq) };
	bpf_loop(BPF_CORE_READ(peer, real_num_rx_queues), look, &queues, 0);
	return queues.drained ? XDP_PASS : XDP_DROP;
}
