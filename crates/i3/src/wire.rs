//! The wire format of I3's public code, version 0x10.
//!
//! ```text
//! packet   version 0x10 | flags | number of ids | ids, 32 bytes each | option list | payload
//! flags    0x10 data | 0x20 option list follows | 0x40 first hop
//! list     length in bytes with these two (16 bits) | options
//! option   type | content
//! trigger  flags | id | prefix length (16 bits) | nonce (16) | address
//!          | key (16), unless the address is a stack | bucket (13), with flag 0x02
//! address  type | 0x10: number of ids, ids | 0x20: IPv4, port | 0x30: IPv6, port
//!          | 0x40: three times IPv4, port: host, its address behind the NAT, first server
//! bucket   type | depth | rate | highest rate; each 16 bits, then 16 bits that are 0
//! ```
//!
//! # Sources
//!
//! | field | source |
//! |---|---|
//! | versions, flags, types of options and addresses, lengths of ids, keys and nonces | `i3.h` of the public code, as HIPL distributes it |
//! | header, stack, option list, trigger, bucket | its `i3_header.c`, `i3_stack.c`, `i3_options.c`, `i3_trigger.c`, `token_bucket.c` |
//! | addresses | its `i3_addr.c`, built for 32 bits |
//!
//! A build of the public code for 64 bits writes each IPv4 address as 8 bytes: the address in
//! network order, then four zero bytes. An option list with such wide addresses is accepted if its
//! length fits no narrow ones. The packet is then marked [`wide`](Packet::wide), so that the answer
//! has the same width. The public code byte-swaps a bucket's numbers as 16 bits, so only 16 bits of
//! each arrive.

mod address;
mod error;
mod option;
mod packet;
mod read;
mod trigger;

pub use address::Address;
pub use error::WireError;
pub use option::{PacketOption, TriggerUse};
pub use packet::{MOST_IDS, MOST_OPTIONS, Packet, VERSION};
pub use trigger::{ALLOW_SHORTCUT, Bucket, RATE_LIMIT, Trigger};

pub(crate) use read::Reader;
