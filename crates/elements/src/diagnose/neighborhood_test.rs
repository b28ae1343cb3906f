//! # NeighborhoodTest
//!
//! ## Synopsis
//! `NeighborhoodTest`
//!
//! ## Ports
//! Any number of inputs and outputs, push or pull.
//!
//! ## Description
//! Shows which elements are connected to it. It drops the packets that come.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `upstream`, `downstream` (read with a number): names of the elements at most this many hops
//!   away (default 1), a line each, nearest first.
//! - `upstream0`, `upstream1` ..., `downstream0` ... (read with a number): the same from one port.
//!
//! ## See also
//! `TimerTest`

use crate::prelude::*;

/// Lists its neighbours.
#[derive(Default)]
pub(crate) struct NeighborhoodTest {
    inputs: usize,
    outputs: usize,
}

impl Class for NeighborhoodTest {
    const INFO: ClassInfo = ClassInfo::new("NeighborhoodTest", "-/-");
}

/// Whether a handler's name means upstream, and from which port.
fn direction(handler: &str) -> Option<(bool, Option<usize>)> {
    let (up, rest) = match handler.strip_prefix("upstream") {
        Some(rest) => (true, rest),
        None => (false, handler.strip_prefix("downstream")?),
    };
    if rest.is_empty() { Some((up, None)) } else { Some((up, Some(rest.parse().ok()?))) }
}

impl Element for NeighborhoodTest {
    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        (self.inputs, self.outputs) = (context.inputs(), context.outputs());
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        batch.clear();
    }

    fn pull(&mut self, _: usize, _: usize, _: &mut Batch, _: &mut Context<'_>) {}

    fn dynamic_handler(&self, name: &str) -> Option<Flags> {
        let (up, port) = direction(name)?;
        let ports = if up { self.inputs } else { self.outputs };
        let known = port.is_none_or(|port| port < ports);
        known.then_some(Flags::READ.with(Flags::PARAMETER))
    }

    fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let not_found = || HandlerError::NotFound(handler.to_owned());
        let (up, port) = direction(handler).ok_or_else(not_found)?;
        let hops = match parameter.trim() {
            "" => 1,
            text => parse::<usize>(handler, text)?,
        };
        let beyond = |index, port, context: &Context<'_>| match up {
            true => context.sources(index, port),
            false => context.targets(index, port),
        };
        let mut found: Vec<usize> = Vec::new();
        let mut edge = vec![context.index()];
        for hop in 0..hops {
            let port = port.filter(|_| hop == 0);
            let next = edge.iter().flat_map(|index| beyond(*index, port, context));
            let next: Vec<usize> = next.collect();
            edge.clear();
            for index in next {
                if !found.contains(&index) {
                    found.push(index);
                    edge.push(index);
                }
            }
            if edge.is_empty() {
                break;
            }
        }
        let names = found.iter().filter_map(|index| context.names().get(*index));
        Ok(names.map(|name| format!("{name}\n")).collect())
    }
}
