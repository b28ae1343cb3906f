//! # GetIP6Address
//!
//! ## Synopsis
//! `GetIP6Address(OFFSET)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Copies the 16 bytes at OFFSET of each packet into the IPv6 destination annotation. OFFSET is 24
//! for the destination of an IPv6 packet. Packets that end before these bytes end are dropped.
//!
//! ## Arguments
//! - OFFSET: place of the address, in bytes.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `CheckIP6Header`, `LookupIP6Route`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments};
use europa_pool::packet::annotation::DST_IP6;

/// Copies an address into the annotation.
#[derive(Default)]
pub(crate) struct GetIP6Address {
    offset: usize,
}

impl Class for GetIP6Address {
    const INFO: ClassInfo = ClassInfo::new("GetIP6Address", "1/1").inline().keeps_long();
}

impl Element for GetIP6Address {
    arguments! { this, given;
        mandatory "OFFSET": usize => this.offset;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| {
            let address: Option<[u8; 16]> =
                packet.data().get(self.offset..).and_then(|rest| rest.first_chunk()).copied();
            if let Some(address) = address {
                packet.set_annotation(DST_IP6, address);
            }
            address.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn copies_what_is_there() {
        let mut bench = Bench::new("GetIP6Address", &["2"]);
        let bytes: Vec<u8> = (0..18).collect();
        assert_eq!(bench.push(0, &[&bytes, &bytes[..17]]), [(0, bytes.clone())]);
        assert_eq!(bench.out[0].1.annotation::<16>(DST_IP6), bytes[2..]);
    }
}
