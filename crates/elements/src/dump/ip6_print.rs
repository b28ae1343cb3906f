//! # IP6Print
//!
//! ## Synopsis
//! `IP6Print([LABEL, CONTENTS, NBYTES])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a line about each IPv6 packet to the router's log: addresses, payload length, next
//! header and hop limit. Packets without the IP header annotation pass and are not printed. Use it
//! for tests only: it allocates memory and writes on the packet path.
//!
//! ## Arguments
//! - LABEL: text in front.
//! - CONTENTS (keyword): print the packet's bytes too; default false.
//! - NBYTES (keyword): most bytes to print, default 1500.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPPrint`, `CheckIP6Header`

use std::fmt::Write as _;

use europa_packet::{Header, Ipv6Header};

use crate::prelude::*;

/// Writes IPv6 packets to the log.
#[derive(Default)]
pub(crate) struct IP6Print {
    label: String,
    contents: bool,
    most: usize,
}

impl Class for IP6Print {
    const INFO: ClassInfo = ClassInfo::new("IP6Print", "1/1").inline();
}

impl IP6Print {
    fn line(&self, packet: &Packet) -> Option<String> {
        let (header, _) = Ipv6Header::parse(packet.network_header()?)?;
        let address = |octets| std::net::Ipv6Addr::from(octets);
        let mut line = self.label.clone();
        if !line.is_empty() {
            line += ": ";
        }
        // Writing to a String cannot fail.
        let _ = writeln!(
            line,
            "{} -> {} plen {}, next {}, hlim {}",
            address(header.source),
            address(header.destination),
            header.payload_len.get(),
            header.next_header.0,
            header.hop_limit
        );
        if self.contents {
            line += "  ";
            for (at, byte) in (1..).zip(packet.data().iter().take(self.most)) {
                let _ = write!(line, "{byte:02x}");
                match at {
                    at if at % 24 == 0 => line += "\n  ",
                    at if at % 4 == 0 => line.push(' '),
                    _ => {}
                }
            }
        }
        Some(line)
    }
}

impl Element for IP6Print {
    arguments! { this, given;
        positional "LABEL": String = String::new() => this.label;
        keyword "CONTENTS": bool = false => this.contents;
        keyword "NBYTES": usize = 1500 => this.most;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            context.log_with(|_| self.line(packet));
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::Frame;

    use crate::testing::Bench;

    #[test]
    fn lines_are_as_click_writes_them() {
        let [from, to] =
            ["2001:db8::1", "2001:db8::2"].map(|a| a.parse::<std::net::Ipv6Addr>().unwrap());
        let bytes = Frame::bare().ipv6(from, to).udp(1, 2, b"abc");
        for (arguments, expected) in [
            (&["in"][..], "in: 2001:db8::1 -> 2001:db8::2 plen 11, next 17, hlim 64"),
            (
                &["CONTENTS true", "NBYTES 5"],
                "2001:db8::1 -> 2001:db8::2 plen 11, next 17, hlim 64\n  60000000 00",
            ),
        ] {
            let mut bench = Bench::new("IP6Print", arguments);
            let lines = bench.log();
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 40);
            let bare = bench.arena.packet(b"x").unwrap();
            assert_eq!(bench.push_packets(0, vec![packet, bare]).len(), 2);
            assert_eq!(*lines.borrow(), [expected], "{arguments:?}");
        }
    }
}
