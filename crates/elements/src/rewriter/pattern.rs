//! The treatment of new flows: patterns of addresses and ports, and specifications of inputs.

use std::net::Ipv4Addr;

use europa_engine::{Ipv4Prefix, Names, Value};

use super::flows::{FlowId, Space, Table};
use crate::shared::random::Random;

/// New addresses and ports; 0 keeps those of the flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    source: u32,
    source_port: u16,
    destination: u32,
    destination_port: u16,
    /// Number of further sources, or of source ports if there are ports.
    variation: u32,
    ports: bool,
    /// Whether values are used in sequence, not at random.
    sequential: bool,
    /// Keep the port that a flow has, if it is free.
    same_first: bool,
    next: u32,
    random: Random,
}

/// A word that may end in `#` (in sequence) or `?` (at random).
fn order<'a>(word: &'a str, pattern: &mut Pattern) -> &'a str {
    if let Some(rest) = word.strip_suffix('#') {
        (pattern.sequential, pattern.same_first) = (true, false);
        return rest;
    }
    match word.strip_suffix('?') {
        Some(rest) => {
            pattern.same_first = false;
            rest
        }
        None => word,
    }
}

fn source(word: &str, pattern: &mut Pattern, names: &Names) -> Option<()> {
    if word == "-" {
        return Some(());
    }
    if let Some(address) = Ipv4Addr::parse(word, names) {
        pattern.source = address.into();
        return Some(());
    }
    let word = order(word, pattern);
    if let Some((first, last)) = word.split_once('-') {
        pattern.source = Ipv4Addr::parse(first, names)?.into();
        pattern.variation = u32::from(Ipv4Addr::parse(last, names)?).checked_sub(pattern.source)?;
        return Some(());
    }
    let prefix = Ipv4Prefix::parse(word, names).filter(|prefix| prefix.length > 0)?;
    (pattern.source, pattern.variation) = match prefix.length {
        32 => (prefix.address.into(), 0),
        31 => (prefix.network(), 1),
        // The network's own address and its broadcast address are excluded.
        _ => (prefix.network() + 1, !prefix.mask() - 2),
    };
    Some(())
}

fn source_port(word: &str, pattern: &mut Pattern) -> Option<()> {
    if word == "-" {
        return Some(());
    }
    let word = order(word, pattern);
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    pattern.source_port = first.parse().ok()?;
    let last: u16 = last.parse().ok()?;
    pattern.variation = last.checked_sub(pattern.source_port)?.into();
    (pattern.source_port > 0 || pattern.variation > 0).then_some(())
}

impl Pattern {
    /// `SADDR DADDR`, `SADDR DADDR SPORT`, `SADDR SPORT DADDR DPORT` or the name of one.
    pub(crate) fn parse(words: &[&str], names: &Names) -> Result<Pattern, String> {
        let (addresses, ports) = match *words {
            [name] => {
                let missing = || format!("no such pattern '{name}'");
                let text = names.text("pattern", name).ok_or_else(missing)?;
                let words: Vec<&str> = text.split_whitespace().collect();
                // A name may not stand for another name: that could form a cycle.
                let found = words.len() > 1;
                return if found { Pattern::parse(&words, names) } else { Err(missing()) };
            }
            [source, destination] => ((source, destination), None),
            [source, destination, port] => ((source, destination), Some((port, "-"))),
            [source, sport, destination, dport] => ((source, destination), Some((sport, dport))),
            _ => return Err("syntax error".to_owned()),
        };
        let mut pattern =
            Pattern { same_first: true, ports: ports.is_some(), ..Pattern::default() };
        source(addresses.0, &mut pattern, names).ok_or("bad source address")?;
        if let Some((sport, _)) = ports {
            source_port(sport, &mut pattern).ok_or("bad source port")?;
        }
        if addresses.1 != "-" {
            let address = Ipv4Addr::parse(addresses.1, names).ok_or("bad destination address")?;
            pattern.destination = address.into();
        }
        if let Some((_, dport)) = ports.filter(|(_, dport)| *dport != "-") {
            let port = dport.parse().ok().filter(|port| *port > 0);
            pattern.destination_port = port.ok_or("bad destination port")?;
        }
        Ok(pattern)
    }

