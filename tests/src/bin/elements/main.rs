//! A program with an element of its own, which keeps state, and panics at a packet with certain
//! bytes.

use std::any::Any;
use std::process::ExitCode;

use europa_engine::{Batch, Class, ClassInfo, Context, Element, handlers};

/// The last bytes of a packet at which the element panics.
const BOMB: &[u8] = b"a bomb";

/// Counts packets, and panics at packets that end with [`BOMB`].
#[derive(Default)]
struct Bomb {
    count: u64,
}

impl Class for Bomb {
    const INFO: ClassInfo = ClassInfo::new("Bomb", "1/1").processing("a/a");
}

impl Element for Bomb {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.count += batch.len() as u64;
        let asks = batch.iter().any(|packet| packet.data().ends_with(BOMB));
        assert!(!asks, "a packet asked for it");
    }

    fn take_state(&mut self, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<Bomb>() {
            self.count = old.count;
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
    }
}

fn main() -> ExitCode {
    europa_driver::main(|registry| registry.add::<Bomb>())
}
