//! # Suppressor
//!
//! ## Synopsis
//! `Suppressor`
//!
//! ## Ports
//! As many inputs as outputs, push or pull; packets of an input leave by the output of the same
//! number.
//!
//! ## Description
//! Passes packets, except at ports that are switched off: packets that are pushed there are
//! dropped, and none are pulled.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `active0`, `active1`, ... `active7` (read, write): whether a port passes packets; default
//!   true.
//! - `allow_all` (write): switches all ports on.
//! - `reset` (write): the same.
//!
//! ## See also
//! `Switch`, `InputSwitch`

use crate::prelude::*;

/// Passes packets of some ports.
#[derive(Default)]
pub(crate) struct Suppressor {
    /// A bit for each port.
    off: u64,
}

impl Class for Suppressor {
    const INFO: ClassInfo =
        ClassInfo::new("Suppressor", "-/=").processing("a/a").flow("#/#").inline();
}

impl Suppressor {
    /// Sets whether the input that a handler names passes packets.
    fn set(
        &mut self,
        handler: &str,
        value: &str,
        context: &Context<'_>,
    ) -> Result<(), HandlerError> {
        let bit = 1 << port(handler, context)?;
        self.off = if parse(handler, value)? { self.off & !bit } else { self.off | bit };
        Ok(())
    }

    fn passes(&self, port: usize) -> bool {
        port >= 64 || self.off >> port & 1 == 0
    }
}

fn port(handler: &str, context: &Context<'_>) -> Result<usize, HandlerError> {
    let number = handler.strip_prefix("active").and_then(|number| number.parse().ok());
    number
        .filter(|port| *port < context.inputs())
        .ok_or_else(|| HandlerError::NotFound(handler.to_owned()))
}

impl Element for Suppressor {
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        match self.passes(port) {
            true => context.forward(port, batch),
            false => batch.clear(),
        }
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if self.passes(port) {
            context.pull(port, max, batch);
        }
    }

    handlers! { this, context, value, name;
        both "active0" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active1" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active2" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active3" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active4" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active5" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active6" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        both "active7" [CHECKBOX] => this.passes(port(name, context)?), set this.set(name, value, context)?;
        button "allow_all" => this.off = 0;
        button "reset" => this.off = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn ports_can_be_switched_off() {
        let mut bench = Bench::new("Suppressor", &[]);
        assert_eq!(bench.push(2, &[b"a"]), [(2, b"a".to_vec())]);
        bench.router.write("e.active2", "false").unwrap();
        assert_eq!(bench.push(2, &[b"a"]), []);
        assert_eq!(bench.push(1, &[b"a"]), [(1, b"a".to_vec())]);
        assert_eq!(bench.router.read("e.active2", ""), Ok("false".into()));
        bench.router.write("e.reset", "").unwrap();
        assert_eq!(bench.push(2, &[b"a"]), [(2, b"a".to_vec())]);
        assert!(bench.router.read("e.active7", "").is_err());
    }
}
