/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Structs shared by the eBPF programs, the switch and the node, in maps that no router can map. The
 * Rust twin is made from this header when the crate europa-substrate is built.
 */
#ifndef EUROPA_SUBSTRATE_H
#define EUROPA_SUBSTRATE_H

#include "../sdk/c/europa_pool.h"

#define EUROPA_MAX_POOLS 4096
#define EUROPA_MAX_INTERFACES_TOTAL 4096
#define EUROPA_MAX_PORTS 1024
#define EUROPA_MAX_METERS 4096
/* Number of entries in the port table where a (namespace, device) may be. */
#define EUROPA_PORT_PROBES 4
/* Distance between these entries: larger than the number of devices of most namespaces, whose
 * indices are consecutive. */
#define EUROPA_PORT_STRIDE 167
#define EUROPA_TRANSMIT_LIST 4096 /* entries a worker, a power of two */
#define EUROPA_MAX_WORKERS 64
/* Longest frame in live-frame mode: a page without headroom and tail. */
#define EUROPA_MAX_LIVE_FRAME 3408
/* Places in the table of hints, a power of two. */
#define EUROPA_HINTS 8192
/* No interface: ends a chain, or marks a frame without a match. */
#define EUROPA_NONE 0xffffffffu

/* struct port.flags */
#define EUROPA_PORT_LOCAL_SENDER 1 /* veth, tap: checksums may be partial */
#define EUROPA_PORT_HAS_MPLS 2     /* some interface matches by label ... */
#define EUROPA_PORT_HAS_VXLAN 4
#define EUROPA_PORT_HAS_UDP 8
#define EUROPA_PORT_HAS_PREFIX 16
#define EUROPA_PORT_HAS_ALL 32

/* A port. Table `ports`, found by namespace and device index. */
struct europa_port {
	uint32_t ifindex; /* 0: empty */
	uint32_t namespace;
	uint32_t id;
	uint32_t flags;
	uint8_t mac[6];
	uint16_t reserved;
	uint32_t all; /* interface that takes all unmatched frames, or NONE */
	/* Copies of broadcasts that may still be made; refilled with time. */
	int64_t copy_tokens __attribute__((aligned(64)));
	uint64_t copy_refilled_ns;
	uint64_t to_linux;     /* frames passed on, as unmatched or shared */
	uint64_t copies_refused; /* broadcasts not copied: rate bound */
	uint64_t malformed;
	uint64_t reserved_to_end[3];
};

/* struct interface.flags */
#define EUROPA_IF_STRIP_VLAN 2   /* matched VLAN: tag off on receive, on at transmit */
#define EUROPA_IF_ANY_SOURCE 4   /* may send with any source MAC address (whole port) */
#define EUROPA_IF_BOUND 8        /* source addresses are checked against `bound` */
#define EUROPA_IF_SHARES_MAC 16  /* uses the port's own MAC: sees its ARP and ND */
#define EUROPA_IF_VXLAN 32       /* `encap` goes before each frame */
#define EUROPA_IF_TAGS 64        /* may send frames that carry a VLAN tag of their own, inside its VLAN's */
#define EUROPA_IF_BY_MAC 128     /* (port, VLAN, MAC address) stand in `exact`, and are here */
#define EUROPA_IF_CAGED 256      /* its router's program stands in `cages` */
#define EUROPA_IF_WIRE 512       /* one end of a link of a kernel router: frames there count links */
#define EUROPA_IF_FENCED 1024    /* carries frames until the deadline in `fence` only */

/* In struct interface.pool: this pool uses the second of the two cursors. Successive pools of an
 * interface alternate, as receive programs may still use the former pool. */
#define EUROPA_POOL_ODD 0x80000000

