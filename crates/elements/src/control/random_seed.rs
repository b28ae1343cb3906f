//! # RandomSeed
//!
//! ## Synopsis
//! `RandomSeed([SEED])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Sets the seed of the random numbers that all elements share. Without this element the numbers
//! are the same on every run. With a SEED they are those that Click has for that seed.
//!
//! ## Arguments
//! - SEED: a number; without it, an unpredictable one.
//!
//! ## Handlers
//! - `seed` (read, write): SEED; writing begins the sequence again.
//!
//! ## See also
//! `RandomSample`, `RandomSwitch`, `RandomSource`

use std::hash::{BuildHasher as _, RandomState};

use crate::prelude::*;
use crate::shared::random;

/// Seeds random numbers.
#[derive(Default)]
pub(crate) struct RandomSeed {
    seed: u32,
}

impl Class for RandomSeed {
    const INFO: ClassInfo = ClassInfo::new("RandomSeed", "0/0")
        .not_inline("begins the random numbers anew that all inline routers share");
}

/// The standard library seeds its hash tables with random numbers of the system.
fn unknown() -> u32 {
    RandomState::new().hash_one(()) as u32
}

impl Element for RandomSeed {
    arguments! { this, given;
        positional "SEED": u32, with |seed| seed.unwrap_or_else(unknown) => this.seed;
    }

    fn initialize(&mut self, _: &mut InitContext<'_>) -> Result<(), ConfigError> {
        random::seed(self.seed);
        Ok(())
    }

    handlers! { this, context, value;
        both "seed" => this.seed, set {
            this.seed = if value.trim().is_empty() { unknown() } else { parse("seed", value)? };
            random::seed(this.seed);
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::random::Random;
    use crate::testing::Bench;

    #[test]
    fn numbers_begin_again() {
        let mut bench = Bench::new("RandomSeed", &["7"]);
        let first = Random.next();
        bench.router.write("e.seed", "8").unwrap();
        assert_eq!(bench.router.read("e.seed", ""), Ok("8".into()));
        assert_ne!(Random.next(), first);
        bench.router.write("e.seed", "7").unwrap();
        assert_eq!(Random.next(), first);
        bench.router.write("e.seed", "").unwrap();
        assert!(bench.router.write("e.seed", "x").is_err());
    }
}
