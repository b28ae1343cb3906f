//! # RandomSample
//!
//! ## Synopsis
//! `RandomSample([P, SAMPLE, DROP, ACTIVE])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Lets each packet pass with probability P. Others leave by output 1, or are dropped.
//!
//! ## Arguments
//! - P: 0 to 1. SAMPLE (keyword) is another name for it. DROP (keyword) is the probability of not
//!   passing.
//! - ACTIVE (keyword): whether to sample; if not, all pass; default true.
//!
//! ## Handlers
//! - `sampling_prob`, `drop_prob`, `active` (read, write): see the arguments.
//! - `drops` (read): packets that did not pass.
//! - `clear` (write): sets `drops` to zero.
//!
//! ## See also
//! `RandomSwitch`, `RandomBitErrors`

use crate::prelude::*;
use crate::shared::random::Random;

/// Passes some packets.
#[derive(Default)]
pub(crate) struct RandomSample {
    probability: f64,
    active: bool,
    drops: u64,
    random: Random,
}

impl Class for RandomSample {
    const INFO: ClassInfo = ClassInfo::new("RandomSample", "1/1-2").processing("a/ah").inline();
}

fn check(probability: f64) -> Result<f64, String> {
    let fits = (0.0..=1.0).contains(&probability);
    fits.then_some(probability).ok_or_else(|| "drop probability must be between 0 and 1".to_owned())
}

impl Element for RandomSample {
    arguments! { this, given;
        let sample = positional "P" | "SAMPLE": f64;
        let drop = keyword "DROP": f64;
        keyword "ACTIVE": bool = true => this.active;
        then {
            this.probability = match (sample, drop) {
                (Some(sample), None) => sample,
                (None, Some(drop)) => 1.0 - drop,
                _ => return Err(ConfigError::other("give a sampling or a drop probability")),
            };
            check(this.probability).map_err(ConfigError::other)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if !self.active {
            return;
        }
        // For a probability of 1 the bound is above all 32-bit numbers.
        let bound = (self.probability * 4_294_967_296.0) as u64;
        let (random, drops) = (&mut self.random, &mut self.drops);
        batch.filter(
            |_| u64::from(random.next()) < bound,
            |packet| {
                *drops += 1;
                context.push(1, packet);
            },
        );
    }

    handlers! { this, context, value;
        both "sampling_prob" => this.probability, set {
            this.probability = check(parse("sampling_prob", value)?).map_err(HandlerError::Other)?;
        };
        both "drop_prob" => 1.0 - this.probability, set {
            let drop: f64 = parse("drop_prob", value)?;
            this.probability = check(1.0 - drop).map_err(HandlerError::Other)?;
        };
        both "active" [CHECKBOX] => this.active;
        read "drops" => this.drops;
        button "clear" => this.drops = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_probability_is_kept() {
        for (argument, passed) in
            [("0.25", 30..=70), ("1", 200..=200), ("0", 0..=0), ("DROP 1", 0..=0)]
        {
            let mut bench = Bench::new("RandomSample", &[argument]);
            let out = bench.push(0, &[&b"a"[..]; 200]);
            let count = out.iter().filter(|(output, _)| *output == 0).count();
            assert!(passed.contains(&count), "{argument}: {count}");
            assert_eq!(bench.router.read("e.drops", ""), Ok((200 - count).to_string()));
        }
        assert_eq!(
            Bench::error("RandomSample", &["2"]),
            "drop probability must be between 0 and 1"
        );
    }
}
