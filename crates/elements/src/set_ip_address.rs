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

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler, HandlerError, parse,
};

use crate::common::annotation_keyword;

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
    const INFO: ClassInfo = ClassInfo::new("SetIPAddress", "1/1");
}

impl Element for SetIPAddress {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.address = arguments.mandatory("IPADDR")?;
        self.annotation = annotation_keyword(arguments, "ANNO", 4)?.unwrap_or(0);
        arguments.finish()
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_annotation(self.annotation, self.address.octets());
        }
    }

    fn handlers(&self) -> &'static [Handler] {
        const { &[Handler::both("addr")] }
    }

    fn read(&mut self, _: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(self.address.to_string())
    }

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        _: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.address = parse(handler, value)?;
        Ok(())
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
