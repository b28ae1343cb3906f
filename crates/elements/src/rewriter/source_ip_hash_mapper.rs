//! # SourceIPHashMapper
//!
//! ## Synopsis
//! `SourceIPHashMapper(NODES SEED, PATTERN FOUTPUT ROUTPUT ID, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! For rewriters: chooses a pattern for each new flow by a consistent hash of its source address. A
//! host always gets the same pattern, and a new pattern changes the pattern of few hosts.
//!
//! ## Arguments
//! - NODES: places of each pattern on the ring; SEED: accepted as in Click, without effect.
//! - PATTERN, FOUTPUT, ROUTPUT: see `RoundRobinIPMapper`.
//! - ID: a number, different for each pattern, which decides its places on the ring.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinIPMapper`, `IPRewriter`

use super::flows::{FlowId, Space, Table};
use super::pattern::{Pattern, with_outputs};
use crate::prelude::*;

/// Deals patterns out by source.
#[derive(Default)]
pub(crate) struct SourceIPHashMapper {
    patterns: Vec<(Pattern, [usize; 2])>,
    /// Places on the ring in order, each with the number of its pattern.
    ring: Vec<(u32, usize)>,
}

impl Class for SourceIPHashMapper {
    const INFO: ClassInfo = ClassInfo::new("SourceIPHashMapper", "0/0").inline();
}

/// Spreads numbers (the finaliser of MurmurHash3).
fn spread(mut number: u32) -> u32 {
    number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

impl SourceIPHashMapper {
    /// The mapping of a new flow, and its outputs.
    pub(super) fn rewrite(
        &mut self,
        id: FlowId,
        table: &Table,
        space: Space,
        ping: bool,
    ) -> Option<(FlowId, [usize; 2])> {
        let hash = spread(id.source);
        let at = self.ring.partition_point(|(place, _)| *place < hash);
        let (_, number) = self.ring.get(at).or(self.ring.first()).copied()?;
        let (pattern, outputs) = self.patterns.get_mut(number)?;
        Some((pattern.rewrite(id, table, space, ping)?, *outputs))
    }
}

impl Element for SourceIPHashMapper {
    arguments! { this, given;
        let texts = rest "PATTERN": "'NODES SEED', then 'SADDR SPORT DADDR DPORT FORWARD REPLY ID'";
        then {
            let Some(((_, first), rest)) = texts.split_first() else {
                return Err(ConfigError::other("no patterns given"));
            };
            let nodes = first.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
            let nodes = nodes.filter(|nodes| (1..=10_000).contains(nodes));
            let nodes = nodes.ok_or_else(|| ConfigError::at(0, "expected number of nodes and seed"))?;
            if rest.len() == 1 {
                given.warn("only one pattern given");
            }
            for (index, text) in rest {
                let words: Vec<&str> = text.split_whitespace().collect();
                let parsed = words.split_last().ok_or_else(|| "empty argument".to_owned()).and_then(
                    |(id, words)| {
                        let id: u32 = id.parse().map_err(|_| "bad server id".to_owned())?;
                        Ok((id, with_outputs(words, usize::MAX, given.names())?))
                    },
                );
                match parsed {
                    Ok((id, pattern)) => {
                        let number = this.patterns.len();
                        this.ring.extend(
                            (0..nodes).map(|node| (spread(spread(id).wrapping_add(node)), number)),
                        );
                        this.patterns.push(pattern);
                    }
                    Err(error) => given.error(ConfigError::at(*index, error)),
                }
            }
            this.ring.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FlowId, SourceIPHashMapper, Table};
    use europa_engine::{Arguments, Element, Names};

    #[test]
    fn hosts_stay_with_their_server() {
        let choose = |servers: u32| {
            let texts: Vec<String> = std::iter::once("100 1".to_owned())
                .chain((1..=servers).map(|n| format!("- - 1.0.0.{n} - 0 0 {n}")))
                .collect();
            let mut mapper = SourceIPHashMapper::default();
            let mut names = Names::default();
            mapper.configure(&mut Arguments::new(&texts, &mut names, 0, 0)).unwrap();
            (0..300u32)
                .map(|source| {
                    let id = FlowId { source, ..FlowId::default() };
                    mapper.rewrite(id, &Table::default(), 0, false).unwrap().0.destination
                })
                .collect::<Vec<_>>()
        };
        let (three, four) = (choose(3), choose(4));
        let moved = three.iter().zip(&four).filter(|(a, b)| a != b).count();
        assert!((20..150).contains(&moved), "{moved}");
        assert!(three.iter().zip(&four).all(|(a, b)| a == b || *b == 0x0100_0004));
    }
}
