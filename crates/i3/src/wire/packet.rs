//! Packets.

use super::address::write_stack;
use super::{PacketOption, Reader, WireError};
use crate::id::Id;

/// The first byte of a packet.
pub const VERSION: u8 = 0x10;
/// Most ids of a stack; the public code's limit.
pub const MOST_IDS: usize = 15;
/// Most options of a packet. The public code's server accepts 25 triggers in one packet.
pub const MOST_OPTIONS: usize = 32;

const DATA: u8 = 0x10;
const OPTIONS: u8 = 0x20;
const FIRST_HOP: u8 = 0x40;

/// A packet of I3. Its payload borrows the bytes that the packet was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Whether the payload is for the receiver.
    pub data: bool,
    /// Whether the packet comes from a client; the first server clears this.
    pub first_hop: bool,
    /// The ids of its destination, at most 15; empty if it is for the receiving program.
    pub stack: Vec<Id>,
    /// Options, at most 32.
    pub options: Vec<PacketOption>,
    /// Whether IPv4 addresses in its options have 8 bytes.
    pub wide: bool,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A packet with data for a stack of ids.
    pub fn data(stack: Vec<Id>, payload: &'a [u8]) -> Packet<'a> {
        Packet { data: true, stack, payload, ..Packet::default() }
    }

    /// A packet without ids for the program that gets it.
    pub fn control(options: Vec<PacketOption>) -> Packet<'a> {
        Packet { options, ..Packet::default() }
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// The bytes are no packet of version 0x10.
    pub fn read(bytes: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte("the version")?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let flags = reader.byte("the flags")?;
        // The public code checks only the upper half of the byte.
        if flags & 0xf0 & !(DATA | OPTIONS | FIRST_HOP) != 0 {
            return Err(WireError::Flags(flags));
        }
        let stack = reader.stack()?;
        let (options, wide) = match flags & OPTIONS != 0 {
            true => read_options(&mut reader)?,
            false => (Vec::new(), false),
        };
        let (data, first_hop) = (flags & DATA != 0, flags & FIRST_HOP != 0);
        Ok(Packet { data, first_hop, stack, options, wide, payload: reader.left() })
    }

    /// Appends the packet's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        let flags = flag(self.data, DATA)
            | flag(!self.options.is_empty(), OPTIONS)
            | flag(self.first_hop, FIRST_HOP);
        out.extend([VERSION, flags]);
        write_stack(&self.stack, out);
        if !self.options.is_empty() {
            let start = out.len();
            out.extend([0; 2]);
            self.options.iter().for_each(|option| option.write(self.wide, out));
            // 32 triggers with 15 ids each need 17 KB.
            let length = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
            out[start..start + 2].copy_from_slice(&length.to_be_bytes());
        }
        out.extend(self.payload);
    }

    /// The packet's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.payload.len());
        self.write(&mut out);
        out
    }
}

/// Reads the list with addresses of 4 bytes. If that does not fit the list's length, reads it with
/// addresses of 8 bytes.
fn read_options(reader: &mut Reader<'_>) -> Result<(Vec<PacketOption>, bool), WireError> {
    let left = reader.left().len();
    let length = usize::from(reader.u16("the length of the options")?);
    let wrong = WireError::List { length, left };
    let body = length.checked_sub(2).ok_or_else(|| wrong.clone())?;
    let list = reader.slice(body, "the options").map_err(|_| wrong)?;
    let narrow = read_list(list, false);
    match narrow {
        Ok(options) => Ok((options, false)),
        Err(error) => read_list(list, true).map(|options| (options, true)).map_err(|_| error),
    }
}

fn read_list(list: &[u8], wide: bool) -> Result<Vec<PacketOption>, WireError> {
    let mut reader = Reader::new(list);
    reader.wide = wide;
    let mut options = Vec::new();
    while !reader.is_empty() {
        if options.len() == MOST_OPTIONS {
            return Err(WireError::TooManyOptions(MOST_OPTIONS));
        }
        options.push(PacketOption::read(&mut reader)?);
    }
    Ok(options)
}
