//! The common code of all IPv4 look-up elements: routes, their handlers, and the look-up of a
//! batch.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use europa_engine::{
    Arguments, BATCH, Batch, ConfigError, Context, DROP, Element, HandlerError, Ipv4Prefix, Names,
    Packet, Value, arguments, handlers, parse,
};
use europa_lookup::{Dir24, NextHop, RouteTable};

use crate::shared::hops::{Hops, Way};

/// One route as it is written.
#[derive(Clone, Debug)]
struct Route {
    prefix: Ipv4Prefix,
    way: Way<u32>,
}

/// A table of IPv4 routes.
#[derive(Default)]
pub(crate) struct IpRoutes {
    table: Dir24,
    hops: Hops<u32>,
    drops: u64,
    batch: Addresses,
    /// Numbers of the routes in the order of their addition, if the table is shown in this order.
    order: Option<HashMap<europa_packet::Ipv4Prefix, u64>>,
    /// Routes that came so far.
    came: u64,
}

/// The keys and results of a batch. They are kept, because filling them with zeros for each batch
/// would cost half a nanosecond a packet.
struct Addresses {
    addresses: Vec<u32>,
    numbers: Vec<u16>,
    count: usize,
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses { addresses: vec![0; BATCH], numbers: vec![0; BATCH], count: 0 }
    }
}

/// Reads `ADDRESS/MASK` and a way.
fn route(text: &str, names: &Names) -> Option<Route> {
    let (prefix, way) = text.trim().split_once(char::is_whitespace)?;
    Some(Route { prefix: Ipv4Prefix::parse(prefix, names)?, way: Way::parse(way, names)? })
}

/// Reads the prefix at the beginning of `text`; the rest is ignored, and may be a route.
fn prefix(text: &str) -> Option<Ipv4Prefix> {
    Ipv4Prefix::parse(text.split_whitespace().next()?, &Names::default())
}

/// A prefix in the form that the table needs: without host bits.
fn key(prefix: Ipv4Prefix) -> Option<europa_packet::Ipv4Prefix> {
    europa_packet::Ipv4Prefix::new(prefix.network().into(), prefix.length).ok()
}

/// Changes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Add,
    Set,
    Remove,
}

impl IpRoutes {
    /// Makes `table` show routes in the order of their addition.
    pub(crate) fn keep_order(&mut self) {
        self.order.get_or_insert_default();
    }

    /// Adds or changes a route. Returns its former next hops.
    fn insert(&mut self, route: &Route) -> Result<Option<Way<u32>>, String> {
        let full = || "too many different next hops".to_owned();
        let prefix = key(route.prefix).ok_or("bad prefix")?;
        let number = self.hops.take(&route.way).ok_or_else(full)?;
        if let Some(order) = &mut self.order {
            self.came += 1;
            order.entry(prefix).or_insert(self.came);
        }
        match self.table.insert(prefix, number) {
            Ok(old) => Ok(old.and_then(|old| {
                let way = self.hops.way(old.get()).cloned();
                self.hops.release(old);
                way
            })),
            Err(error) => {
                self.hops.release(number);
                Err(error.to_string())
            }
        }
    }

    /// Removes a route. Returns its next hops.
    fn remove(&mut self, prefix: Ipv4Prefix) -> Option<Way<u32>> {
        let old = self.table.remove(key(prefix)?)?;
        if let Some(order) = &mut self.order {
            order.remove(&key(prefix)?);
        }
        let way = self.hops.way(old.get()).cloned();
        self.hops.release(old);
        way
    }

    /// Reads the routes from the arguments.
    fn add_all(&mut self, routes: Vec<(usize, &str)>, arguments: &mut Arguments<'_>) {
        let mut replaced = 0;
        for (index, text) in routes {
            let result = match route(text, arguments.names()) {
                None => Err("expected 'ADDRESS/MASK [GATEWAY] OUTPUT'".to_owned()),
                Some(route) if usize::from(route.way.largest_output()) >= arguments.outputs() => {
                    Err(format!("there is no output {}", route.way.largest_output()))
                }
                Some(route) => self.insert(&route),
            };
            match result {
                Ok(old) => replaced += usize::from(old.is_some()),
                Err(message) => {
                    arguments.error(ConfigError::at(index, format!("{message}, found '{text}'")));
                }
            }
        }
        if replaced > 0 {
            let routes = if replaced == 1 { "route" } else { "routes" };
            arguments.warn(format!("{replaced} {routes} replaced by later versions"));
        }
    }

