//! Ways of routes as texts for the fast path, with the present links.

use std::collections::HashMap;

use super::Fib;
use super::objects::resolve;
use crate::links::{Known, Links};
use crate::message::{Address, Gateway, Hop, Object, Way};

/// The next hops of a route with the present links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// No next hop: the next route applies.
    None,
    /// Number of its text.
    Text(u32),
    /// Linux puts a header in front.
    Encapsulated,
}

impl<A: Address> Fib<A> {
    /// Computes the next hops of routes that are new since the last time.
    pub(super) fn learn_ways(&mut self, links: &Links, objects: &HashMap<u32, Object>) {
        for number in self.meanings.len()..self.ways.len() {
            let meaning = match self.ways.value(number as u32) {
                None | Some(Way::Host) => Meaning::Text(self.host),
                Some(Way::Encapsulated) => Meaning::Encapsulated,
                Some(Way::Discard) => self.discard(),
                Some(Way::Hops(hops)) => self.hops_text(&hops.clone(), links),
                Some(Way::Object(id)) => match resolve(*id, objects) {
                    None => Meaning::Text(self.host),
                    Some(Way::Encapsulated) => Meaning::Encapsulated,
                    Some(Way::Discard) => self.discard(),
                    Some(Way::Hops(hops)) => self.hops_text(&hops, links),
                    Some(_) => Meaning::Text(self.host),
                },
            };
            self.meanings.push(meaning);
        }
    }

    fn discard(&mut self) -> Meaning {
        Meaning::Text(self.texts.number(format!("- {}", self.outputs.discard)))
    }

    fn hops_text(&mut self, hops: &[Hop<A>], links: &Links) -> Meaning {
        use std::fmt::Write as _;
        let usable = |hop: &&Hop<A>| links.get(hop.device).is_some_and(Known::is_running);
        let several = hops.iter().filter(usable).count() > 1;
        let mut text = String::new();
        for hop in hops.iter().filter(usable) {
            let Some(link) = links.get(hop.device) else { continue };
            // A device that the fast path does not have: Linux forwards.
            let Some(output) = link.output else { return Meaning::Text(self.host) };
            if !text.is_empty() {
                text += " | ";
            }
            match hop.gateway {
                Gateway::Own(gateway) => gateway.write(&mut text),
                Gateway::None => text.push('-'),
                Gateway::V6(router) => match self.aliases.of(router) {
                    Some(alias) => alias.write(&mut text),
                    None => return Meaning::Text(self.host),
                },
            }
            let _ = write!(text, " {output}");
            if several && hop.weight > 1 {
                let _ = write!(text, " *{}", hop.weight);
            }
        }
        if text.is_empty() { Meaning::None } else { Meaning::Text(self.texts.number(text)) }
    }
}
