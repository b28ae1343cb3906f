//! Orders for the fast path, and its answers.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use europa_router::orders::{Answer, Order};

use super::{Asked, BATCH, Learns, Mirror, MirrorError, ROUTES, ROUTES6, WINDOW, decide, forward};

impl Mirror {
    /// Sends as many orders as there is room for.
    pub(super) fn tell(&mut self) -> Result<(), MirrorError> {
        if self.is_policy_dirty {
            self.tell_policy()?;
        }
        while self.under_way.len() < WINDOW {
            if self.ready.is_empty() && self.learns == Learns::NOTHING {
                self.compose();
                if self.ready.is_empty() && self.may_open() {
                    self.open()?;
                }
            }
            let Some(order) = self.ready.pop_front() else { break };
            let asked = match &order {
                Order::Read { path, parameter } if path == ROUTES || path == ROUTES6 => {
                    parameter.parse().map_or(Asked::Changes(0), Asked::Routes)
                }
                Order::Read { path, parameter } if path.ends_with(".table") => {
                    Asked::Neighbours(parameter.parse().unwrap_or(0))
                }
                Order::Read { path, .. }
                    if path.ends_with(".reasons") || path == decide::POLICED =>
                {
                    Asked::Reasons(path.clone())
                }
                Order::Read { parameter, .. } => Asked::Used(parameter.parse().unwrap_or(0)),
                Order::Write { value, .. } => Asked::Changes(value.lines().count() as u64),
                _ => Asked::Changes(0),
            };
            self.feed.send(&order, &[])?;
            self.under_way.push_back(asked);
        }
        Ok(())
    }

    /// Makes orders of the changes.
    fn compose(&mut self) {
        let write = |path: String, value| Order::Write { path, value };
        if self.neighbours.is_dirty() {
            let mut texts = HashMap::new();
            self.neighbours.tell(BATCH, &self.links, self.fib4.aliases(), &mut texts);
            for ((interface, is_v4), text) in texts {
                self.ready.push_back(write(format!("{}.load", forward(interface, is_v4)), text));
            }
        }
        let mut text = String::with_capacity(BATCH * 32);
        if self.fib4.is_dirty() {
            self.fib4.tell(BATCH, &self.links, &self.objects, &mut text);
            for router in self.fib4.aliases().take_fresh() {
                self.neighbours.alias(router);
            }
            if !text.is_empty() {
                self.ready.push_back(write("route.load".into(), std::mem::take(&mut text)));
            }
        }
        if self.fib6.is_dirty() {
            self.fib6.tell(BATCH, &self.links, &self.objects, &mut text);
            if !text.is_empty() {
                self.ready.push_back(write("route6.load".into(), text));
            }
        }
        let encapsulates = [self.fib4.encapsulates(), self.fib6.encapsulates()];
        let known = std::mem::replace(&mut self.policy.encapsulates, encapsulates);
        self.is_policy_dirty |= known != encapsulates;
    }

    pub(super) fn take_answers(&mut self) -> Result<(), MirrorError> {
        while let Some((answer, _)) = self.feed.try_receive()? {
            match (self.under_way.pop_front(), answer) {
                (Some(Asked::Changes(count)), Answer::Done(_)) => {
                    self.progress.told.fetch_add(count, Ordering::Relaxed);
                }
                (Some(Asked::Changes(count)), Answer::Refused(why)) => {
                    self.progress.refused.fetch_add(count, Ordering::Relaxed);
                    tracing::warn!("router {}: routes: {why}", self.spec.router);
                }
                (Some(Asked::Used(device)), Answer::Done(used)) => self.keep_fresh(device, &used),
                (Some(Asked::Policy { is_closed }), answer) => self.policy_told(is_closed, answer),
                (Some(Asked::Reasons(path)), Answer::Done(text)) => self.counted(path, &text),
                (Some(Asked::Routes(within)), answer) => self.learn_routes(within, answer),
                (Some(Asked::Neighbours(device)), answer) => {
                    if let Answer::Done(text) = answer {
                        let words = text.lines().filter_map(|line| line.split_whitespace().next());
                        for address in words.filter_map(|word| word.parse().ok()) {
                            self.neighbours.learn(device, address);
                        }
                    }
                    self.learnt();
                }
                (_, answer) => tracing::debug!("router {}: {answer:?}", self.spec.router),
            }
        }
        Ok(())
    }
}
