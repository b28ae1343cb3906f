//! # IP6Fragmenter
//!
//! ## Synopsis
//! `IP6Fragmenter(MTU)`
//!
//! ## Ports
//! One push input; output 0 gets packets that fit. Output 1, if connected, gets longer packets.
//!
//! ## Description
//! Passes packets of up to MTU bytes. Longer ones leave by output 1, where `ICMP6Error(ADDRESS, 2,
//! 0)` sends an error: routers do not fragment IPv6 (RFC 8200, 4.5).
//!
//! ## Arguments
//! - MTU: most bytes.
//!
//! ## Handlers
//! - `drops` (read): packets that were too long.
//! - `fragments` (read): always 0.
//!
//! ## See also
//! `IPFragmenter`, `CheckLength`, `ICMP6Error`

use crate::prelude::*;

/// Separates packets that are too long from those that fit.
#[derive(Default)]
pub(crate) struct IP6Fragmenter {
    mtu: usize,
    drops: u64,
}

impl Class for IP6Fragmenter {
    const INFO: ClassInfo = ClassInfo::new("IP6Fragmenter", "1/1-2").processing("h/h").inline();
}

impl Element for IP6Fragmenter {
    arguments! { this, given;
        mandatory "MTU": usize => this.mtu;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let (mtu, mut drops) = (self.mtu, 0);
        batch.filter(
            |packet| packet.len() <= mtu,
            |packet| {
                drops += 1;
                context.push(1, packet);
            },
        );
        self.drops += drops;
    }

    handlers! { this, context, value;
        read "drops" => this.drops;
        read "fragments" => 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn long_packets_leave_elsewhere() {
        let mut bench = Bench::with_outputs("IP6Fragmenter", &["3"], 2);
        let out = bench.push(0, &[b"abc", b"abcd"]);
        assert_eq!(out, [(1, b"abcd".to_vec()), (0, b"abc".to_vec())]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
