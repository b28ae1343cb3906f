//! # ToSocket
//!
//! ## Synopsis
//! `ToSocket("TCP", ADDR, PORT [, keywords])`, `ToSocket("UDP", ADDR, PORT [, keywords])`,
//! `ToSocket("UNIX", FILENAME [, keywords])`, `ToSocket("UNIX_DGRAM", FILENAME [, keywords])`
//!
//! ## Ports
//! One input, push or pull.
//!
//! ## Description
//! Sends the contents of packets by a client's socket: a `Socket` without outputs.
//!
//! ## Arguments
//! Those of `Socket`.
//!
//! ## Handlers
//! Those of `Socket`.
//!
//! ## See also
//! `Socket`, `FromSocket`

use europa_engine::Interest;

use crate::prelude::*;
use crate::sockets::socket::Socket;

/// One direction of a socket.
#[derive(Default)]
pub(crate) struct ToSocket(Socket);

impl Class for ToSocket {
    const INFO: ClassInfo = ClassInfo::new("ToSocket", "1/0").processing("a/a").consumes();
}

impl Element for ToSocket {
    delegate!(arguments 0);

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(port, batch, context);
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
    }

    fn descriptor_ready(&mut self, token: u32, interest: Interest, context: &mut Context<'_>) {
        self.0.descriptor_ready(token, interest, context);
    }

    delegate!(reading 0);
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn mistakes_are_those_of_socket() {
        assert_eq!(Bench::error("ToSocket", &["FAX", "1.2.3.4", "5"]), "unknown socket type 'FAX'");
    }
}
