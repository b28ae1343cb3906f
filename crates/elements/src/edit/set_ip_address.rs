//! # SetIPAddress
//!
//! ## Synopsis
//! `SetIPAddress(IPADDR [, ANNO])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's destination address annotation.
//!
//! ## Arguments
//! - IPADDR: address.
//! - ANNO (keyword): first byte in the annotation area, default 0, the destination address.
//!
//! ## Handlers
//! - `addr` (read, write): the address.
//!
//! ## See also
//! `GetIPAddress`

use std::net::Ipv4Addr;

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments, handlers};

use crate::shared::annotation::Annotation;

/// Sets the destination address annotation.
pub(crate) struct SetIPAddress {
    address: Ipv4Addr,
    annotation: usize,
}

impl Default for SetIPAddress {
    fn default() -> SetIPAddress {
        SetIPAddress { address: Ipv4Addr::UNSPECIFIED, annotation: 0 }
    }
}

impl Class for SetIPAddress {
    const INFO: ClassInfo = ClassInfo::new("SetIPAddress", "1/1").inline().keeps_long();
}

impl Element for SetIPAddress {
    arguments! { this, given;
        mandatory "IPADDR": Ipv4Addr => this.address;
        keyword "ANNO": Annotation<4> = Annotation(0) => Annotation(this.annotation);
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_annotation(self.annotation, self.address.octets());
        }
    }

    handlers! { this, context, value;
        both "addr" => this.address;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn sets_the_annotation() {
        let mut bench = Bench::new("SetIPAddress", &["10.0.0.1"]);
        bench.push(0, &[b"a"]);
        assert_eq!(bench.out.first().unwrap().1.dst_ip(), 0x0a00_0001);
        bench.router.write("e.addr", "10.0.0.2").unwrap();
        bench.push(0, &[b"a"]);
        assert_eq!(bench.out.first().unwrap().1.dst_ip(), 0x0a00_0002);
    }
}
