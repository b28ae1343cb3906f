//! # InputSwitch
//!
//! ## Synopsis
//! `InputSwitch([INPUT])`
//!
//! ## Ports
//! Any number of push inputs, one push output.
//!
//! ## Description
//! Passes packets that come by one input, and drops those that come by others.
//!
//! ## Arguments
//! - INPUT: number of an input, default 0; negative to drop all.
//!
//! ## Handlers
//! - `switch` (read, write): INPUT.
//!
//! ## See also
//! `Switch`, `PullSwitch`

use crate::prelude::*;

/// Passes packets of one input; contains its number.
#[derive(Default)]
pub(crate) struct InputSwitch(i32);

impl Class for InputSwitch {
    const INFO: ClassInfo = ClassInfo::new("InputSwitch", "-/1").processing("h/h").inline();
}

impl Element for InputSwitch {
    arguments! { this, given;
        positional "INPUT": i32 = 0 => this.0;
        then {
            super::check_port("input", this.0, given.inputs()).map_err(ConfigError::other)?;
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        match usize::try_from(self.0) == Ok(port) {
            true => context.forward(0, batch),
            false => batch.clear(),
        }
    }

    handlers! { this, context, value;
        both "switch" => this.0, set {
            let input = parse("switch", value)?;
            super::check_port("input", input, context.inputs()).map_err(HandlerError::Other)?;
            this.0 = input;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn one_input_is_open() {
        let mut bench = Bench::new("InputSwitch", &["1"]);
        assert_eq!(bench.push(0, &[b"a"]), []);
        assert_eq!(bench.push(1, &[b"a"]), [(0, b"a".to_vec())]);
        bench.router.write("e.switch", "-1").unwrap();
        assert_eq!(bench.push(1, &[b"a"]), []);
        assert_eq!(Bench::error("InputSwitch", &["4"]), "input must be < 4");
    }
}
