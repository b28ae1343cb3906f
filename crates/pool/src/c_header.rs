//! The pool's layout as a C header, for `bpf/` and for data planes written in C.

use crate::layout::*;
use crate::{UNSEEN, Word};

/// Text of `sdk/c/europa_pool.h`. A test compares the committed file with it; `EUROPA_BLESS=1 cargo
/// test -p europa-pool` writes it.
pub fn c_header() -> String {
    let constants = [
        ("ABI_VERSION", ABI_VERSION as u64, "version of this layout"),
        ("ABI_MAGIC", ABI_MAGIC as u64, "first four bytes of the header"),
        ("KEY_BYTES", KEY_BYTES as u64, "of a filter key"),
        ("RESULT_BYTES", RESULT_BYTES as u64, "of what a rule answers to it"),
        ("SLOT_METADATA_BYTES", SLOT_METADATA_BYTES as u64, "metadata at the start of a slot"),
        ("RX_OFFSET_BYTES", RX_OFFSET_BYTES as u64, "a received frame starts here at the earliest"),
        ("RX_BACKLOG", RX_BACKLOG as u64, "packets that may always wait in a receive ring"),
        ("RX_PLACES_MASK", RX_PLACES_MASK as u64, "plus 64 times (slot and this)"),
        ("TAIL_BYTES", TAIL_BYTES as u64, "room behind a received frame"),
        ("UNSEEN_NS", UNSEEN.as_nanos() as u64, "what was published shows itself so soon"),
        ("SMALL_SLOT_BYTES", SMALL_SLOT_BYTES as u64, "slots for an MTU of 1500"),
        ("LARGE_SLOT_BYTES", LARGE_SLOT_BYTES as u64, "slots for jumbo frames"),
        ("LONG_SLOT_BYTES", LONG_SLOT_BYTES as u64, "long slots, for super-packets"),
        ("LONG_SLOT", LONG_SLOT as u64, "bit of the numbers of long slots"),
        ("MAX_INTERFACES", MAX_INTERFACES as u64, "interfaces of one router"),
        ("MAX_SLOTS", MAX_SLOTS as u64, "slots of one pool"),
        ("WORD_OFFSET_SHIFT", Word::OFFSET_SHIFT as u64, ""),
        ("WORD_SLOT_SHIFT", Word::SLOT_SHIFT as u64, ""),
        ("WORD_INTERFACE_SHIFT", Word::INTERFACE_SHIFT as u64, ""),
        ("WORD_FLAGS_SHIFT", Word::FLAGS_SHIFT as u64, ""),
        ("WORD_LENGTH_MASK", Word::LENGTH_MASK, ""),
        ("WORD_OFFSET_MASK", Word::OFFSET_MASK, ""),
        ("WORD_SLOT_MASK", Word::SLOT_MASK, ""),
        ("WORD_INTERFACE_MASK", Word::INTERFACE_MASK, ""),
        ("WORD_FLAGS_MASK", Word::FLAGS_MASK, ""),
        ("WORD_VALID", Word::VALID, "the entry is occupied"),
        ("WORD_COPY", Word::COPY, "receive: broadcast or multicast, copied to several"),
        ("WORD_RETURN", Word::RETURN, "transmit: slot back by the done ring"),
        ("WORD_KEY", Word::KEY, "transmit: look the metadata's key up"),
        ("WORD_RESULT", Word::RESULT, "receive: the metadata has a result"),
        ("WORD_QUEUE_LOW_SHIFT", Word::INTERFACE_SHIFT as u64, "transmit: queue's number, 8 bits"),
        ("WORD_QUEUE_HIGH_SHIFT", Word::QUEUE_HIGH_SHIFT as u64, "transmit: the other 7 bits"),
        ("WORD_QUEUE_MAX", Word::QUEUE_MAX as u64, ""),
    ];
    let mut text = String::from(
        "/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */\n\
         /* Layout of a packet pool. Generated from crates/pool: do not edit. */\n\
         #ifndef EUROPA_POOL_H\n#define EUROPA_POOL_H\n\n\
         #ifndef __bpf__\n#include <stddef.h>\n#include <stdint.h>\n#else\n\
         typedef __u8 uint8_t;\ntypedef __u16 uint16_t;\ntypedef __u32 uint32_t;\ntypedef __u64 uint64_t;\ntypedef __s64 int64_t;\n#endif\n\n",
    );
    for (name, value, comment) in constants {
        let number = if value > u32::MAX as u64 {
            format!("{value:#x}ull")
        } else if value > 0xffff {
            format!("{value:#x}u")
        } else {
            format!("{value}u")
        };
        let comment = if comment.is_empty() { String::new() } else { format!(" /* {comment} */") };
        text += &format!("#define EUROPA_{name} {number}{comment}\n");
    }
    text += &format!(
        "\n/* A ring among the control words, counted in 64-bit words from the end of the slots. */\n\
         struct europa_ring_place {{\n\tuint32_t first_word;\n\tuint32_t words; /* a power of two */\n}};\n\n\
         /* The first control words. */\n\
         struct europa_pool_header {{\n\
         \tuint32_t magic;\n\tuint16_t version;\n\tuint16_t interfaces;\n\
         \tuint32_t slot_bytes;\n\tuint32_t slots;\n\
         \tstruct europa_ring_place fill;    /* router to substrate: free slots */\n\
         \tstruct europa_ring_place recycle; /* the substrate's own */\n\
         \tstruct europa_ring_place done;    /* substrate to router: slots sent with RETURN */\n\
         \tuint32_t reserved[6];\n\
         \tuint32_t asleep; /* set by a router that wants to be woken, and has emptied its rings */\n\
         \tuint32_t takes_long; /* set by a router that takes super-packets */\n\
         \tuint32_t reserved_to_end[110];\n}};\n\n\
         /* Behind the header, one row an interface. */\n\
         struct europa_interface_row {{\n\
         \tstruct europa_ring_place rx;\n\tstruct europa_ring_place tx;\n\
         \tuint32_t mtu;\n\tuint8_t mac[6];\n\tuint8_t reserved[6];\n\tuint8_t name[16];\n\
         \tuint8_t reserved_to_end[16];\n}};\n\n\
         /* At the start of each slot. */\n\
         struct europa_metadata {{\n\
         \tuint8_t key[EUROPA_KEY_BYTES];       /* router to switch, with WORD_KEY */\n\
         \tuint8_t result[EUROPA_RESULT_BYTES]; /* switch to router, with WORD_RESULT */\n\
         \tuint16_t segment; /* of a super-packet: bytes of payload of its segments */\n\
         \tuint16_t excess;  /* of a super-packet: bytes more than its longest segment has */\n\
         \tuint8_t reserved[4];\n}};\n\n\
         _Static_assert(sizeof(struct europa_metadata) == EUROPA_SLOT_METADATA_BYTES, \"metadata\");\n\
         _Static_assert(sizeof(struct europa_pool_header) == {header}, \"pool header\");\n\
         _Static_assert(__builtin_offsetof(struct europa_pool_header, asleep) == {asleep}, \"sleep flag\");\n\
         _Static_assert(__builtin_offsetof(struct europa_pool_header, takes_long) == {takes_long}, \"super-packets\");\n\
         _Static_assert(__builtin_offsetof(struct europa_metadata, segment) == {segment}, \"segment\");\n\
         _Static_assert(sizeof(struct europa_interface_row) == {row}, \"interface row\");\n\n\
         #endif\n",
        header = size_of::<Header>(),
        asleep = ASLEEP_OFFSET_BYTES,
        takes_long = TAKES_LONG_OFFSET_BYTES,
        segment = SEGMENT_OFFSET_BYTES,
        row = size_of::<InterfaceRow>(),
    );
    text
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn the_committed_header_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/c/europa_pool.h");
        if std::env::var_os("EUROPA_BLESS").is_some() {
            std::fs::write(path, super::c_header()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), super::c_header());
    }
}