    /// Sends each packet to the next hop of its route.
    pub(crate) fn push(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.begin();
        for packet in batch.iter() {
            self.note(packet);
        }
        self.finish(batch, context);
    }

    /// Prepares for a batch.
    pub(crate) fn begin(&mut self) {
        self.batch.count = 0;
    }

    /// Stores the destination address of a packet, and prefetches its table entry.
    #[inline(always)]
    pub(crate) fn note(&mut self, packet: &Packet) {
        let address = packet.dst_ip();
        if let Some(place) = self.batch.addresses.get_mut(self.batch.count) {
            *place = address;
            self.batch.count += 1;
        }
        self.table.prefetch(address);
    }

    /// Sends each packet of a batch to the next hop of its route, after all have been noted.
    #[inline(always)]
    pub(crate) fn finish(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let Addresses { addresses, numbers, count } = &mut self.batch;
        let (addresses, numbers) = (
            addresses.get(..*count).unwrap_or_default(),
            numbers.get_mut(..*count).unwrap_or_default(),
        );
        self.table.lookup_batch(addresses, numbers);
        let mut number = numbers.iter();
        let (hops, drops) = (&self.hops, &mut self.drops);
        context.forward_each(batch, |packet| {
            let number = number.next().copied().unwrap_or(0);
            let Some(hop) = hops.of(number, packet) else {
                *drops += 1;
                return DROP;
            };
            if hop.gateway != 0 {
                packet.set_dst_ip(hop.gateway);
            }
            hop.output
        });
    }

    /// The next hops of an address, as the handler `lookup` shows them.
    fn look_up(&self, address: Ipv4Addr) -> String {
        let number = self.table.lookup(address.into()).map_or(0, NextHop::get);
        self.hops.way(number).map_or_else(|| "-1".to_owned(), Way::answer)
    }

    /// Lines about the routes within a prefix, or about all.
    fn lines(&self, within: &str) -> Result<String, HandlerError> {
        let parameter = within;
        let within = if parameter.is_empty() { "0.0.0.0/0" } else { parameter };
        let wanted = || HandlerError::value("table", parameter, "ADDRESS/MASK");
        let within = prefix(within).and_then(key).ok_or_else(wanted)?;
        let inside = self.table.iter().filter(|(prefix, _)| {
            prefix.prefix_len() >= within.prefix_len() && within.contains(prefix.addr())
        });
        let line = |(prefix, number): (europa_packet::Ipv4Prefix, NextHop)| {
            let way = self.hops.way(number.get())?.show('\t');
            Some(format!("{}/{}\t{way}\n", prefix.addr(), prefix.prefix_len()))
        };
        let Some(order) = &self.order else { return Ok(inside.filter_map(line).collect()) };
        let mut routes: Vec<_> = inside.collect();
        routes.sort_by_key(|(prefix, _)| order.get(prefix).copied());
        Ok(routes.into_iter().filter_map(line).collect())
    }