    /// The mapping of a new flow: `None` if all mappings are in use.
    pub(crate) fn rewrite(
        &mut self,
        id: FlowId,
        table: &Table,
        space: Space,
        ping: bool,
    ) -> Option<FlowId> {
        let choose = |new: u32, old: u32| if new == 0 { old } else { new };
        let mut new = FlowId {
            source: choose(self.source, id.source),
            source_port: choose(self.source_port.into(), id.source_port.into()) as u16,
            destination: choose(self.destination, id.destination),
            destination_port: choose(self.destination_port.into(), id.destination_port.into())
                as u16,
        };
        // The second port of a ping follows from the first: it is the next number.
        let finish = |mut new: FlowId| {
            if ping {
                new.destination_port = new.source_port.wrapping_add(1);
            }
            new
        };
        if self.variation == 0 {
            return Some(finish(new));
        }
        let is_free = |new: FlowId| table.find(space, finish(new).reverse()).is_none();
        if self.same_first && self.ports {
            let same = FlowId { source_port: id.source_port, ..new };
            let within = u32::from(id.source_port).checked_sub(self.source_port.into());
            if within.is_some_and(|within| within <= self.variation) && is_free(same) {
                return Some(finish(same));
            }
        }
        let top = self.variation;
        let mut value = match self.sequential {
            true if self.next > top => 0,
            true => self.next,
            false => self.random.below(top.saturating_add(1)),
        };
        for _ in 0..=top {
            match self.ports {
                true => new.source_port = self.source_port.wrapping_add(value as u16),
                false => new.source = self.source.wrapping_add(value),
            }
            if is_free(new) {
                self.next = value.wrapping_add(1);
                return Some(finish(new));
            }
            value = if value == top { 0 } else { value + 1 };
        }
        None
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = |address: u32| match address {
            0 => "-".to_owned(),
            address => Ipv4Addr::from(address).to_string(),
        };
        let mut words = vec![address(self.source)];
        if !self.ports && self.variation > 0 {
            let last = address(self.source.wrapping_add(self.variation));
            words = vec![format!("{}-{last}", address(self.source))];
        }
        if self.ports {
            words.push(match (self.source_port, self.variation) {
                (0, 0) => "-".to_owned(),
                (port, 0) => port.to_string(),
                (port, more) => format!("{port}-{}", u32::from(port) + more),
            });
        }
        words.push(address(self.destination));
        if self.ports {
            words.push(match self.destination_port {
                0 => "-".to_owned(),
                port => port.to_string(),
            });
        }
        f.write_str(&words.join(" "))
    }
}

/// The treatment of new flows at an input.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Drop,
    /// Packets leave unchanged.
    Pass(usize),
    /// Packets make a flow that changes nothing.
    Keep([usize; 2]),
    Pattern(Box<Pattern>, [usize; 2]),
    /// Another element decides: its name, and its number once all elements exist.
    Mapper(String, Option<usize>),
}

/// The outputs for both directions, from the last two words.
pub(crate) fn outputs(words: &[&str], count: usize) -> Result<[usize; 2], String> {
    let [forth, reply] = words else { return Err("syntax error".to_owned()) };
    let read =
        |word: &str, what: &str| word.parse::<usize>().map_err(|_| format!("bad {what} port"));
    let both = [read(forth, "forward")?, read(reply, "reply")?];
    match both.iter().all(|output| *output < count) {
        true => Ok(both),
        false => Err("output port out of range".to_owned()),
    }
}

/// A pattern and two outputs.
pub(crate) fn with_outputs(
    words: &[&str],
    count: usize,
    names: &Names,
) -> Result<(Pattern, [usize; 2]), String> {
    let split = words.len().checked_sub(2).filter(|split| *split > 0).ok_or("syntax error")?;
    let (pattern, ports) = words.split_at(split);
    Ok((Pattern::parse(pattern, names)?, outputs(ports, count)?))
}

impl Spec {
    /// Parses an argument of an element with `count` outputs.
    pub(crate) fn parse(text: &str, count: usize, names: &Names) -> Result<Spec, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (Some(word), rest) = (words.first(), words.get(1..).unwrap_or_default()) else {
            return Err("empty argument".to_owned());
        };
        match (*word, rest) {
            ("drop" | "discard", []) => Ok(Spec::Drop),
            ("drop" | "discard", _) => Err(format!("syntax error, expected '{word}'")),
            ("pass" | "passthrough" | "nochange", []) => Ok(Spec::Pass(0)),
            ("pass" | "passthrough" | "nochange", [output]) => match output.parse() {
                Ok(output) if output < count => Ok(Spec::Pass(output)),
                Ok(_) => Err("output port out of range".to_owned()),
                Err(_) => Err("syntax error, expected 'nochange [OUTPUT]'".to_owned()),
            },
            ("keep", ports) => outputs(ports, count).map(Spec::Keep),
            ("pattern" | "xpattern", rest) => with_outputs(rest, count, names)
                .map(|(pattern, ports)| Spec::Pattern(Box::new(pattern), ports)),
            (name, []) if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                Ok(Spec::Mapper(name.to_owned(), None))
            }
            _ => Err("unknown specification".to_owned()),
        }
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spec::Drop => f.write_str("<drop>"),
            Spec::Pass(_) => f.write_str("<nochange>"),
            Spec::Keep(_) => f.write_str("<keep>"),
            Spec::Pattern(pattern, _) => pattern.fmt(f),
            Spec::Mapper(..) => f.write_str("<mapper>"),
        }
    }
}
