//! # StaticThreadSched
//!
//! ## Synopsis
//! `StaticThreadSched(ELEMENT THREAD, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! In Click it assigns the tasks of elements to threads. A router of Europa runs all its tasks on
//! one thread, so this changes neither their order nor their share; `home_thread` of an element
//! shows the thread.
//!
//! ## Arguments
//! - ELEMENT THREAD: an element or a compound element, and the number of a thread. `NODE/THREAD`
//!   names a thread of a memory node; only the thread is used. -1 leaves the task where it is.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `BalancedThreadSched`, `ScheduleInfo`

use europa_engine::Phase;

use super::elements_of;
use crate::control::script::shift_word;
use crate::prelude::*;

/// Gives tasks to threads.
#[derive(Default)]
pub(crate) struct StaticThreadSched {
    wanted: Vec<(usize, String, i32)>,
}

impl Class for StaticThreadSched {
    const INFO: ClassInfo = ClassInfo::new("StaticThreadSched", "0/0").phase(Phase::Last);
}

impl Element for StaticThreadSched {
    arguments! { this, given;
        let texts = rest "ELEMENT": "'ELEMENT THREAD'";
        then {
            for (index, argument) in texts {
                let mut rest = argument;
                let name = shift_word(&mut rest);
                if name.is_empty() {
                    continue;
                }
                let thread = rest.rsplit_once('/').map_or(rest, |(_, thread)| thread);
                match given.value::<i32>("THREAD", index, thread.trim()) {
                    Ok(thread) if thread >= -1 => {
                        this.wanted.push((index, name.to_owned(), thread));
                    }
                    _ => given.error(ConfigError::at(index, "expected 'ELEMENT THREAD'")),
                }
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (index, name, thread) in &self.wanted {
            let elements = elements_of(name, context);
            if elements.is_empty() {
                return Err(ConfigError::at(*index, format!("no element named '{name}'")));
            }
            if let Ok(thread) = u32::try_from(*thread) {
                for element in elements {
                    context.set_home_thread(element, thread);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::{Bench, run};

    #[test]
    fn tasks_have_their_thread() {
        let mut graph = Graph::default();
        graph.add("t", "StaticThreadSched", &["a 3", "c 0/2", "b -1"]);
        for name in ["a", "c/x", "b"] {
            let source = graph.add(name, "InfiniteSource", &["LIMIT 1"]);
            let sink = graph.add(&format!("{name}s"), "Discard", &[]);
            graph.connect(source, 0, sink, 0);
        }
        let mut router = run(graph);
        for (name, thread) in [("a", "3"), ("c/x", "2"), ("b", "0")] {
            let found = router.read(&format!("{name}.home_thread"), "");
            assert_eq!(found, Ok(thread.into()), "{name}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Bench::error("StaticThreadSched", &["a"]), "expected 'ELEMENT THREAD'");
        assert_eq!(Bench::error("StaticThreadSched", &["a -2"]), "expected 'ELEMENT THREAD'");
        assert_eq!(Bench::error("StaticThreadSched", &["a 1"]), "no element named 'a'");
    }
}
