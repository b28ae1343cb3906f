//! Undoes the sender's offloads in a received frame: completes partial checksums, and splits merged
//! segments.

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_packet::{IpProtocol, checksum};
use europa_port::{Merged, Partial};

/// Bytes of the longest headers of a segment: Ethernet with tags, IP with options, TCP.
const MOST_HEADERS: usize = 512;
/// TCP flags that only the last segment has: FIN, PSH.
const LAST: u8 = 0x09;
/// The TCP flag that only the first segment has: CWR.
const FIRST: u8 = 0x80;
const ETHERNET: usize = 14;
const TAG: usize = 4;

/// Completes the checksum of a frame. `false` if the place lies outside the frame.
pub(super) fn complete(frame: &mut [u8], partial: Partial) -> bool {
    frame
        .get_mut(usize::from(partial.start)..)
        .is_some_and(|segment| checksum::complete(segment, usize::from(partial.offset)))
}

/// A frame of several segments, and the progress of its splitting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments {
    /// Offset of the IP header.
    network: usize,
    transport: usize,
    payload: usize,
    tcp: bool,
    /// Bytes of payload of each segment.
    size: usize,
    /// Offset of the next segment's payload.
    next: usize,
    end: usize,
    number: u16,
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn put<const N: usize>(data: &mut [u8], at: usize, value: [u8; N]) -> Option<()> {
    *data.get_mut(at..)?.first_chunk_mut()? = value;
    Some(())
}

impl Segments {
    /// Finds the headers of a frame; `None` if it cannot be split.
    pub(super) fn new(frame: &[u8], merged: Merged, partial: Partial) -> Option<Segments> {
        let mut network = ETHERNET;
        while matches!(word(frame, network - 2)?, 0x8100 | 0x88a8) {
            network += TAG;
        }
        let transport = usize::from(partial.start);
        let tcp = match merged.kind {
            Merged::TCP4 | Merged::TCP6 => true,
            Merged::UDP => false,
            _ => return None,
        };
        let header =
            if tcp { usize::from(frame.get(transport + 12)? >> 4) * 4 } else { UDP_HEADER };
        let payload = transport + header;
        let sound = network + 20 <= transport
            && payload <= frame.len().min(MOST_HEADERS)
            && merged.size > 0
            && header >= if tcp { 20 } else { UDP_HEADER };
        sound.then_some(Segments {
            network,
            transport,
            payload,
            tcp,
            size: usize::from(merged.size),
            next: payload,
            end: frame.len(),
            number: 0,
        })
    }

