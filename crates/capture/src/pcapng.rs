//! Packets as a pcapng file (draft-ietf-opsawg-pcapng), for Wireshark and tshark.
//!
//! The writer is simple: it needs four kinds of blocks, with comments, directions and addresses of
//! interfaces.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::IpAddr;

use europa_substrate::tap::{Direction, Lost, Way};

use crate::session::Packet;
use crate::target::Named;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const ETHERNET: u16 = 1;

/// Options of a block that is being written.
#[derive(Default)]
struct Options(Vec<u8>);

impl Options {
    fn add(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.0.extend(code.to_ne_bytes());
        self.0.extend((value.len() as u16).to_ne_bytes());
        self.0.extend(value);
        pad(&mut self.0);
    }

    fn finish(mut self) -> Vec<u8> {
        if !self.0.is_empty() {
            // opt_endofopt
            self.0.extend([0; 4]);
        }
        self.0
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Writes a file, block by block.
pub struct Writer<W> {
    to: W,
    interfaces: Vec<Named>,
    /// Number of written packets, by interface.
    written: Vec<u64>,
    last_ns: u64,
    /// Options of packets, by the packet data that determines them. Writing each packet's comment
    /// again would cost more than everything else.
    options: HashMap<(usize, Direction, Way, Option<&'static str>), Vec<u8>>,
}

impl<W: Write> Writer<W> {
    /// Writes the beginning: one interface block for each of `interfaces`.
    ///
    /// # Errors
    /// The file's error.
    pub fn new(
        to: W,
        interfaces: &[Named],
        snaplen: u32,
        filter: Option<&str>,
    ) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            to,
            interfaces: interfaces.to_vec(),
            written: vec![0; interfaces.len()],
            last_ns: 0,
            options: HashMap::new(),
        };
        let mut section = Vec::new();
        section.extend(0x1a2b_3c4du32.to_ne_bytes());
        section.extend(1u16.to_ne_bytes());
        section.extend(0u16.to_ne_bytes());
        // The section's length is unknown.
        section.extend(u64::MAX.to_ne_bytes());
        let mut options = Options::default();
        // shb_os, shb_userappl
        options.add(3, b"Linux");
        options.add(4, concat!("europa ", env!("CARGO_PKG_VERSION")).as_bytes());
        section.extend(options.finish());
        writer.block(SECTION_HEADER, &section)?;
        for interface in interfaces {
            writer.block(INTERFACE, &interface_block(interface, snaplen, filter))?;
        }
        writer.to.flush()?;
        Ok(writer)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = (body.len() as u32 + 12).to_ne_bytes();
        self.to.write_all(&kind.to_ne_bytes())?;
        self.to.write_all(&length)?;
        self.to.write_all(body)?;
        self.to.write_all(&length)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// The file's error.
    pub fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        let Some(interface) = self.interfaces.get(packet.interface) else { return Ok(()) };
        if let Some(count) = self.written.get_mut(packet.interface) {
            *count += 1;
        }
        self.last_ns = packet.time_ns;
        let mut body = Vec::with_capacity(packet.data.len() + 160);
        body.extend((packet.interface as u32).to_ne_bytes());
        body.extend(time(packet.time_ns));
        body.extend((packet.data.len() as u32).to_ne_bytes());
        body.extend(packet.length.to_ne_bytes());
        body.extend(&packet.data);
        pad(&mut body);
        let kind = (packet.interface, packet.direction, packet.way, packet.drop);
        let options = self.options.entry(kind).or_insert_with(|| {
            let mut options = Options::default();
            // opt_comment, epb_flags: inbound or outbound
            options.add(1, comment(packet, interface).as_bytes());
            let direction: u32 = match packet.direction {
                Direction::In => 1,
                Direction::Out => 2,
            };
            options.add(2, &direction.to_ne_bytes());
            options.finish()
        });
        body.extend_from_slice(options);
        self.block(PACKET, &body)
    }

    /// Flushes all data to the file.
    ///
    /// # Errors
    /// The file's error.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Writes the end: the counters of the capture.
    ///
    /// # Errors
    /// The file's error.
    pub fn finish(mut self, lost: Lost) -> io::Result<()> {
        for interface in 0..self.written.len() {
            let mut body = Vec::new();
            body.extend((interface as u32).to_ne_bytes());
            body.extend(time(self.last_ns));
            let mut options = Options::default();
            if lost != Lost::default() {
                let text = format!(
                    "of all interfaces, {} frames were over the rate and {} came too fast for \
                     the reader: these are missing",
                    lost.rate, lost.room
                );
                options.add(1, text.as_bytes());
            }
            let written = self.written.get(interface).copied().unwrap_or_default();
            // isb_usrdeliv
            options.add(8, &written.to_ne_bytes());
            body.extend(options.finish());
            self.block(STATISTICS, &body)?;
        }
        self.to.flush()
    }
}

/// High and low half of a time in the resolution that the interfaces' blocks state.
fn time(ns: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&((ns >> 32) as u32).to_ne_bytes());
    bytes[4..].copy_from_slice(&(ns as u32).to_ne_bytes());
    bytes
}

fn interface_block(interface: &Named, snaplen: u32, filter: Option<&str>) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(ETHERNET.to_ne_bytes());
    body.extend([0; 2]);
    body.extend(snaplen.to_ne_bytes());
    let mut options = Options::default();
    // if_name, if_description
    options.add(2, interface.name.as_bytes());
    options.add(3, format!("router {} on {}", interface.router, interface.place).as_bytes());
    for address in &interface.addresses {
        let Some((address, length)) = address.split_once('/') else { continue };
        let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else {
            continue;
        };
        match address {
            // if_IPv4addr: address and mask
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                options.add(4, &[address.octets(), mask.to_be_bytes()].concat());
            }
            // if_IPv6addr: address and length
            IpAddr::V6(address) => options.add(5, &[&address.octets()[..], &[length]].concat()),
        }
    }
    // if_MACaddr, if_tsresol: nanoseconds
    options.add(6, &interface.mac);
    options.add(9, &[9]);
    if let Some(filter) = filter {
        // if_filter: a pcap filter's text
        options.add(11, &[&[0], filter.as_bytes()].concat());
    }
    body.extend(options.finish());
    body
}

/// The comment that Wireshark shows with the packet.
fn comment(packet: &Packet, interface: &Named) -> String {
    let slice = interface.router.split('/').next().unwrap_or_default();
    let (router, place) = (&interface.router, &interface.place);
    let way = match (packet.direction, packet.way) {
        (_, Way::Verdict) => format!("as its program left it, at {place}"),
        (Direction::In, _) => format!("received from {place}"),
        (Direction::Out, Way::Live) => format!("sent to {place} by a kick"),
        (Direction::Out, Way::Socket) => format!("sent to {place} by a socket"),
        (Direction::Out, Way::Cage) => format!("sent to {place} from the kernel"),
        (Direction::Out, _) => format!("sent to {place}"),
    };
    match packet.drop {
        None => format!("slice {slice}, router {router}: {way}"),
        Some(cause) => format!("slice {slice}, router {router}: dropped: {cause}"),
    }
}
