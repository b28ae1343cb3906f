//! # ToyTCP
//!
//! ## Synopsis
//! `ToyTCP(DPORT)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Loads a TCP server: sends a SYN every second until it is answered. Then it answers each packet
//! with a segment of one byte, and every fifth with one more, with sequence numbers that are ahead
//! of the connection. A RST restarts it. Packets start with the TCP header, with room for other
//! headers in front; their checksum is not set. Each second it reports the received and sent
//! packets.
//!
//! ## Arguments
//! - DPORT: the server's port.
//!
//! ## Handlers
//! - `good`, `bad`, `sent` (read): packets received, RSTs received, packets sent.
//!
//! ## See also
//! `TCPConn`, `WebGen`

use super::{ACK, RST, SYN, TCP};
use crate::prelude::*;
use crate::shared::fields::{be16, be32, set};
use crate::shared::values::Port;

const SECOND_NS: u64 = 1_000_000_000;
/// The two windows that segments offer in turn, as Click has them.
const WINDOWS: [u16; 2] = [60 * 1024, 30 * 1024];

/// Loads a TCP server.
#[derive(Default)]
pub(crate) struct ToyTCP {
    to: u16,
    from: u16,
    first: u32,
    /// The next sequence number of the other side, once connected.
    next: Option<u32>,
    since: u32,
    window: u32,
    reset: bool,
    good: u64,
    bad: u64,
    sent: u64,
}

impl Class for ToyTCP {
    const INFO: ClassInfo = ClassInfo::new("ToyTCP", "1/1").processing("h/h");
}

impl ToyTCP {
    fn begin(&mut self, wall_ns: u64) {
        self.first = (wall_ns / SECOND_NS) as u32 & 0x0fff_ffff;
        self.from = 1024 + (wall_ns / 1000 % 1_000_000 % 60000) as u16;
        (self.next, self.since, self.window, self.reset) = (None, 0, 0, false);
    }

    fn receive(&mut self, data: &[u8], context: &mut Context<'_>) -> Option<()> {
        let flags = *data.get(13).filter(|_| data.len() >= TCP)?;
        if (be16(data, 0)?, be16(data, 2)?) != (self.to, self.from) {
            return None;
        }
        let (sequence, acknowledged) = (be32(data, 4)?, be32(data, 8)?);
        if flags & (ACK | RST) == ACK
            && acknowledged == self.first.wrapping_add(1)
            && self.next.is_none()
        {
            self.next = Some(sequence.wrapping_add(1));
            context.log("ToyTCP connected");
        }
        if flags & RST != 0 {
            let (port, good, sent) = (self.to, self.good, self.sent);
            context.log(&format!("ToyTCP: RST from port {port}, in {good}, out {sent}"));
            self.bad += 1;
            self.reset = true;
        } else {
            self.good += 1;
        }
        Some(())
    }

    fn send(&mut self, context: &mut Context<'_>) {
        let length = TCP + usize::from(self.next.is_some());
        let Some(mut packet) = crate::shared::made::make(context, length) else { return };
        let data = packet.data_mut();
        data.fill(0);
        set(data, 0, self.from.to_be_bytes());
        set(data, 2, self.to.to_be_bytes());
        let (sequence, flags) = match self.next {
            None => (self.first, SYN),
            Some(next) => {
                set(data, 8, next.to_be_bytes());
                (self.first.wrapping_add(2 + (self.sent & 0xfff) as u32), ACK)
            }
        };
        set(data, 4, sequence.to_be_bytes());
        set(data, 12, [0x50, flags]);
        let small = self.window > 2;
        self.window = if small { 0 } else { self.window + 1 };
        set(data, 14, WINDOWS.map(u16::to_be_bytes)[usize::from(small)]);
        self.sent += 1;
        context.push(0, packet);
    }
}

impl Element for ToyTCP {
    arguments! { this, given;
        let port = mandatory "DPORT": Port;
        then {
            this.to = port.0;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let wall_ns = context.with_context(|context| context.wall_ns());
        self.begin(wall_ns);
        context.schedule(0, context.now_ns().saturating_add(SECOND_NS));
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        if self.reset {
            self.begin(context.wall_ns());
        }
        self.send(context);
        context.schedule(0, context.now_ns().saturating_add(SECOND_NS));
        let (good, bad, sent) = (self.good, self.bad, self.sent);
        context.log(&format!("ToyTCP: {good} good in, {bad} bad in, {sent} out"));
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        own.append(batch);
        for packet in own.drain() {
            if self.reset {
                continue;
            }
            self.receive(packet.data(), context);
            self.send(context);
            self.since += 1;
            if self.since > 5 {
                self.since = 0;
                self.send(context);
            }
        }
        context.give_batch(own);
    }

    handlers! { this, context, value;
        read "good" => this.good;
        read "bad" => this.bad;
        read "sent" => this.sent;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_server_that_answers_is_loaded() {
        let mut bench = Bench::new("ToyTCP", &["80"]);
        let log = bench.log();
        bench.now_ns = 1_000_000_000;
        let syn = bench.run()[0].1.clone();
        assert_eq!((syn.len(), &syn[2..4], syn[13]), (20, &[0, 80][..], 2));
        let first = u32::from_be_bytes(*syn[4..].first_chunk().unwrap());
        let mut answer = vec![0, 80, syn[0], syn[1], 0, 0, 0, 9];
        answer.extend((first + 1).to_be_bytes());
        answer.extend([0x50, 0x12, 0, 0, 0, 0, 0, 0]);
        let data = bench.push(0, &[&answer])[0].1.clone();
        assert_eq!((data.len(), &data[8..12], data[13]), (21, &[0, 0, 0, 10][..], 0x10));
        assert_eq!(bench.push(0, &[answer.as_slice(); 5]).len(), 6);
        answer[13] = 4;
        bench.push(0, &[&answer]);
        assert!(bench.push(0, &[&answer]).is_empty(), "until it begins anew");
        assert!(log.borrow().iter().any(|line| line == "ToyTCP connected"));
        assert_eq!(bench.router.read("e.bad", ""), Ok("1".into()));
    }
}