    /// Writes the next segment with `write`, which gets its headers and its payload. `None` after
    /// the last segment.
    pub(super) fn next<R>(
        &mut self,
        frame: &[u8],
        write: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Option<R> {
        // A frame without payload is one segment.
        if self.next >= self.end && self.number > 0 {
            return None;
        }
        let until = (self.next + self.size).min(self.end);
        let payload = frame.get(self.next..until)?;
        let mut space = [0; MOST_HEADERS];
        let headers = space.get_mut(..self.payload)?;
        headers.copy_from_slice(frame.get(..self.payload)?);
        self.fix(headers, payload)?;
        (self.next, self.number) = (until, self.number.wrapping_add(1));
        Some(write(headers, payload))
    }

    /// Changes the headers of the whole frame to those of the segment with this payload.
    fn fix(&self, headers: &mut [u8], payload: &[u8]) -> Option<()> {
        let length = self.payload - self.transport + payload.len();
        let protocol = if self.tcp { IpProtocol(6) } else { IpProtocol(17) };
        if self.tcp {
            let at = self.transport + 4;
            let sequence = u32::from_be_bytes(*headers.get(at..)?.first_chunk()?);
            let offset = u32::try_from(self.next - self.payload).ok()?;
            put(headers, at, sequence.wrapping_add(offset).to_be_bytes())?;
            let flags = headers.get_mut(self.transport + 13)?;
            *flags &= if self.next > self.payload { !FIRST } else { u8::MAX };
            *flags &= if self.next + payload.len() < self.end { !LAST } else { u8::MAX };
        } else {
            put(headers, self.transport + 4, u16::try_from(length).ok()?.to_be_bytes())?;
        }
        let pseudo = if headers.get(self.network)? >> 4 == 4 {
            let total = u16::try_from(self.transport - self.network + length).ok()?;
            put(headers, self.network + 2, total.to_be_bytes())?;
            let number = word(headers, self.network + 4)?.wrapping_add(self.number);
            put(headers, self.network + 4, number.to_be_bytes())?;
            put(headers, self.network + 10, [0; 2])?;
            let check = checksum::checksum(headers.get(self.network..self.transport)?);
            put(headers, self.network + 10, check.to_be_bytes())?;
            let address = |at| Some(Ipv4Addr::from(*headers.get(at..)?.first_chunk::<4>()?));
            let (from, to) = (address(self.network + 12)?, address(self.network + 16)?);
            checksum::pseudo_v4(from, to, protocol, u16::try_from(length).ok()?)
        } else {
            let total = u16::try_from(self.transport - self.network - 40 + length).ok()?;
            put(headers, self.network + 4, total.to_be_bytes())?;
            let address = |at| Some(Ipv6Addr::from(*headers.get(at..)?.first_chunk::<16>()?));
            let (from, to) = (address(self.network + 8)?, address(self.network + 24)?);
            checksum::pseudo_v6(from, to, protocol, u32::try_from(length).ok()?)
        };
        let field = self.transport + if self.tcp { 16 } else { 6 };
        put(headers, field, [0; 2])?;
        let header = checksum::sum(headers.get(self.transport..)?);
        let check = (pseudo + header + checksum::sum(payload)).checksum();
        let check = if self.tcp { check } else { checksum::udp(check) };
        put(headers, field, check.to_be_bytes())
    }
}

/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with IPv4, TCP and this payload.
    fn frame(payload: &[u8], flags: u8) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET];
        frame[12] = 8;
        let total = 40 + payload.len() as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        frame
    }

    #[test]
    fn merged_segments_become_those_that_were_sent() {
        let payload: Vec<u8> = (0..=250).collect();
        let whole = frame(&payload, 0x98 | FIRST);
        let partial = Partial { start: 34, offset: 16 };
        let merged = Merged { kind: Merged::TCP4, size: 100 };
        let mut segments = Segments::new(&whole, merged, partial).unwrap();
        let mut found = Vec::new();
        while let Some(segment) = segments.next(&whole, |head, body| [head, body].concat()) {
            assert!(checksum::verify(&segment[14..34]));
            let [from, to] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
            let tcp = &segment[34..];
            let sum =
                checksum::pseudo_v4(from, to, IpProtocol(6), tcp.len() as u16) + checksum::sum(tcp);
            assert!(sum.is_valid());
            found.push((segment.len(), segment[19], segment[41], segment[47]));
        }
        // Length, IP identification, sequence number, flags.
        assert_eq!(found, [(154, 7, 100, 0x90), (154, 8, 200, 0x10), (105, 9, 44, 0x18)]);
        assert_eq!(segments.next(&whole, |_, _| ()), None);
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let whole = frame(b"abc", 0);
        let partial = Partial { start: 34, offset: 16 };
        for (merged, partial) in [
            (Merged { kind: 3, size: 100 }, partial),
            (Merged { kind: Merged::TCP4, size: 0 }, partial),
            (Merged { kind: Merged::TCP4, size: 9 }, Partial { start: 20, offset: 16 }),
            (Merged { kind: Merged::TCP4, size: 9 }, Partial { start: 60000, offset: 16 }),
        ] {
            assert!(Segments::new(&whole, merged, partial).is_none(), "{merged:?} {partial:?}");
        }
        assert!(!complete(&mut [0; 4], Partial { start: 3, offset: 16 }));
    }
}
