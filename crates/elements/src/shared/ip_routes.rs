//! The common code of all IPv4 look-up elements: routes, their handlers, and the look-up of a
//! batch.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use europa_engine::{
    Arguments, BATCH, Batch, ConfigError, Context, DROP, Flags, Handler, HandlerError, Ipv4Prefix,
    Names, Packet, Value, parse,
};
use europa_lookup::{Dir24, NextHop, RouteTable};

use crate::shared::hops::{Hops, Way};

/// Handlers of a table that does not change.
pub(crate) const FIXED: &[Handler] = &[
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("table").with(Flags::EXPENSIVE),
    Handler::read("count"),
    Handler::read("drops"),
];

/// Handlers of a table that can be changed.
pub(crate) const CHANGEABLE: &[Handler] = &[
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("table").with(Flags::EXPENSIVE),
    Handler::read("count"),
    Handler::read("drops"),
    Handler::write("add"),
    Handler::write("set"),
    Handler::write("remove"),
    Handler::write("ctrl"),
    Handler::write("load"),
    Handler::button("flush"),
];

/// One route in its written form.
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
    /// Numbers of the routes in the order of their insertion, if the table is shown in it.
    order: Option<HashMap<europa_packet::Ipv4Prefix, u64>>,
    /// Routes added so far.
    came: u64,
}

/// The keys and results of a batch. Kept, as filling it with zeros for each batch would cost half a
/// nanosecond a packet.
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

/// Reads `ADDRESS/MASK` and the next hops.
fn route(text: &str, names: &Names) -> Option<Route> {
    let (prefix, way) = text.trim().split_once(char::is_whitespace)?;
    Some(Route { prefix: Ipv4Prefix::parse(prefix, names)?, way: Way::parse(way, names)? })
}

/// Reads the prefix at the beginning; ignores the rest, which may be a route.
fn prefix(text: &str) -> Option<Ipv4Prefix> {
    Ipv4Prefix::parse(text.split_whitespace().next()?, &Names::default())
}

