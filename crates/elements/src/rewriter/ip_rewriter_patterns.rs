//! # IPRewriterPatterns
//!
//! ## Synopsis
//! `IPRewriterPatterns(NAME PATTERN, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Gives names to patterns, for rewriters: `pattern NAME FOUTPUT ROUTPUT`.
//!
//! ## Arguments
//! - NAME: a word.
//! - PATTERN: `SADDR SPORT DADDR DPORT` or `SADDR DADDR`, see `IPRewriter`.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPRewriter`, `RoundRobinIPMapper`

use super::pattern::Pattern;
use crate::prelude::*;

/// Names patterns.
#[derive(Default)]
pub(crate) struct IPRewriterPatterns;

impl Class for IPRewriterPatterns {
    const INFO: ClassInfo =
        ClassInfo::new("IPRewriterPatterns", "0/0").phase(europa_engine::Phase::Info).inline();
}

impl Element for IPRewriterPatterns {
    arguments! { this, given;
        let texts = rest "NAME": "'NAME SADDR SPORT DADDR DPORT'";
        then {
            for (index, text) in texts {
                let words: Vec<&str> = text.split_whitespace().collect();
                let (Some(name), rest) = (words.first(), words.get(1..).unwrap_or_default()) else {
                    continue;
                };
                let known = given.names().text("pattern", name).is_some();
                let parsed = Pattern::parse(rest, given.names());
                match parsed {
                    _ if known => given
                        .error(ConfigError::at(index, format!("pattern '{name}' already defined"))),
                    Ok(_) => given.names().set_text("pattern", name, &rest.join(" ")),
                    Err(error) => given.error(ConfigError::at(index, error)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::Bench;

    #[test]
    fn names_stand_for_patterns() {
        let mut graph = Graph::default();
        // The element stands behind the rewriter in the configuration, but is read first.
        let source = graph.add("source0", "TestSource", &[]);
        let rewriter = graph.add("rw", "IPRewriter", &["pattern p 0 0"]);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.add("names", "IPRewriterPatterns", &["p 1.0.0.1 1024-1030# - -"]);
        graph.connect(source, 0, rewriter, 0);
        graph.connect(rewriter, 0, sink, 0);
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        assert_eq!(router.read("rw.patterns", ""), Ok("1.0.0.1 1024-1030 - -\n".into()));
    }
}
