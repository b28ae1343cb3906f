//! # NotifierDebug
//!
//! ## Synopsis
//! `NotifierDebug`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Passes packets unchanged, and reports which elements signal to it that they have packets, or on
//! a push path that they have room.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `signal` (read): as Click shows signals: `empty.W/M:A` for packets and `full.W/M:A` for room.
//!   The elements that report are numbered from 0 in groups of 32. In group W, M has a bit for each
//!   of them, and A has a bit for each that reports packets or room. An asterisk follows if A has
//!   any bit set. Groups are joined by `+`.
//!
//! ## See also
//! `Queue`, `NotifierQueue`, `Unqueue`

use std::collections::BTreeMap;

use crate::prelude::*;

/// Reports signals.
#[derive(Default)]
pub(crate) struct NotifierDebug {
    signal: Signal,
    pull: bool,
}

impl Class for NotifierDebug {
    const INFO: ClassInfo = ClassInfo::new("NotifierDebug", "1/1");
}

impl NotifierDebug {
    fn show(&self, context: &mut Context<'_>) -> String {
        if self.signal.is_constant() {
            return "always*".to_owned();
        }
        let pull = self.pull;
        let tells = |notifies: Notifies| if pull { notifies.packets } else { notifies.room };
        let known: Vec<usize> = (0..context.names().len())
            .filter(|index| context.element(*index).is_some_and(|e| tells(e.notifies())))
            .collect();
        let mut groups: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for (element, port) in self.signal.asked() {
            let Some(number) = known.iter().position(|index| *index == element) else { continue };
            let active = context.with_element(element, |element, context| match pull {
                true => element.has_packets(port, context),
                false => element.has_room(port, context),
            });
            let (mask, value) = groups.entry(number / 32).or_default();
            *mask |= 1 << (number % 32);
            *value |= u32::from(active == Some(true)) << (number % 32);
        }
        let name = if pull { "empty" } else { "full" };
        let shown = groups.iter().map(|(group, (mask, value))| {
            let active = if *value == 0 { "" } else { "*" };
            format!("{name}.{group}/{mask:x}:{value:x}{active}")
        });
        shown.collect::<Vec<_>>().join("+")
    }
}

impl Element for NotifierDebug {
    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.pull = context.is_pull(0);
        self.signal = if self.pull { context.upstream(0) } else { context.downstream(0) };
        Ok(())
    }

    handlers! { this, context, value; read "signal" => this.show(context); }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::Bench;

    #[test]
    fn signals_are_shown() {
        let mut graph = Graph::default();
        let source = graph.add("i", "InfiniteSource", &["x", "LIMIT 3"]);
        let [before, behind] = ["d1", "d2"].map(|name| graph.add(name, "NotifierDebug", &[]));
        let queue = graph.add("q", "Queue", &["2"]);
        let sink = graph.add("u", "Unqueue", &["ACTIVE false"]);
        let discard = graph.add("d", "Discard", &[]);
        let chain = [source, before, queue, behind, sink, discard];
        for pair in chain.windows(2) {
            graph.connect(pair[0], 0, pair[1], 0);
        }
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        assert_eq!(router.read("d1.signal", ""), Ok("full.0/1:1*".into()));
        assert_eq!(router.read("d2.signal", ""), Ok("empty.0/2:0".into()));
        for _ in 0..4 {
            router.run_once(0, &mut NoDevices);
        }
        assert_eq!(router.read("d1.signal", ""), Ok("full.0/1:0".into()));
        assert_eq!(router.read("d2.signal", ""), Ok("empty.0/2:2*".into()));
    }
}
