//! Frames of kernel routers. Their program runs in the kernel, so captures report these frames.
//!
//! A capture contains a record of each frame before the program, and a record of the frame after
//! it. Both have the same number.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use europa_capture::{Packet, Session, change, line};
use europa_cbpf::Program;
use europa_substrate::tap::{Direction, Way};
use serde_json::json;

/// Longest time from a frame's arrival to its verdict. Programs take microseconds, but records may
/// be lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// A frame that is followed.
struct Frame {
    number: u32,
    bytes: Vec<u8>,
    since: Instant,
}

/// The frames that are followed through a router's program.
pub(super) struct Caged<'a> {
    filter: &'a Program,
    json: bool,
    /// Number of frames that are yet to be chosen.
    left: u32,
    next: u32,
    /// Traced frames by the number in their records.
    followed: HashMap<u64, Frame>,
}

impl<'a> Caged<'a> {
    /// Follows the next `count` frames that match a filter.
    pub(super) fn new(filter: &'a Program, count: u32, json: bool) -> Self {
        Caged { filter, json, left: count, next: 1, followed: HashMap::new() }
    }

    /// Handles a captured packet of the router's program. Returns whether it belongs to that
    /// program.
    pub(super) fn packet(&mut self, session: &Session, packet: &Packet) -> io::Result<bool> {
        if packet.frame == 0 {
            return Ok(false);
        }
        let Some(interface) = session.interfaces.get(packet.interface) else { return Ok(true) };
        let name = &interface.name;
        if (packet.direction, packet.way) == (Direction::In, Way::Cage) {
            let length = packet.length as usize;
            if self.left > 0 && self.filter.matches(&packet.data, length) {
                self.left -= 1;
                self.begin(name, packet)?;
            }
            return Ok(true);
        }
        let Some(frame) = self.followed.remove(&packet.frame) else { return Ok(true) };
        let fate = match (packet.drop, packet.way, packet.direction) {
            (Some(cause), ..) => format!("DROPPED: {cause}"),
            (None, Way::Verdict, Direction::In) => "passed to the router's process".to_owned(),
            (None, Way::Verdict, Direction::Out) => {
                "given to the switch, for its filters and queues".to_owned()
            }
            (None, ..) => format!("left by {}, from the kernel", interface.place),
        };
        let changes = change::changes(&frame.bytes, &packet.data);
        let (mut out, number) = (io::stdout().lock(), frame.number);
        if self.json {
            let fate = json!({"interface": name, "text": fate, "changes": changes});
            let line = json!({"packet": format!("k{number}"), "what": {"fate": fate}});
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "#k{number}   the XDP program")?;
            for change in changes {
                writeln!(out, "       {change}")?;
            }
            writeln!(out, "#k{number} {name}: {fate}")?;
        }
        Ok(true)
    }

    fn begin(&mut self, interface: &str, packet: &Packet) -> io::Result<()> {
        let (number, bytes) = (self.next, packet.data.clone());
        self.next += 1;
        let mut out = io::stdout().lock();
        if self.json {
            let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let what = json!({"received": {"interface": interface, "bytes": bytes}});
            let line =
                json!({"packet": format!("k{number}"), "at_ns": packet.time_ns, "what": what});
            writeln!(out, "{line}")?;
        } else {
            let time = line::clock(packet.time_ns);
            writeln!(out, "#k{number} {time} received by {interface}, in the kernel")?;
            writeln!(out, "     {}", change::summary(&bytes))?;
        }
        let frame = Frame { number, bytes, since: Instant::now() };
        self.followed.insert(packet.frame, frame);
        Ok(())
    }

    /// Whether all frames are chosen, and each has its verdict or has reached its time limit.
    pub(super) fn is_done(&mut self) -> bool {
        self.followed.retain(|_, frame| frame.since.elapsed() < PATIENCE);
        self.left == 0 && self.followed.is_empty()
    }
}
