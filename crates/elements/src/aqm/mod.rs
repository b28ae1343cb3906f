//! Active queue management.

pub(crate) mod adaptive_red;
pub(crate) mod codel;
pub(crate) mod red;

use europa_engine::{Arguments, ConfigError, Context, InitContext};

/// Queues whose lengths an element watches.
#[derive(Default)]
struct Watched {
    /// Names from the QUEUES argument; empty if the element finds them itself.
    wanted: Vec<String>,
    queues: Vec<usize>,
}

impl Watched {
    fn read(name: &'static str, given: &mut Arguments<'_>) -> Result<Watched, ConfigError> {
        let names: String = given.keyword(name)?.unwrap_or_default();
        let wanted = names.split_whitespace().map(str::to_owned).collect();
        Ok(Watched { wanted, queues: Vec::new() })
    }

    /// Looks for the queues by name, or for the nearest.
    fn find(&mut self, downstream: bool, init: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let me = init.index();
        self.queues.clear();
        for name in &self.wanted {
            let found = init.find(name);
            let found =
                found.ok_or_else(|| ConfigError::other(format!("no element named '{name}'")))?;
            if init.element(found).and_then(|element| element.held()).is_none() {
                return Err(ConfigError::other(format!("'{name}' is not a queue")));
            }
            self.queues.push(found);
        }
        if self.wanted.is_empty() {
            self.queues = init.with_context(|context| nearest(me, downstream, context));
        }
        if self.queues.is_empty() { Err(ConfigError::other("no nearby Queues")) } else { Ok(()) }
    }

    /// Packets in all of them.
    fn length(&self, context: &mut Context<'_>) -> usize {
        let held = |queue: &usize| context.element(*queue).and_then(|element| element.held());
        self.queues.iter().filter_map(held).sum()
    }

    /// Their names, a line each.
    fn names(&self, context: &Context<'_>) -> String {
        let names = self.queues.iter().filter_map(|queue| context.names().get(*queue));
        names.map(|name| format!("{name}\n")).collect()
    }
}

/// The first elements that hold packets on every way from `me`.
fn nearest(me: usize, downstream: bool, context: &mut Context<'_>) -> Vec<usize> {
    let (mut seen, mut ahead, mut found) = (vec![me], vec![me], Vec::new());
    while let Some(at) = ahead.pop() {
        let neighbours = match downstream {
            true => context.targets(at, (at == me).then_some(0)),
            false => context.sources(at, None),
        };
        for next in neighbours {
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            match context.element(next).and_then(|element| element.held()) {
                Some(_) => found.push(next),
                None => ahead.push(next),
            }
        }
    }
    found
}
