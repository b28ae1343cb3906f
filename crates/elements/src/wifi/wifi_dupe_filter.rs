//! # WifiDupeFilter
//!
//! ## Synopsis
//! `WifiDupeFilter()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Drops duplicates of IEEE 802.11 frames: repeated frames with the last sequence number of their
//! sender. A fragment is a duplicate if its number is not higher than the last one. Control frames
//! and frames to groups pass.
//!
//! It keeps at most 4096 senders. One more sender clears the table.
//!
//! ## Arguments
//! - DEBUG (keyword): log the drops, default false.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//! - `dupes`, `drops` (read): frames dropped.
//! - `stats` (read): a sender a line.
//! - `reset` (write): forgets all.
//!
//! ## See also
//! `WifiDecap`, `FilterTX`

use std::collections::HashMap;

use europa_packet::MacAddr;

use super::frame::{MORE_FRAGMENTS, RETRY};
use super::{Header, kind, say};
use crate::prelude::*;

/// Most senders.
const SENDERS: usize = 4096;

/// The last frames of a sender.
#[derive(Clone, Copy, Default)]
struct Last {
    sequence: u16,
    fragment: u8,
    packets: u64,
    dupes: u64,
}

/// Drops duplicates.
#[derive(Default)]
pub(crate) struct WifiDupeFilter {
    debug: bool,
    dupes: u64,
    senders: HashMap<[u8; 6], Last>,
}

impl Class for WifiDupeFilter {
    const INFO: ClassInfo = ClassInfo::new("WifiDupeFilter", "1/1");
}

impl WifiDupeFilter {
    fn passes(&mut self, packet: &Packet, context: &mut Context<'_>) -> bool {
        let Some(header) = Header::of(packet.data()) else { return true };
        if header.kind() & kind::CONTROL != 0 || header.address(1).is_multicast() {
            return true;
        }
        let sender = header.address(2);
        if self.senders.len() >= SENDERS && !self.senders.contains_key(&sender.0) {
            self.senders.clear();
        }
        let (sequence, fragment) = (header.sequence(), header.fragment());
        let in_parts = fragment != 0 || header.has(MORE_FRAGMENTS);
        let last = self.senders.entry(sender.0).or_default();
        last.packets += 1;
        let again = header.has(RETRY)
            && sequence == last.sequence
            && (!in_parts || fragment <= last.fragment);
        if again {
            last.dupes += 1;
            self.dupes += 1;
            if self.debug {
                let text = format!("dup seq {sequence} frag {fragment} src {}", sender.dashed());
                say(context, "WifiDupeFilter", &text);
            }
        } else {
            (last.sequence, last.fragment) = (sequence, fragment);
        }
        !again
    }

    fn stats(&self) -> String {
        let mut senders: Vec<_> = self.senders.iter().collect();
        senders.sort_unstable_by_key(|(sender, _)| **sender);
        let line = |(sender, last): (&[u8; 6], &Last)| {
            let Last { sequence, fragment, packets, dupes } = last;
            let sender = MacAddr(*sender).dashed();
            format!("{sender} packets {packets} dupes {dupes} seq {sequence} frag {fragment}\n")
        };
        senders.into_iter().map(line).collect()
    }
}

impl Element for WifiDupeFilter {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        then {
            this.senders.reserve(SENDERS);
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.filter(|packet| self.passes(packet, context), drop);
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        read "dupes" => this.dupes;
        read "drops" => this.dupes;
        read "stats" => this.stats();
        button "reset" => {
            this.senders.clear();
            this.dupes = 0;
        };
    }
}
