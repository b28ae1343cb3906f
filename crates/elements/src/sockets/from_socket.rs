//! # FromSocket
//!
//! ## Synopsis
//! `FromSocket("TCP", ADDR, PORT [, keywords])`, `FromSocket("UDP", ADDR, PORT [, keywords])`,
//! `FromSocket("UNIX", FILENAME [, keywords])`, `FromSocket("UNIX_DGRAM", FILENAME [, keywords])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Makes packets of a server socket's data: a `Socket` without inputs.
//!
//! ## Arguments
//! Those of `Socket`.
//!
//! ## Handlers
//! Those of `Socket`.
//!
//! ## See also
//! `Socket`, `ToSocket`

use europa_engine::Interest;

use crate::prelude::*;
use crate::sockets::socket::Socket;

/// One direction of a socket.
#[derive(Default)]
pub(crate) struct FromSocket(Socket);

impl Class for FromSocket {
    const INFO: ClassInfo = ClassInfo::new("FromSocket", "0/1").processing("h/h");
}

impl Element for FromSocket {
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
    use std::net::UdpSocket;

    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, part};

    #[test]
    fn datagrams_go_from_one_to_the_other() {
        // A port that is free now.
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = port.to_string();
        let mut graph = Graph::default();
        let from = graph.add("from", "FromSocket", &["UDP", "127.0.0.1", &port]);
        let sink = graph.add("sink", "TestSink", &[]);
        let source = graph.add("source0", "TestSource", &[]);
        let to = graph.add("to", "ToSocket", &["UDP", "127.0.0.1", &port]);
        graph.connect(from, 0, sink, 0);
        graph.connect(source, 0, to, 0);
        let (registry, arena) = (Bench::registry(), Arena::heap(64, 4096));
        let graph = graph.resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        part::source(&mut router, 0, arena.packet(b"hello"));
        let mut seen = Vec::new();
        for _ in 0..2000 {
            router.run_once(0, &mut NoDevices);
            let ready: Vec<_> = router
                .watched()
                .iter()
                .map(|watched| (watched.element, watched.token, watched.interest))
                .collect();
            for (element, token, interest) in ready {
                router.descriptor_ready(element, token, interest, &mut NoDevices);
            }
            seen.extend(part::sink(&mut router));
            if !seen.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(seen.first().map(|(_, packet)| packet.data()), Some(&b"hello"[..]));
        assert_eq!(router.read("to.count", ""), Ok("1".into()));
    }
}
