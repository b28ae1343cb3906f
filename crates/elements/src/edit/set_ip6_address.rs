//! # SetIP6Address
//!
//! ## Synopsis
//! `SetIP6Address(IPADDR)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's IPv6 destination address annotation.
//!
//! ## Arguments
//! - IPADDR: IPv6 address.
//!
//! ## Handlers
//! - `addr` (read, write): IPADDR.
//!
//! ## See also
//! `GetIP6Address`, `SetIPAddress`

use std::net::Ipv6Addr;

use crate::prelude::*;

/// Sets the destination address annotation.
pub(crate) struct SetIP6Address(Ipv6Addr);

impl Default for SetIP6Address {
    fn default() -> SetIP6Address {
        SetIP6Address(Ipv6Addr::UNSPECIFIED)
    }
}

impl Class for SetIP6Address {
    const INFO: ClassInfo = ClassInfo::new("SetIP6Address", "1/1").inline().keeps_long();
}

impl Element for SetIP6Address {
    arguments! { this, given;
        mandatory "IPADDR": Ipv6Addr => this.0;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_annotation(annotation::DST_IP6, self.0.octets());
        }
    }

    handlers! { this, context, value; both "addr" => this.0; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_annotation_is_set() {
        let mut bench = Bench::new("SetIP6Address", &["::5"]);
        bench.push(0, &[b"x"]);
        assert_eq!(bench.out[0].1.annotation::<2>(14), [0, 5]);
    }
}