/// A prefix in the form of the table: no bits after the mask.
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
    /// Shows the table in the order of insertion.
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

    /// Removes a route. Returns where it led.
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
    pub(crate) fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let mut replaced = 0;
        for (index, text) in arguments.rest() {
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
        arguments.finish()
    }

    /// Sends each packet where its route leads.
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

    /// Notes the address that a packet asks for, and has its entry fetched.
    #[inline(always)]
    pub(crate) fn note(&mut self, packet: &Packet) {
        let address = packet.dst_ip();
        if let Some(place) = self.batch.addresses.get_mut(self.batch.count) {
            *place = address;
            self.batch.count += 1;
        }
        self.table.prefetch(address);
    }

    /// Sends each packet of a batch, all of them noted, where its route leads.
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

    /// The read handlers.
    pub(crate) fn read(&self, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        match handler {
            "lookup" => {
                let address: Ipv4Addr = parse(handler, parameter)?;
                let number = self.table.lookup(address.into()).map_or(0, NextHop::get);
                Ok(self.hops.way(number).map_or_else(|| "-1".to_owned(), Way::answer))
            }
            "table" => {
                let within = match parameter {
                    "" => "0.0.0.0/0",
                    within => within,
                };
                let wanted = || HandlerError::value(handler, parameter, "ADDRESS/MASK");
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
            "count" => Ok(self.table.len().to_string()),
            _ => Ok(self.drops.to_string()),
        }
    }

    /// Makes one change. Returns its inverse.
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

    /// The write handlers. `outputs` is how many the element has.
    pub(crate) fn write(
        &mut self,
        handler: &str,
        value: &str,
        outputs: usize,
    ) -> Result<(), HandlerError> {
        match handler {
            "add" => self.change(Command::Add, value, outputs).map(drop),
            "set" => self.change(Command::Set, value, outputs).map(drop),
            "remove" => self.change(Command::Remove, value, outputs).map(drop),
            "flush" => {
                let order = self.order.is_some().then(HashMap::new);
                *self = IpRoutes { drops: self.drops, order, ..IpRoutes::default() };
                Ok(())
            }
            "load" => load(value, |line| {
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
            }),
            _ => self.control(value, outputs),
        }
    }

    /// Makes several changes, or none if one fails.
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
                            // It was there before, so there is room for it.
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

/// An invalid line of `load`.
pub(crate) fn bad_line(line: &str) -> HandlerError {
    HandlerError::value("load", line, "set or remove")
}

/// Carries out each valid line of a text. Returns the errors of the others.
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
mod tests {
    use crate::testing::Bench;

    const ROUTES: &[&str] = &["10.0.0.0/8 0", "10.1.0.0/255.255.0.0 1.2.3.4 1", "0/x - 2"];

    #[test]
    fn packets_follow_the_longest_prefix() {
        for class in ["RadixIPLookup", "DirectIPLookup", "StaticIPLookup"] {
            let routes = ["10.0.0.0/8 0", "10.1.0.0/255.255.0.0 1.2.3.4 1", "11.0.0.0/8 - 2"];
            let mut bench = Bench::new(class, &routes);
            let cases: [(u32, Option<(usize, u32)>); 5] = [
                (0x0a02_0000, Some((0, 0x0a02_0000))),
                (0x0a01_ffff, Some((1, 0x0102_0304))),
                (0x0b00_0000, Some((2, 0x0b00_0000))),
                (0x0c00_0000, None),
                (0x0a00_0000, Some((0, 0x0a00_0000))),
            ];
            let packets = cases.map(|(address, _)| {
                let mut packet = bench.arena.packet(b"x").unwrap();
                packet.set_dst_ip(address);
                packet
            });
            bench.push_packets(0, packets.into());
            let mut out: Vec<_> = bench.out.iter().map(|(o, p)| (*o, p.dst_ip())).collect();
            let mut expected: Vec<_> = cases.iter().filter_map(|(_, result)| *result).collect();
            out.sort();
            expected.sort();
            assert_eq!(out, expected);
            assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
            assert_eq!(bench.router.read("e.lookup", "10.1.0.9"), Ok("1 1.2.3.4".into()));
            assert_eq!(bench.router.read("e.lookup", "12.0.0.0"), Ok("-1".into()));
        }
    }

    #[test]
    fn changes_happen_all_or_not_at_all() {
        let mut bench = Bench::new("RadixIPLookup", &["10.0.0.0/8 0", "10.1.0.0/16 1.2.3.4 1"]);
        let table = bench.router.read("e.table", "").unwrap();
        for (handler, value, works) in [
            ("add", "10.0.0.0/8 1", false),
            ("add", "12.0.0.0/8 4", false),
            ("remove", "12.0.0.0/8", false),
            ("remove", "10.0.0.0", false),
            ("add", "12.0.0.0/8", false),
            (
                "ctrl",
                "add 12.0.0.0/8 1\nremove 10.0.0.0/8\nset 10.1.0.0/16 3\nadd 12.0.0.0/8 2",
                false,
            ),
            ("ctrl", "add 12.0.0.0/8 1\nfrob", false),
            ("ctrl", "add 12.0.0.0/8 1\n\nremove 12.0.0.0/8\n", true),
        ] {
            let result = bench.router.write(&format!("e.{handler}"), value);
            assert_eq!(result.is_ok(), works, "{handler} {value}");
            assert_eq!(bench.router.read("e.table", "").as_ref(), Ok(&table));
        }
        bench.router.write("e.set", "10.0.0.0/8 9.9.9.9 3").unwrap();
        assert_eq!(bench.router.read("e.lookup", "10.2.0.0"), Ok("3 9.9.9.9".into()));
        bench.router.write("e.remove", "10.1.0.0/16").unwrap();
        assert_eq!(bench.router.read("e.lookup", "10.1.0.0"), Ok("3 9.9.9.9".into()));
        bench.router.write("e.flush", "").unwrap();
        assert_eq!(bench.router.read("e.table", ""), Ok(String::new()));
        assert!(bench.router.write("e.lookup", "1.1.1.1").is_err());
    }

    #[test]
    fn a_part_of_the_table_is_read() {
        let routes = ["0.0.0.0/0 2", "10.0.0.0/8 0", "10.1.0.0/16 1", "11.0.0.0/8 2"];
        let mut bench = Bench::new("RadixIPLookup", &routes);
        for (within, wanted) in [
            ("10.0.0.0/8", Ok("10.0.0.0/8\t-\t0\n10.1.0.0/16\t-\t1\n")),
            ("10.1.0.0/16", Ok("10.1.0.0/16\t-\t1\n")),
            ("12.0.0.0/8", Ok("")),
            ("12.0.0.0/40", Err(())),
            ("x", Err(())),
        ] {
            let found = bench.router.read("e.table", within).map_err(drop);
            assert_eq!(found, wanted.map(str::to_owned), "{within}");
        }
        assert_eq!(bench.router.read("e.count", ""), Ok("4".into()));
    }

    #[test]
    fn loading_goes_on_after_a_bad_line() {
        let mut bench = Bench::new("RadixIPLookup", &["10.0.0.0/8 0"]);
        bench.router.write("e.load", "set 11.0.0.0/8 1.1.1.1 1\nremove 10.0.0.0/8\n").unwrap();
        assert_eq!(bench.router.read("e.table", ""), Ok("11.0.0.0/8\t1.1.1.1\t1\n".into()));
        let bad = "set 12.0.0.0/8 9\nset 13.0.0.0/8 - 2\nfrob\nremove 99.0.0.0/8\n";
        let error = bench.router.write("e.load", bad).unwrap_err().to_string();
        assert!(error.contains("2 lines not done, the first: there is no output 9"), "{error}");
        assert_eq!(bench.router.read("e.lookup", "13.0.0.1"), Ok("2".into()));
    }

    #[test]
    fn flows_are_spread_by_weight_and_stay_together() {
        let mut bench = Bench::new("RadixIPLookup", &["0.0.0.0/0 9.9.9.1 0 *3 | 9.9.9.2 1"]);
        let ports = (0..400u16).map(|port| {
            let bytes = europa_packet::Frame::bare().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
            bytes.udp(port, 53, b"x")
        });
        let packets: Vec<Vec<u8>> = ports.flat_map(|packet| [packet.clone(), packet]).collect();
        let mut first: [Vec<Vec<u8>>; 2] = Default::default();
        for some in packets.chunks(200) {
            let some: Vec<_> = some.iter().map(|data| bench.arena.packet(data).unwrap()).collect();
            for (output, data) in bench.push_packets(0, some) {
                first[output].push(data);
            }
        }
        let [most, few] = first.map(|packets| packets.len());
        assert_eq!((most % 2, few % 2, most + few), (0, 0, 800), "flows stay together");
        assert!((500..700).contains(&most), "{most} of 800, 600 wanted");
        assert_eq!(bench.router.read("e.lookup", "1.1.1.1"), Ok("0 9.9.9.1 | 1 9.9.9.2".into()));
    }

    #[test]
    fn next_hop_numbers_are_used_again() {
        let mut bench = Bench::new("RadixIPLookup", &["0.0.0.0/0 0"]);
        for gateway in 1u32..70_000 {
            let gateway = std::net::Ipv4Addr::from(gateway);
            bench.router.write("e.set", &format!("10.0.0.0/8 {gateway} 1")).unwrap();
        }
    }

    #[test]
    fn bad_routes_are_shown() {
        let wanted = "expected 'ADDRESS/MASK [GATEWAY] OUTPUT', found";
        for (bad, error) in [
            ("10.0.0.0/8", format!("{wanted} '10.0.0.0/8'")),
            ("10.0.0.0/33 1", format!("{wanted} '10.0.0.0/33 1'")),
            ("10.0.0.0/8 4", "there is no output 4, found '10.0.0.0/8 4'".into()),
        ] {
            assert_eq!(Bench::error("StaticIPLookup", &[bad]), error);
        }
        assert!(Bench::error("RadixIPLookup", ROUTES).contains("0/x"));
    }
}
