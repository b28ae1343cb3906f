//! # Switch
//!
//! ## Synopsis
//! `Switch([OUTPUT])`
//!
//! ## Ports
//! One input, any number of outputs, push.
//!
//! ## Description
//! Sends all packets out of one output, which can be changed while it runs.
//!
//! ## Arguments
//! - OUTPUT: number of the output, default 0; a negative number drops all packets.
//!
//! ## Handlers
//! - `switch` (read, write): the output.
//!
//! ## See also
//! `Tee`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, HandlerError, arguments, handlers,
    parse,
};

/// Sends all packets one way.
#[derive(Default)]
pub(crate) struct Switch(i64);

impl Class for Switch {
    const INFO: ClassInfo = ClassInfo::new("Switch", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for Switch {
    arguments! { this, given;
        positional "OUTPUT": i64 = 0 => this.0;
        then {
            if this.0 >= given.outputs() as i64 {
                return Err(ConfigError::other(format!("OUTPUT: there is no output {}", this.0)));
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if let Ok(output) = usize::try_from(self.0) {
            context.push_batch(output, batch);
        }
    }

    handlers! { this, context, value;
        both "switch" => this.0, set {
            let output = parse::<i64>("switch", value)?;
            if output >= context.outputs() as i64 {
                return Err(HandlerError::value("switch", value, "number of an output"));
            }
            this.0 = output;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn follows_its_handler() {
        let mut bench = Bench::new("Switch", &["1"]);
        assert_eq!(bench.push(0, &[b"a"]), [(1, b"a".to_vec())]);
        bench.router.write("e.switch", "3").unwrap();
        assert_eq!(bench.push(0, &[b"a"]), [(3, b"a".to_vec())]);
        bench.router.write("e.switch", "-1").unwrap();
        assert_eq!(bench.push(0, &[b"a"]), []);
        assert!(bench.router.write("e.switch", "4").is_err());
        assert_eq!(Bench::error("Switch", &["4"]), "OUTPUT: there is no output 4");
    }
}
