//! # PanicTest
//!
//! ## Synopsis
//! `PanicTest([COUNT])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Lets COUNT packets pass and panics at the next one, like a faulty element: it shows the effect
//! on other routers. A router with a process of its own loses that process. A router inside the
//! switch is ended. Either is started again with an empty pool: the first time at once, then with
//! growing delays. `europa events` shows the panic, with the reason if the router ran inside the
//! switch. The last output of a process is in `europa logs`.
//!
//! ## Arguments
//! - COUNT (optional): number of packets that pass before the panic; default 0.
//!
//! ## Handlers
//! - `count` (read): packets that may still pass.
//!
//! ## See also
//! `Error`, `TimerTest`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments, handlers};

/// Panics at a packet.
#[derive(Default)]
pub(crate) struct PanicTest {
    left: u64,
}

impl Class for PanicTest {
    const INFO: ClassInfo = ClassInfo::new("PanicTest", "1/1").inline();
}

impl Element for PanicTest {
    arguments! { this, given;
        positional "COUNT": u64 = 0 => this.left;
    }

    #[expect(clippy::panic, reason = "what it is for")]
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for _ in batch.iter() {
            self.left =
                self.left.checked_sub(1).unwrap_or_else(|| panic!("PanicTest has got its packet"));
        }
    }

    handlers! { this, context, value; read "count" => this.left; }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::testing::Bench;

    #[test]
    fn the_packet_after_the_last_one_is_too_much() {
        let mut bench = Bench::new("PanicTest", &["3"]);
        assert_eq!(bench.push(0, &[b"a", b"b"]).len(), 2);
        assert_eq!(bench.router.read("e.count", ""), Ok("1".into()));
        let more = AssertUnwindSafe(|| bench.push(0, &[b"c", b"d"]));
        let panic = catch_unwind(more).expect_err("a panic");
        assert_eq!(panic.downcast_ref(), Some(&"PanicTest has got its packet"));
        assert_eq!(Bench::error("PanicTest", &["1", "2"]), "unexpected argument '2'");
    }
}