/* An interface of a router, on a port. Table `interfaces`. */
struct europa_interface {
	/* written by the node */
	uint32_t pool; /* perhaps with EUROPA_POOL_ODD */
	uint32_t local; /* the router's own number */
	uint32_t port;
	uint32_t flags;
	uint32_t rx_first;
	uint32_t rx_mask;
	uint32_t next; /* chain of those that share port and VLAN, or NONE */
	uint16_t vlan;
	uint8_t mac[6];
	uint32_t max_frame; /* longest it may send, in bytes, without VLAN tag */
	uint32_t taps;      /* captures that want its frames, a bit each; mostly 0 */
	uint32_t meter;     /* polices what comes in by its port; 0: nobody does */
	uint32_t relay;     /* that of the interface, plus 1, by which frames come to its router's process that
			     * the XDP program sends by this one; 0: they leave at once */
	uint32_t reserved[2];
	/* receive programs, compare-and-swap */
	uint32_t rx_tail[2] __attribute__((aligned(64)));
	/* written by receive programs, without locks: when the backlog became larger than usual (0: it is
	 * not), and until when the router counts as behind */
	uint64_t burst_began __attribute__((aligned(8)));
	uint64_t behind_until;
	/* the switch */
	uint32_t tx_head[2] __attribute__((aligned(64)));
	uint32_t reserved_to_end[14];
};

/* The interface that may own frames to a MAC address; the interface's row decides. The latest
 * writer wins. Table `hints`, by europa_hint_place(). */
struct europa_hint {
	uint32_t interface;
	uint32_t reserved;
};

/* `address`: the six bytes of the MAC address and the two of the VLAN as one number. */
static inline uint32_t europa_hint_place(uint64_t address, uint32_t port)
{
	return ((address ^ port) * 0x9e3779b97f4a7c15ull >> 32) % EUROPA_HINTS;
}

/* A slice's highest received rate from a port: a token bucket, kept as the time until which its
 * rate is used up, in 64ths of a nanosecond. Table `meters`, from 1 on. */
struct europa_meter {
	/* written by the node */
	uint64_t cost;  /* of a byte, in 2^-20 of that unit; 0: nothing is policed */
	uint64_t burst; /* the bucket's depth */
	/* receive programs, compare-and-swap */
	uint64_t used_until __attribute__((aligned(64)));
	uint64_t reserved_to_end[7];
};

/* Until when fenced interfaces carry frames: nanoseconds of CLOCK_BOOTTIME. Only the node writes it:
 * the programs and the switch have it for reading. Table `fence`, one entry. */
struct europa_fence {
	uint64_t deadline_ns;
};

/* Headers that go before each frame of an interface. Table `encap`, by interface. */
struct europa_encap {
	uint32_t bytes;    /* 0, 50 (IPv4) or 70 (IPv6) */
	uint16_t vlan;     /* reserved */
	uint16_t reserved;
	uint8_t header[72]; /* Ethernet, IP, UDP, VXLAN; lengths and checksum left zero */
};

/* struct pool_state.kind: the table of maps that has the pool. */
#define EUROPA_POOL_SMALL 0 /* small slots */
#define EUROPA_POOL_LARGE 1 /* large slots */
#define EUROPA_POOL_USUAL 2 /* small slots, and EUROPA_USUAL_ELEMENTS with all the rest */
/* Usual pools have 8,192 slots and 8 interfaces. */
#define EUROPA_USUAL_ELEMENTS 10881

/* A pool's geometry and cursors. Table `pool_state`, by pool. */
struct europa_pool_state {
	/* written by the node */
	uint32_t slots; /* a power of two; 0: no pool */
	uint32_t kind;  /* EUROPA_POOL_ */
	uint32_t fill_first;
	uint32_t fill_mask;
	uint32_t recycle_first;
	uint32_t recycle_mask;
	uint32_t done_first;
	uint32_t done_mask;
	uint32_t spare_first;
	uint32_t spare_mask;
	uint32_t long_slots; /* a power of two, or none */
	uint32_t long_first; /* element that they begin with */
	uint32_t long_fill_first;
	uint32_t long_recycle_first;
	uint32_t reserved[2];
	/* takers of free slots: receive programs and switch, compare-and-swap */
	uint32_t recycle_head __attribute__((aligned(64)));
	uint32_t fill_head;
	uint32_t spare_head;
	uint32_t long_fill_head;
	uint32_t long_recycle_head;
	/* givers: transmit programs and switch, fetch-and-add */
	uint32_t recycle_tail __attribute__((aligned(64)));
	uint32_t done_tail;
	uint32_t spare_tail; /* switch only */
	uint32_t long_recycle_tail;
	/* wake-ups that may still be made; refilled with time */
	int64_t wake_tokens __attribute__((aligned(64)));
	uint64_t wake_refilled_ns;
	uint64_t wakes;
	uint64_t wakes_refused;
	uint64_t reserved_to_end[4];
};

