//! # SetRandIPAddress
//!
//! ## Synopsis
//! `SetRandIPAddress(PREFIX [, LIMIT])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's destination address annotation to a random address of PREFIX.
//!
//! ## Arguments
//! - PREFIX: IPv4 prefix.
//! - LIMIT: most different addresses; default is no bound. MAX is another name of it.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `SetIPAddress`, `StoreIPAddress`

use europa_engine::Ipv4Prefix;

use crate::prelude::*;
use crate::shared::random::Random;

/// Sets random destinations.
#[derive(Default)]
pub(crate) struct SetRandIPAddress {
    network: u32,
    mask: u32,
    max: Option<u32>,
    random: Random,
}

impl Class for SetRandIPAddress {
    const INFO: ClassInfo = ClassInfo::new("SetRandIPAddress", "1/1").inline();
}

impl Element for SetRandIPAddress {
    arguments! { this, given;
        let prefix = mandatory "PREFIX": Ipv4Prefix;
        let most = positional "LIMIT" | "MAX": i64;
        then {
            (this.network, this.mask) = (prefix.network(), prefix.mask());
            this.max = most.and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let random = match self.max {
                Some(max) => self.random.below(max),
                None => self.random.next(),
            };
            packet.set_dst_ip(self.network | random & !self.mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn addresses_are_of_the_prefix() {
        let mut bench = Bench::new("SetRandIPAddress", &["10.1.0.0/16"]);
        bench.push(0, &[&b"a"[..]; 50]);
        let mut found: Vec<u32> = bench.out.iter().map(|(_, packet)| packet.dst_ip()).collect();
        assert!(found.iter().all(|address| address >> 16 == 0x0a01));
        found.sort_unstable();
        found.dedup();
        assert!(found.len() > 40);
        let mut bench = Bench::new("SetRandIPAddress", &["10.1.0.0/16", "LIMIT 1"]);
        bench.push(0, &[b"a"]);
        assert_eq!(bench.out[0].1.dst_ip(), 0x0a01_0000);
    }
}
