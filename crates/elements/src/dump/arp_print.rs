//! # ARPPrint
//!
//! ## Synopsis
//! `ARPPrint([LABEL, TIMESTAMP, ETHER, ACTIVE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a line about each ARP packet to the router's log: the sender and the target. The network
//! header annotation must be set; packets without it pass and are not printed.
//!
//! ## Arguments
//! - LABEL: text in front.
//! - TIMESTAMP (keyword): print the time; default true.
//! - ETHER (keyword): print the frame's addresses too; default false.
//! - ACTIVE (keyword): whether to print; default true.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//!
//! ## See also
//! `Print`, `CheckARPHeader`

use std::net::Ipv4Addr;

use europa_packet::MacAddr;

use crate::prelude::*;
use crate::shared::fields::{be16, bytes};
use crate::shared::values::Time;

/// Writes ARP packets to the log.
#[derive(Default)]
pub(crate) struct ARPPrint {
    label: String,
    timestamp: bool,
    ether: bool,
    active: bool,
}

impl Class for ARPPrint {
    const INFO: ClassInfo = ClassInfo::new("ARPPrint", "1/1").processing("a/a").inline();
}

impl ARPPrint {
    /// `None` for packets without a network header.
    fn line(&self, packet: &Packet) -> Option<String> {
        let data = packet.network_header()?;
        let mut line =
            if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        if self.timestamp {
            line += &format!("{}: ", Time::of(packet.timestamp_ns()));
        }
        let show = |address: [u8; 6]| MacAddr(address).dashed();
        let frame = packet.mac_header().unwrap_or(packet.data());
        if self.ether
            && frame.len() >= data.len() + 14
            && let (Some(destination), Some(source)) = (bytes(frame, 0), bytes(frame, 6))
        {
            line += &format!("{} > {}: ", show(source), show(destination));
        }
        let mac = |at| bytes(data, at);
        let ip = |at| bytes::<4>(data, at).map(Ipv4Addr::from);
        let fields = (be16(data, 6), mac(8), ip(14), mac(18), ip(24));
        let (Some(operation), Some(sha), Some(spa), Some(tha), Some(tpa)) = fields else {
            return Some(line + &format!("truncated-arp ({})", data.len()));
        };
        line += &match operation {
            1 if tha == [0; 6] => format!("arp who-has {tpa} tell {spa}"),
            1 => format!("arp who-has {tpa} ({}) tell {spa}", show(tha)),
            2 => format!("arp reply {spa} is-at {}", show(sha)),
            3 => format!("rarp who-is {} tell {}", show(tha), show(sha)),
            4 => format!("rarp reply {} at {tpa}", show(tha)),
            8 => format!("invarp who-is {} tell {}", show(tha), show(sha)),
            9 => format!("invarp reply {} at {tpa}", show(tha)),
            other => format!("arp-#{other}"),
        };
        Some(line)
    }
}

impl Element for ARPPrint {
    arguments! { this, given;
        positional "LABEL": String = String::new() => this.label;
        keyword "TIMESTAMP": bool = true => this.timestamp;
        keyword "ETHER": bool = false => this.ether;
        keyword "ACTIVE": bool = true => this.active;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if self.active {
            for packet in batch.iter() {
                context.log_with(|_| self.line(packet));
            }
        }
    }

    handlers! { this, context, value; both "active" [CHECKBOX] => this.active; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn who_asks_whom() {
        let packet = |operation: u8, target: u8| {
            let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, operation];
            bytes.extend([1, 1, 1, 1, 1, 1, 10, 0, 0, 1]);
            bytes.extend([target; 6]);
            bytes.extend([10, 0, 0, 2]);
            bytes
        };
        for (arguments, bytes, line) in [
            (&["TIMESTAMP false"][..], packet(1, 0), "arp who-has 10.0.0.2 tell 10.0.0.1"),
            (
                &["TIMESTAMP false"],
                packet(1, 2),
                "arp who-has 10.0.0.2 (02-02-02-02-02-02) tell 10.0.0.1",
            ),
            (&["x"], packet(2, 2), "x: 0.000000: arp reply 10.0.0.1 is-at 01-01-01-01-01-01"),
            (
                &["TIMESTAMP false", "ETHER true"],
                packet(1, 0),
                "04-04-04-04-04-04 > 03-03-03-03-03-03: arp who-has 10.0.0.2 tell 10.0.0.1",
            ),
            (&["TIMESTAMP false"], packet(7, 0), "arp-#7"),
            (&["TIMESTAMP false"], vec![0, 1], "truncated-arp (2)"),
        ] {
            let mut bench = Bench::new("ARPPrint", arguments);
            let log = bench.log();
            let frame = [&[3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 8, 6][..], &bytes].concat();
            let mut packet = bench.arena.packet(&frame).unwrap();
            packet.set_network_header(14, 0);
            let none = bench.arena.packet(&bytes).unwrap();
            bench.push_packets(0, vec![packet, none]);
            assert_eq!(*log.borrow(), [line]);
        }
    }
}