/* Counters of an interface on one CPU; the row behind the last CPU is the
 * switch's. Table `counters`, by interface * rows + row. */
struct europa_counters {
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t rx_drop_ring;     /* the router does not drain its ring */
	uint64_t rx_drop_slots;    /* the router has no free slot */
	uint64_t rx_drop_long;     /* does not fit into a slot */
	uint64_t rx_checksums;     /* partial checksums completed */
	uint64_t tx_packets;
	uint64_t tx_bytes;
	uint64_t tx_drop_source;   /* a source MAC address that is not the interface's */
	uint64_t tx_drop_address;  /* a source address it is not bound to */
	uint64_t tx_drop_vlan;     /* a VLAN tag it may not send */
	uint64_t tx_drop_length;   /* shorter than a header or longer than the MTU */
	uint64_t tx_drop_pool;     /* the pool is gone */
	uint64_t tx_drop_queue;    /* the port's queue is full */
	uint64_t tx_drop_device;   /* the socket refused it */
	uint64_t tx_drop_link;     /* the other end of the link has no room */
	uint64_t tx_drop_filter;   /* a rule of its slice decides it */
	uint64_t rx_drop_rate;     /* over its slice's reservation of the port */
	uint64_t rx_kernel_ns;     /* CPU time of receive programs, from one of 64 frames */
	uint64_t rx_drop_program;  /* the router's XDP program decides it */
	uint64_t rx_drop_aborted;  /* the router's XDP program failed: XDP_ABORTED, or no verdict */
	uint64_t rx_drop_target;   /* the router's XDP program named a device that it does not have */
	uint64_t tx_drop_hops;     /* it has crossed as many links of kernel routers as it may */
	uint64_t tx_drop_live;     /* longer than kernel routers may send over a link */
	uint64_t tx_offered;       /* taken from its transmit ring, or sent to it by a rule or a program */
	uint64_t tx_elsewhere;     /* of these, sent by a rule to another interface or back to the router */
	uint64_t tx_drop_line;     /* its link loses some, or is full */
	uint64_t tx_drop_switch;   /* held by a switch that has ended */
	uint64_t rx_drop_fenced;   /* its node has no lease: see bpf/fence.h */
	uint64_t tx_drop_fenced;
	uint64_t reserved_to_end[2];
};

/* Most links that a frame may cross from kernel router to kernel router in a row. */
#define EUROPA_CAGE_HOPS 4
/* Devices that the XDP program of a router can name: 1 to this number minus one. */
#define EUROPA_CAGE_DEVICES 64
/* Bytes that a frame may grow by at once. */
#define EUROPA_CAGE_ROOM 256

/* A frame that is in the cage of a router's XDP program. Table `caged`, one entry a CPU. */
struct europa_caged {
	/* the receive program */
	uint32_t interface; /* that it came in by */
	uint32_t bytes;
	/* the cage */
	uint32_t target;  /* interface that it is redirected to, or NONE */
	uint32_t verdict; /* XDP_ */
	uint32_t metadata; /* bytes before the frame */
	uint32_t resized;  /* the program has changed its length */
	/* the receive program */
	uint32_t hops; /* links between kernel routers that the frame has crossed */
	uint32_t taps; /* captures that want the frames of the interface, a bit each; mostly 0 */
	uint32_t number; /* of the captured frame, among those of this CPU */
	uint32_t reserved;
};

/* Frames that one CPU has received for routers. Table `receivers`, by CPU. */
struct europa_receiver {
	uint64_t frames;
	uint64_t reserved_to_end[7];
};

/* One descriptor to send: stamped by the switch. Table `transmit_list`, by
 * worker * EUROPA_TRANSMIT_LIST + position. */
struct europa_transmit {
	uint64_t word;
	uint32_t interface;
	uint32_t pool;
};

/* A worker's cursors in its transmit list. Table `workers`. */
struct europa_worker {
	uint32_t head; /* transmit program */
	uint32_t tail __attribute__((aligned(64))); /* worker */
	uint32_t settled; /* worker: slots before this are not held any more */
	uint32_t reserved[14];
};

