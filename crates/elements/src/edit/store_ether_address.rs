//! # StoreEtherAddress
//!
//! ## Synopsis
//! `StoreEtherAddress(ADDR, OFFSET)`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Writes an Ethernet address into each packet. Packets that are too short leave by output 1, or
//! are dropped.
//!
//! ## Arguments
//! - ADDR: Ethernet address.
//! - OFFSET: bytes from the start, or `src` (6) or `dst` (0).
//!
//! ## Handlers
//! - `addr` (read, write): ADDR.
//!
//! ## See also
//! `EtherRewrite`, `EtherEncap`, `StoreIPAddress`

use europa_packet::MacAddr;

use super::Place;
use crate::prelude::*;
use crate::shared::fields;

/// Writes an Ethernet address into packets.
#[derive(Default)]
pub(crate) struct StoreEtherAddress {
    address: [u8; 6],
    place: Place,
}

impl Class for StoreEtherAddress {
    const INFO: ClassInfo =
        ClassInfo::new("StoreEtherAddress", "1/1-2").processing("a/ah").inline();
}

impl Element for StoreEtherAddress {
    arguments! { this, given;
        mandatory "ADDR": [u8; 6] => this.address;
        let offset = mandatory "OFFSET": String;
        then {
            this.place = Place::read(given, &offset, 6, 0)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let (Place::Offset(at) | Place::Header(at)) = self.place;
        let store = |packet: &mut Packet| fields::set(packet.data_mut(), at, self.address);
        batch.filter(store, |packet| context.push(1, packet));
    }

    handlers! { this, context, value;
        both "addr" => MacAddr(this.address), set this.address = parse("addr", value)?;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn writes_where_told() {
        for (offset, expected) in
            [("src", "abcdefXXXXXX"), ("dst", "XXXXXXghijkl"), ("1", "aXXXXXXhijkl")]
        {
            let mut bench = Bench::new("StoreEtherAddress", &["58:58:58:58:58:58", offset]);
            assert_eq!(bench.push(0, &[b"abcdefghijkl"]), [(0, expected.into())]);
            assert_eq!(bench.push(0, &[b"abc"]), [(1, b"abc".to_vec())]);
        }
    }
}
