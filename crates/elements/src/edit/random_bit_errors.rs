//! # RandomBitErrors
//!
//! ## Synopsis
//! `RandomBitErrors(P [, KIND, ACTIVE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Changes each bit of each packet with probability P.
//!
//! ## Arguments
//! - P: 0 to 1.
//! - KIND: `flip` (default), `set` or `clear`.
//! - ACTIVE: whether to change bits; default true. ON is another name of it.
//!
//! ## Handlers
//! - `p_bit_error`, `error_kind`, `on` (read, write): P, KIND and ACTIVE.
//!
//! ## See also
//! `RandomSample`

use crate::prelude::*;
use crate::shared::random::Random;

/// Damages packets.
#[derive(Default)]
pub(crate) struct RandomBitErrors {
    probability: f64,
    kind: String,
    on: bool,
    random: Random,
}

impl Class for RandomBitErrors {
    const INFO: ClassInfo = ClassInfo::new("RandomBitErrors", "1/1").inline();
}

fn check(probability: f64, kind: &str) -> Result<(), String> {
    if !(0.0..=1.0).contains(&probability) {
        return Err("P: expected a number from 0 to 1".to_owned());
    }
    match kind {
        "flip" | "set" | "clear" => Ok(()),
        _ => Err("KIND: expected 'flip', 'set' or 'clear'".to_owned()),
    }
}

impl RandomBitErrors {
    /// Number of good bits before the next bad one: geometrically distributed.
    fn gap(&mut self) -> usize {
        let uniform = (f64::from(self.random.next()) + 1.0) / 4_294_967_297.0;
        // Infinite for a probability of 0; the cast then gives the largest number.
        (uniform.ln() / (1.0 - self.probability).ln()) as usize
    }

    fn damage(&mut self, data: &mut [u8]) {
        let mut bit = self.gap();
        while let Some(byte) = data.get_mut(bit / 8) {
            let mask = 1 << (bit % 8);
            match self.kind.as_str() {
                "set" => *byte |= mask,
                "clear" => *byte &= !mask,
                _ => *byte ^= mask,
            }
            bit = bit.saturating_add(1).saturating_add(self.gap());
        }
    }
}

impl Element for RandomBitErrors {
    arguments! { this, given;
        mandatory "P": f64 => this.probability;
        positional "KIND": String = "flip".to_owned() => this.kind;
        positional "ACTIVE" | "ON": bool = true => this.on;
        then {
            check(this.probability, &this.kind).map_err(ConfigError::other)?;
            if this.probability == 0.0 {
                given.warn("zero bit error probability (underflow?)");
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        if self.on && self.probability > 0.0 {
            for packet in batch {
                self.damage(packet.data_mut());
            }
        }
    }

    handlers! { this, context, value;
        both "p_bit_error" => this.probability, set {
            let probability = parse("p_bit_error", value)?;
            check(probability, &this.kind).map_err(HandlerError::Other)?;
            this.probability = probability;
        };
        both "error_kind" => this.kind, set {
            check(this.probability, value.trim()).map_err(HandlerError::Other)?;
            this.kind = value.trim().to_owned();
        };
        both "on" [CHECKBOX] => this.on;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn as_many_bits_as_asked_for() {
        for (probability, kind, ones) in [
            ("1", "flip", 8000..=8000),
            ("0", "set", 0..=0),
            ("0.1", "set", 650..=950),
            ("1", "clear", 0..=0),
        ] {
            let mut bench = Bench::new("RandomBitErrors", &[probability, kind]);
            let out = bench.push(0, &[&[0; 1000]]);
            let count: u32 = out[0].1.iter().map(|byte| byte.count_ones()).sum();
            assert!(ones.contains(&count), "{probability} {kind}: {count}");
        }
        for arguments in [["1", "flip", "false"], ["1", "ACTIVE false", "KIND set"]] {
            let mut bench = Bench::new("RandomBitErrors", &arguments);
            assert_eq!(bench.push(0, &[b"x"]), [(0, b"x".to_vec())]);
        }
        assert_eq!(Bench::error("RandomBitErrors", &["2"]), "P: expected a number from 0 to 1");
    }
}
