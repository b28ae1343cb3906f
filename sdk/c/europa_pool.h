/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* Layout of a packet pool. Generated from crates/pool: do not edit. */
#ifndef EUROPA_POOL_H
#define EUROPA_POOL_H

#ifndef __bpf__
#include <stddef.h>
#include <stdint.h>
#else
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s64 int64_t;
#endif

#define EUROPA_ABI_VERSION 1u /* version of this layout */
#define EUROPA_ABI_MAGIC 0x6c507545u /* first four bytes of the header */
#define EUROPA_KEY_BYTES 40u /* of a filter key */
#define EUROPA_RESULT_BYTES 16u /* of what a rule answers to it */
#define EUROPA_SLOT_METADATA_BYTES 64u /* metadata at the start of a slot */
#define EUROPA_RX_OFFSET_BYTES 192u /* a received frame starts here at the earliest */
#define EUROPA_RX_BACKLOG 1024u /* packets that may always wait in a receive ring */
#define EUROPA_RX_PLACES_MASK 3u /* plus 64 times (slot and this) */
#define EUROPA_TAIL_BYTES 8u /* room behind a received frame */
#define EUROPA_UNSEEN_NS 4000u /* what was published shows itself so soon */
#define EUROPA_SMALL_SLOT_BYTES 2048u /* slots for an MTU of 1500 */
#define EUROPA_LARGE_SLOT_BYTES 16384u /* slots for jumbo frames */
#define EUROPA_LONG_SLOT_BYTES 0x10000u /* long slots, for super-packets */
#define EUROPA_LONG_SLOT 0x80000u /* bit of the numbers of long slots */
#define EUROPA_MAX_INTERFACES 64u /* interfaces of one router */
#define EUROPA_MAX_SLOTS 0x10000u /* slots of one pool */
#define EUROPA_WORD_OFFSET_SHIFT 16u
#define EUROPA_WORD_SLOT_SHIFT 26u
#define EUROPA_WORD_INTERFACE_SHIFT 46u
#define EUROPA_WORD_FLAGS_SHIFT 54u
#define EUROPA_WORD_LENGTH_MASK 65535u
#define EUROPA_WORD_OFFSET_MASK 1023u
#define EUROPA_WORD_SLOT_MASK 0xfffffu
#define EUROPA_WORD_INTERFACE_MASK 255u
#define EUROPA_WORD_FLAGS_MASK 511u
#define EUROPA_WORD_VALID 0x8000000000000000ull /* the entry is occupied */
#define EUROPA_WORD_COPY 1u /* receive: broadcast or multicast, copied to several */
#define EUROPA_WORD_RETURN 2u /* transmit: slot back by the done ring */
#define EUROPA_WORD_KEY 1u /* transmit: look the metadata's key up */
#define EUROPA_WORD_RESULT 4u /* receive: the metadata has a result */
#define EUROPA_WORD_QUEUE_LOW_SHIFT 46u /* transmit: queue's number, 8 bits */
#define EUROPA_WORD_QUEUE_HIGH_SHIFT 56u /* transmit: the other 7 bits */
#define EUROPA_WORD_QUEUE_MAX 32767u

/* A ring among the control words, counted in 64-bit words from the end of the slots. */
struct europa_ring_place {
	uint32_t first_word;
	uint32_t words; /* a power of two */
};

/* The first control words. */
struct europa_pool_header {
	uint32_t magic;
	uint16_t version;
	uint16_t interfaces;
	uint32_t slot_bytes;
	uint32_t slots;
	struct europa_ring_place fill;    /* router to substrate: free slots */
	struct europa_ring_place recycle; /* the substrate's own */
	struct europa_ring_place done;    /* substrate to router: slots sent with RETURN */
	uint32_t reserved[6];
	uint32_t asleep; /* set by a router that wants to be woken, and has emptied its rings */
	uint32_t takes_long; /* set by a router that takes super-packets */
	uint32_t reserved_to_end[110];
};

/* Behind the header, one row an interface. */
struct europa_interface_row {
	struct europa_ring_place rx;
	struct europa_ring_place tx;
	uint32_t mtu;
	uint8_t mac[6];
	uint8_t reserved[6];
	uint8_t name[16];
	uint8_t reserved_to_end[16];
};

/* At the start of each slot. */
struct europa_metadata {
	uint8_t key[EUROPA_KEY_BYTES];       /* router to switch, with WORD_KEY */
	uint8_t result[EUROPA_RESULT_BYTES]; /* switch to router, with WORD_RESULT */
	uint16_t segment; /* of a super-packet: bytes of payload of its segments */
	uint16_t excess;  /* of a super-packet: bytes more than its longest segment has */
	uint8_t reserved[4];
};

_Static_assert(sizeof(struct europa_metadata) == EUROPA_SLOT_METADATA_BYTES, "metadata");
_Static_assert(sizeof(struct europa_pool_header) == 512, "pool header");
_Static_assert(__builtin_offsetof(struct europa_pool_header, asleep) == 64, "sleep flag");
_Static_assert(__builtin_offsetof(struct europa_pool_header, takes_long) == 68, "super-packets");
_Static_assert(__builtin_offsetof(struct europa_metadata, segment) == 56, "segment");
_Static_assert(sizeof(struct europa_interface_row) == 64, "interface row");

#endif
