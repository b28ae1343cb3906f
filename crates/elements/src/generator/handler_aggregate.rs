//! # HandlerAggregate
//!
//! ## Synopsis
//! `HandlerAggregate(ELEMENT name, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Reads and writes a handler of several elements at once.
//!
//! ## Arguments
//! - ELEMENT (keyword, may be repeated): an element.
//!
//! ## Handlers
//! - `add` (read with parameter): sum of the values of the handler named by the parameter.
//! - `avg` (read with parameter): the same, divided by the number of elements.
//! - `write` (write): `HANDLER [VALUE]`, which is written to each element.
//!
//! ## See also
//! `Script`, `AverageCounter`

use crate::control::script::shift_word;
use crate::prelude::*;

/// Works on a handler of several elements.
#[derive(Default)]
pub(crate) struct HandlerAggregate {
    names: Vec<(usize, String)>,
    elements: Vec<String>,
}

impl Class for HandlerAggregate {
    const INFO: ClassInfo = ClassInfo::new("HandlerAggregate", "0/0");
}

impl HandlerAggregate {
    /// The sum of a handler's values; a value that is no number counts as 0.
    fn sum(&self, call: &str, context: &mut Context<'_>) -> Result<f64, HandlerError> {
        let mut parameter = call;
        let handler = shift_word(&mut parameter);
        let mut sum = 0.0;
        for element in &self.elements {
            let answer = context.read_handler(&format!("{element}.{handler}"), parameter)?;
            sum += answer.trim().parse::<f64>().unwrap_or(0.0);
        }
        Ok(sum)
    }
}

impl Element for HandlerAggregate {
    arguments! { this, given;
        let names = rest "ELEMENT": "'ELEMENT NAME'";
        then {
            for (index, argument) in names {
                let mut name = argument;
                if shift_word(&mut name) == "ELEMENT" && !name.is_empty() {
                    this.names.push((index, name.to_owned()));
                } else {
                    given.error(ConfigError::at(index, "expected 'ELEMENT NAME'"));
                }
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (index, name) in &self.names {
            let found = context.find(name).and_then(|at| context.names().get(at).cloned());
            let missing = || ConfigError::at(*index, format!("no element named '{name}'"));
            self.elements.push(found.ok_or_else(missing)?);
        }
        Ok(())
    }

    handlers! { this, context, value;
        read "add" [PARAMETER] => this.sum(value, context)?;
        read "avg" [PARAMETER] => {
            this.sum(value, context)? / this.elements.len().max(1) as f64
        };
        write "write" => {
            let mut rest = value;
            let handler = shift_word(&mut rest);
            for element in &this.elements {
                context.write_handler(&format!("{element}.{handler}"), rest)?;
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::{Bench, run};

    #[test]
    fn handlers_are_added() {
        let mut graph = Graph::default();
        for (name, limit) in [("a", "LIMIT 3"), ("b", "LIMIT 4")] {
            let source = graph.add(&format!("{name}s"), "InfiniteSource", &[limit]);
            let counter = graph.add(name, "Counter", &[]);
            let sink = graph.add(&format!("{name}d"), "Discard", &[]);
            graph.connect(source, 0, counter, 0);
            graph.connect(counter, 0, sink, 0);
        }
        graph.add("h", "HandlerAggregate", &["ELEMENT a", "ELEMENT b"]);
        let mut router = run(graph);
        assert_eq!(router.read("h.add", "count"), Ok("7".into()));
        assert_eq!(router.read("h.avg", "count"), Ok("3.5".into()));
        router.write("h.write", "reset").unwrap();
        assert_eq!(router.read("h.add", "count"), Ok("0".into()));
        assert!(router.read("h.add", "nothing").is_err());
        assert_eq!(Bench::error("HandlerAggregate", &["a"]), "expected 'ELEMENT NAME'");
        assert_eq!(Bench::error("HandlerAggregate", &["ELEMENT x"]), "no element named 'x'");
    }
}
