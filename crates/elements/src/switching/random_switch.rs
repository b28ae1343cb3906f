//! # RandomSwitch
//!
//! ## Synopsis
//! `RandomSwitch`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Sends each packet out of a random output.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinSwitch`, `HashSwitch`, `RandomSample`

use crate::prelude::*;
use crate::shared::random::Random;

/// Scatters packets.
#[derive(Default)]
pub(crate) struct RandomSwitch {
    random: Random,
}

impl Class for RandomSwitch {
    const INFO: ClassInfo = ClassInfo::new("RandomSwitch", "1/1-").processing("h/h").inline();
}

impl Element for RandomSwitch {
    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let outputs = context.outputs() as u32;
        context.push_each(batch, |_| Some(self.random.below(outputs) as usize));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn all_outputs_get_some() {
        let mut bench = Bench::with_outputs("RandomSwitch", &[], 4);
        let out = bench.push(0, &[&b"a"[..]; 200]);
        for output in 0..4 {
            let count = out.iter().filter(|(o, _)| *o == output).count();
            assert!((25..=80).contains(&count), "{output}: {count}");
        }
    }
}