/* The settings of a capture, and its losses. Table `tap_state`, by tap. */
#define EUROPA_MAX_TAPS 8
/* Frames of one direction; each direction has its own, as the two run on different CPUs. */
struct europa_tap_side {
	/* programs and switch: records that may still be made, refilled with time */
	int64_t tokens __attribute__((aligned(64)));
	uint64_t refilled_ns;
	uint64_t lost_rate; /* frames not copied: over the rate */
	uint64_t lost_room; /* frames not copied: the reader of the ring was too slow */
	uint64_t reserved_to_end[4];
};
struct europa_tap {
	/* written by the node */
	uint32_t snaplen; /* bytes of a frame that are copied, at most */
	uint32_t rate;    /* records a second each way, at most */
	uint64_t reserved[7];
	struct europa_tap_side received; /* to routers */
	struct europa_tap_side sent;     /* from them */
};

/* A frame in a capture's ring; its bytes follow. The Rust twin is crates/substrate/src/tap.rs. */
#define EUROPA_TAP_IN 1  /* to the router */
#define EUROPA_TAP_OUT 2 /* from it */
struct europa_record {
	uint64_t time_ns; /* monotonic clock */
	uint32_t interface;
	uint32_t length;   /* of the frame, as its router sees it */
	uint32_t captured; /* of these, bytes that follow */
	uint8_t direction;
	uint8_t cause; /* 0: went its way; else the number of its counter in europa_counters */
	uint8_t way;   /* EUROPA_WAY_ */
	uint8_t reserved;
	uint64_t frame; /* the same in all records of a frame of a kernel router's program; else 0 */
};
#define EUROPA_WAY_POOL 0 /* into the pool, from a port */
#define EUROPA_WAY_LIVE 1 /* out by a kick */
#define EUROPA_WAY_SOCKET 2
#define EUROPA_WAY_LINK 3
#define EUROPA_WAY_CAGE 4 /* into, or out of, the cage of a router's XDP program */
#define EUROPA_WAY_VERDICT 5 /* what the program left of the frame, where it does not leave */

/* Exact matches: table `exact`. */
#define EUROPA_MATCH_MAC 1
#define EUROPA_MATCH_VLAN 2 /* everything on the VLAN */
#define EUROPA_MATCH_UDP 3
#define EUROPA_MATCH_VXLAN 4
#define EUROPA_MATCH_MPLS 5
struct europa_exact {
	uint16_t port;
	uint16_t vlan; /* 0: untagged */
	uint8_t kind;
	uint8_t reserved;
	uint8_t value[6]; /* MAC address, or number in big endian, right-aligned */
};

/* Longest prefix matches: tables `prefix4`, `prefix6` (by port, VLAN and
 * destination) and `bound4`, `bound6` (by interface and source). The first four
 * bytes of the key are always significant. */
struct europa_prefix4 {
	uint32_t bits;
	uint32_t scope; /* port << 16 | vlan, or interface */
	uint8_t address[4];
};
struct europa_prefix6 {
	uint32_t bits;
	uint32_t scope;
	uint8_t address[16];
};

_Static_assert(sizeof(struct europa_port) == 128, "port");
_Static_assert(sizeof(struct europa_interface) == 192, "interface");
_Static_assert(sizeof(struct europa_hint) == 8, "hint");
_Static_assert(sizeof(struct europa_meter) == 128, "meter");
_Static_assert(sizeof(struct europa_fence) == 8, "fence");
_Static_assert(sizeof(struct europa_encap) == 80, "encap");
_Static_assert(sizeof(struct europa_pool_state) == 256, "pool state");
_Static_assert(sizeof(struct europa_counters) == 256, "counters");
_Static_assert(sizeof(struct europa_receiver) == 64, "receiver");
_Static_assert(sizeof(struct europa_caged) == 40, "caged");
_Static_assert(sizeof(struct europa_transmit) == 16, "transmit");
_Static_assert(sizeof(struct europa_worker) == 128, "worker");
_Static_assert(sizeof(struct europa_tap) == 192, "tap");
_Static_assert(sizeof(struct europa_record) == 32, "record");
_Static_assert(sizeof(struct europa_exact) == 12, "exact match");

#endif
