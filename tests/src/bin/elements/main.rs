//! A program with elements of its own. One keeps state, and panics at a packet with certain bytes.
//! The other loses packets without a cause.

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

/// Loses every packet in such a way that no counter has it: the fault that the equations of
/// counters find.
#[derive(Default)]
struct Vanish;

impl Class for Vanish {
    const INFO: ClassInfo = ClassInfo::new("Vanish", "1/0").processing("h/h");
}

impl Element for Vanish {
    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        while let Some(packet) = batch.pop() {
            // The slot counts as given to the other side of the pool.
            let _ = packet.release();
        }
    }
}

fn main() -> ExitCode {
    europa_driver::main(|registry| {
        registry.add::<Bomb>();
        registry.add::<Vanish>();
    })
}
