//! # SetQueue
//!
//! ## Synopsis
//! `SetQueue(NUMBER)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts each packet into queue NUMBER of its slice when a `ToDevice` sends it by a port. The
//! slice's routers define the queues of that port (`queues:` of their interfaces). A number without
//! a queue on that port means the interface's own queue, as 0 does. It has no effect on links, nor
//! under `europa click`.
//!
//! ## Arguments
//! - NUMBER: unsigned integer up to 32767.
//!
//! ## Handlers
//! - `queue` (read, write): the number.
//!
//! ## See also
//! `ToDevice`, `Paint`

use europa_engine::{Each, Names, Value, Verdict, arguments};
use europa_pool::Word;

use crate::prelude::*;

/// Sets the queue that packets leave by.
#[derive(Default)]
pub(crate) struct SetQueue {
    queue: Number,
}

/// A number that a descriptor can carry.
#[derive(Default)]
struct Number(u16);

impl Value for Number {
    const WANTED: &'static str = "unsigned integer up to 32767";

    fn parse(text: &str, names: &Names) -> Option<Number> {
        u16::parse(text, names).filter(|number| *number <= Word::QUEUE_MAX).map(Number)
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Class for SetQueue {
    const INFO: ClassInfo = ClassInfo::new("SetQueue", "1/1").inline().keeps_long();
}

impl Each for SetQueue {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        packet.set_queue(self.queue.0);
        Verdict::ON
    }
}

impl Element for SetQueue {
    arguments! { this, given;
        mandatory "NUMBER": Number => this.queue;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            self.each(packet, 0);
        }
    }

    handlers! { this, context, value; both "queue" => this.queue; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_leave_by_the_queue() {
        let mut bench = Bench::new("SetQueue", &["300"]);
        bench.push(0, &[b"a"]);
        bench.router.write("e.queue", "32767").unwrap();
        bench.push(0, &[b"b"]);
        let queues: Vec<u16> = bench.out.iter().map(|(_, packet)| packet.queue()).collect();
        assert_eq!(queues.last(), Some(&32767), "{queues:?}");
        assert!(bench.router.write("e.queue", "32768").is_err());
    }
}
