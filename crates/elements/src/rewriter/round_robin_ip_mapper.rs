//! # RoundRobinIPMapper
//!
//! ## Synopsis
//! `RoundRobinIPMapper(PATTERN FOUTPUT ROUTPUT, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! A helper of rewriters: gives new flows its patterns in turn. A rewriter's input names it in
//! place of a specification.
//!
//! ## Arguments
//! - PATTERN: `SADDR SPORT DADDR DPORT` or `SADDR DADDR` or a name, see `IPRewriter`.
//! - FOUTPUT, ROUTPUT: outputs of the rewriter.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPRewriter`, `SourceIPHashMapper`, `IPRewriterPatterns`

use super::flows::{FlowId, Space, Table};
use super::pattern::{Pattern, with_outputs};
use crate::prelude::*;

/// Deals patterns out.
#[derive(Default)]
pub(crate) struct RoundRobinIPMapper {
    pub(super) patterns: Vec<(Pattern, [usize; 2])>,
    next: usize,
}

impl Class for RoundRobinIPMapper {
    const INFO: ClassInfo = ClassInfo::new("RoundRobinIPMapper", "0/0").inline();
}

impl RoundRobinIPMapper {
    /// The mapping of a new flow, and its outputs, by the next pattern that has a free mapping.
    pub(super) fn rewrite(
        &mut self,
        id: FlowId,
        table: &Table,
        space: Space,
        ping: bool,
    ) -> Option<(FlowId, [usize; 2])> {
        for _ in 0..self.patterns.len() {
            let number = self.next;
            self.next = (number + 1) % self.patterns.len();
            let (pattern, outputs) = self.patterns.get_mut(number)?;
            if let Some(new) = pattern.rewrite(id, table, space, ping) {
                return Some((new, *outputs));
            }
        }
        None
    }
}

impl Element for RoundRobinIPMapper {
    arguments! { this, given;
        let texts = rest "PATTERN": "'SADDR SPORT DADDR DPORT FORWARD REPLY'";
        then {
            match texts.len() {
                0 => return Err(ConfigError::other("no patterns given")),
                1 => given.warn("only one pattern given"),
                _ => {}
            }
            for (index, text) in texts {
                let words: Vec<&str> = text.split_whitespace().collect();
                // The number of the rewriter's outputs is not known here; packets to outputs that
                // do not exist are dropped.
                match with_outputs(&words, usize::MAX, given.names()) {
                    Ok(pattern) => this.patterns.push(pattern),
                    Err(error) => given.error(ConfigError::at(index, error)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, ip_packet, part};

    #[test]
    fn flows_take_turns() {
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let rewriter = graph.add("rw", "IPRewriter", &["mapper"]);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.add("mapper", "RoundRobinIPMapper", &["- - 1.0.0.1 - 0 0", "- - 1.0.0.2 - 0 0"]);
        graph.connect(source, 0, rewriter, 0);
        graph.connect(rewriter, 0, sink, 0);
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        let packets: Vec<_> = (1..4)
            .map(|source| {
                let mut packet =
                    arena.packet(&ip_packet(source, 9, 3, b"\0\x01\0\x02\0\x08\0\0")).unwrap();
                packet.set_network_header(0, 20);
                packet
            })
            .collect();
        part::source(&mut router, 0, packets);
        router.run_once(0, &mut NoDevices);
        let last: Vec<_> =
            part::sink(&mut router).iter().map(|(_, packet)| packet.data()[19]).collect();
        assert_eq!(last, [1, 2, 1]);
    }
}
