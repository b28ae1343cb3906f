//! # PullSwitch
//!
//! ## Synopsis
//! `PullSwitch([INPUT])`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Gets packets from one of its inputs only.
//!
//! ## Arguments
//! - INPUT: number of an input, default 0; negative for none.
//!
//! ## Handlers
//! - `switch` (read, write): INPUT.
//!
//! ## See also
//! `Switch`, `SimplePullSwitch`, `StaticPullSwitch`, `PrioSched`

use crate::prelude::*;

/// Pulls from one input: its number, the signals of all inputs, and whether this input may still
/// have packets.
#[derive(Default)]
pub(crate) struct PullSwitch(i32, Vec<Signal>, bool);

impl Class for PullSwitch {
    const INFO: ClassInfo = ClassInfo::new("PullSwitch", "-/1").processing("l/l").inline();
}

impl PullSwitch {
    pub(super) fn set_up(input: i32, given: &Arguments<'_>) -> Result<PullSwitch, ConfigError> {
        super::check_port("input", input, given.inputs()).map_err(ConfigError::other)?;
        Ok(PullSwitch(input, Vec::new(), input >= 0))
    }
}

impl Element for PullSwitch {
    arguments! { this, given;
        let input = positional "INPUT": i32 = 0;
        then {
            *this = PullSwitch::set_up(input, given)?;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.1 = (0..context.inputs()).map(|input| context.upstream(input)).collect();
        Ok(())
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, context: &mut Context<'_>) -> bool {
        let signal = usize::try_from(self.0).ok().and_then(|input| self.1.get(input));
        self.2 |= signal.is_some_and(|signal| context.is_active(signal));
        self.2
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if let Ok(input) = usize::try_from(self.0) {
            let none = context.pull(input, max, batch) == 0;
            let signal = self.1.get(input);
            self.2 = !none || signal.is_some_and(|signal| context.is_active(signal));
        }
    }

    handlers! { this, context, value;
        both "switch" => this.0, set {
            let input = parse("switch", value)?;
            super::check_port("input", input, context.inputs()).map_err(HandlerError::Other)?;
            (this.0, this.2) = (input, false);
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn one_input_is_pulled_from() {
        for (class, argument) in
            [("PullSwitch", "1"), ("SimplePullSwitch", "1"), ("StaticPullSwitch", "1")]
        {
            let mut bench = pull_bench(class, &[argument], 2);
            bench.give(0, &[b"a"]);
            bench.give(1, &[b"b"]);
            assert_eq!(bench.pull(9), [b"b".to_vec()]);
            if class != "StaticPullSwitch" {
                bench.router.write("e.switch", "0").unwrap();
                assert_eq!(bench.pull(9), [b"a".to_vec()]);
                assert!(bench.router.write("e.switch", "2").is_err());
            }
        }
    }
}