    /// Makes one change; returns its inverse.
    fn change(
        &mut self,
        command: Command,
        text: &str,
        outputs: usize,
    ) -> Result<(Command, Route), HandlerError> {
        let wanted = "ADDRESS/MASK [GATEWAY] OUTPUT";
        let handler = match command {
            Command::Add => "add",
            Command::Set => "set",
            Command::Remove => "remove",
        };
        let other = |message: String| Err(HandlerError::Other(message));
        if command == Command::Remove {
            let prefix =
                prefix(text).ok_or_else(|| HandlerError::value(handler, text, "ADDRESS/MASK"))?;
            return match self.remove(prefix) {
                Some(way) => Ok((Command::Set, Route { prefix, way })),
                None => other(format!("route '{text}' not found")),
            };
        }
        let Some(route) = route(text, &Names::default()) else {
            return Err(HandlerError::value(handler, text, wanted));
        };
        if usize::from(route.way.largest_output()) >= outputs {
            return other(format!("there is no output {}", route.way.largest_output()));
        }
        let there = key(route.prefix).and_then(|prefix| Some((prefix, self.table.get(prefix)?)));
        if let Some((prefix, there)) = there.filter(|_| command == Command::Add) {
            let way = self.hops.way(there.get()).map_or_else(String::new, |way| way.show(' '));
            let route = format!("{}/{} {way}", prefix.addr(), prefix.prefix_len());
            return other(format!("conflict with existing route '{route}'"));
        }
        match self.insert(&route) {
            Ok(None) => Ok((Command::Remove, route)),
            Ok(Some(way)) => Ok((Command::Set, Route { way, ..route })),
            Err(message) => other(message),
        }
    }

    /// Sets and removes routes, a line each.
    fn load(&mut self, text: &str, outputs: usize) -> Result<(), HandlerError> {
        load(text, |line| {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "set" => self.change(Command::Set, rest, outputs).map(drop),
                "remove" => {
                    let prefix = prefix(rest).ok_or_else(|| bad_line(line))?;
                    self.remove(prefix);
                    Ok(())
                }
                _ => Err(bad_line(line)),
            }
        })
    }

    /// Removes all routes.
    fn flush(&mut self) {
        let order = self.order.is_some().then(HashMap::new);
        *self = IpRoutes { drops: self.drops, order, ..IpRoutes::default() };
    }

    /// Makes several changes; makes none of them if one is impossible.
    fn control(&mut self, text: &str, outputs: usize) -> Result<(), HandlerError> {
        let mut undo = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let command = match word {
                "add" => Ok(Command::Add),
                "set" => Ok(Command::Set),
                "remove" => Ok(Command::Remove),
                _ => Err(HandlerError::value("ctrl", line, "add, set or remove")),
            };
            match command.and_then(|command| self.change(command, rest, outputs)) {
                Ok(back) => undo.push(back),
                Err(error) => {
                    for (command, route) in undo.into_iter().rev() {
                        match command {
                            Command::Remove => drop(self.remove(route.prefix)),
                            // The route was there before, so the table has room for it.
                            _ => drop(self.insert(&route)),
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The arguments and handlers of elements with such a table.
impl Element for IpRoutes {
    arguments! { this, given;
        let routes = rest "ROUTE": "'ADDRESS/MASK [GATEWAY] OUTPUT'";
        then { this.add_all(routes, given); }
    }

    handlers! { this, context, value;
        read "lookup" [PARAMETER] => this.look_up(parse("lookup", value)?);
        read "table" [EXPENSIVE] => this.lines(value)?;
        read "count" => this.table.len();
        read "drops" => this.drops;
        write "add" => this.change(Command::Add, value, context.outputs()).map(drop)?;
        write "set" => this.change(Command::Set, value, context.outputs()).map(drop)?;
        write "remove" => this.change(Command::Remove, value, context.outputs()).map(drop)?;
        write "ctrl" => this.control(value, context.outputs())?;
        write "load" => this.load(value, context.outputs())?;
        button "flush" => this.flush();
    }
}

/// A line of `load` that is none.
pub(crate) fn bad_line(line: &str) -> HandlerError {
    HandlerError::value("load", line, "set or remove")
}

/// Carries out each valid line of a text; returns the errors of the other lines.
pub(crate) fn load(
    text: &str,
    mut change: impl FnMut(&str) -> Result<(), HandlerError>,
) -> Result<(), HandlerError> {
    let (mut failed, mut first) = (0, None);
    for line in text.lines() {
        if let Err(error) = change(line) {
            failed += 1;
            first.get_or_insert(error);
        }
    }
    match first {
        None => Ok(()),
        Some(error) => {
            Err(HandlerError::Other(format!("{failed} lines not done, the first: {error}")))
        }
    }
}

#[cfg(test)]
mod tests;
