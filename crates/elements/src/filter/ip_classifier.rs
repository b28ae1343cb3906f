//! # IPClassifier
//!
//! ## Synopsis
//! `IPClassifier(PATTERN, ...)`
//!
//! ## Ports
//! One push input, as many push outputs as patterns.
//!
//! ## Description
//! Sends each packet out of the output of the first pattern that fits it, and drops packets that
//! fit none. Patterns are those of `IPFilter`. The network header annotation must be set.
//!
//! ## Arguments
//! - PATTERN: see `IPFilter`.
//!
//! ## Handlers
//! - `program` (read): see `IPFilter`.
//!
//! ## See also
//! `IPFilter`, `Classifier`

use super::ip_filter::{IPFilter, unquoted};
use super::parse::Version;
use crate::prelude::*;

/// Sorts packets by expressions.
#[derive(Default)]
pub(crate) struct IPClassifier(IPFilter);

impl Class for IPClassifier {
    const INFO: ClassInfo =
        ClassInfo::new("IPClassifier", "1/-").processing("h/h").inline().keeps_long();
}

impl IPClassifier {
    pub(super) fn program(&self) -> &super::program::Program {
        self.0.program()
    }

    /// Reads the patterns, one for each output.
    pub(super) fn read_patterns(
        &mut self,
        patterns: Vec<(usize, &str)>,
        given: &mut Arguments<'_>,
        version: Version,
    ) -> Result<(), ConfigError> {
        let outputs = given.outputs();
        if patterns.len() != outputs {
            let message = format!("need {outputs} arguments, one per output port");
            return Err(ConfigError::other(message));
        }
        let rules: Vec<(usize, String)> = patterns
            .into_iter()
            .map(|(index, text)| (index, format!("{index} {}", unquoted(text))))
            .collect();
        self.0.compile(given, &rules, version);
        for output in self.0.program().unused(outputs) {
            given.warn(format!("output {output} matches no packets"));
        }
        Ok(())
    }
}

impl Element for IPClassifier {
    arguments! { this, given;
        let patterns = rest "PATTERN": "expression, or '-'";
        then {
            this.read_patterns(patterns, given, Version::Four)?;
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(port, batch, context);
    }

    delegate!(reading 0);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn the_first_that_fits() {
        let mut bench = Bench::with_outputs("IPClassifier", &["tcp", "src 0.0.0.1", "-"], 3);
        for (source, protocol, output) in [(1, 6, 0), (1, 17, 1), (2, 17, 2)] {
            let mut bytes = ip_packet(source, 9, 3, b"");
            bytes[9] = protocol;
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet])[0].0, output);
        }
        let error = Bench::error("IPClassifier", &["tcp"]);
        assert_eq!(error, "need 4 arguments, one per output port");
    }
}
