//! What all IPv4 look-up elements do: routes, their handlers, and the look-up of a batch.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use europa_engine::{
    Arguments, BATCH, Batch, ConfigError, Context, DROP, Flags, Handler, HandlerError, Ipv4Prefix,
    Names, Packet, Value,
};
use europa_lookup::{Dir24, NextHop, RouteTable};

/// Handlers of a table that does not change.
pub(crate) const FIXED: &[Handler] = &[
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("table").with(Flags::EXPENSIVE),
    Handler::read("drops"),
];

/// Handlers of a table that can be changed.
pub(crate) const CHANGEABLE: &[Handler] = &[
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("table").with(Flags::EXPENSIVE),
    Handler::read("drops"),
    Handler::write("add"),
    Handler::write("set"),
    Handler::write("remove"),
    Handler::write("ctrl"),
    Handler::button("flush"),
];

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hop {
    /// Address of the next router; 0 if the destination is a neighbour.
    gateway: u32,
    output: u16,
}

/// No route.
const NOWHERE: Hop = Hop { gateway: 0, output: DROP };

/// One route as it is written.
#[derive(Clone, Copy, Debug)]
struct Route {
    prefix: Ipv4Prefix,
    hop: Hop,
}

/// A table of IPv4 routes.
#[derive(Default)]
pub(crate) struct IpRoutes {
    table: Dir24,
    /// By next hop number, 0 being none.
    hops: Vec<Hop>,
    /// By next hop number: how many routes use it.
    users: Vec<u32>,
    numbers: HashMap<Hop, NextHop>,
    unused: Vec<NextHop>,
    drops: u64,
    batch: Addresses,
}

/// What a batch looks up and finds. Kept, as filling it with zeros for each batch would cost
/// half a nanosecond a packet.
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

/// Reads `ADDRESS/MASK [GATEWAY] OUTPUT`; for removal, the prefix is enough.
fn route(text: &str, names: &Names, removal: bool) -> Option<Route> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (prefix, gateway, output) = match words.as_slice() {
        [prefix] if removal => (prefix, "-", "0"),
        [prefix, output] if output.parse::<u16>().is_ok() => (prefix, "-", *output),
        [prefix, gateway] if removal => (prefix, *gateway, "0"),
        [prefix, gateway, output] => (prefix, *gateway, *output),
        _ => return None,
    };
    let gateway = match gateway {
        "-" => 0,
        address => u32::from(Ipv4Addr::parse(address, names)?),
    };
    let hop = Hop { gateway, output: output.parse().ok()? };
    Some(Route { prefix: Ipv4Prefix::parse(prefix, names)?, hop })
}

/// A prefix as the table wants it: no bits behind the mask.
fn key(prefix: Ipv4Prefix) -> Option<europa_packet::Ipv4Prefix> {
    europa_packet::Ipv4Prefix::new(prefix.network().into(), prefix.length).ok()
}

/// What can be done to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Add,
    Set,
    Remove,
}

impl IpRoutes {
    fn hop(&self, number: u16) -> Hop {
        self.hops.get(usize::from(number)).copied().unwrap_or(NOWHERE)
    }

    /// The number of a next hop, one more route using it.
    fn take_hop(&mut self, hop: Hop) -> Option<NextHop> {
        if self.hops.is_empty() {
            self.hops.push(NOWHERE);
            self.users.push(0);
        }
        let number = match self.numbers.get(&hop) {
            Some(number) => *number,
            None => {
                let number = match self.unused.pop() {
                    Some(number) => number,
                    None => {
                        let number = NextHop::new(u16::try_from(self.hops.len()).ok()?)?;
                        self.hops.push(hop);
                        self.users.push(0);
                        number
                    }
                };
                self.numbers.insert(hop, number);
                number
            }
        };
        *self.hops.get_mut(usize::from(number.get()))? = hop;
        *self.users.get_mut(usize::from(number.get()))? += 1;
        Some(number)
    }

    /// One route less uses this next hop.
    fn drop_hop(&mut self, number: NextHop) {
        let hop = self.hop(number.get());
        if let Some(users) = self.users.get_mut(usize::from(number.get())) {
            *users -= 1;
            if *users == 0 {
                self.numbers.remove(&hop);
                self.unused.push(number);
            }
        }
    }

    /// Adds or changes a route. Returns where it led before.
    fn insert(&mut self, route: Route) -> Result<Option<Hop>, String> {
        let full = || "too many different next hops".to_owned();
        let prefix = key(route.prefix).ok_or("bad prefix")?;
        let number = self.take_hop(route.hop).ok_or_else(full)?;
        match self.table.insert(prefix, number) {
            Ok(old) => Ok(old.map(|old| {
                let hop = self.hop(old.get());
                self.drop_hop(old);
                hop
            })),
            Err(error) => {
                self.drop_hop(number);
                Err(error.to_string())
            }
        }
    }

    /// Removes a route. Returns where it led.
    fn remove(&mut self, prefix: Ipv4Prefix) -> Option<Hop> {
        let old = self.table.remove(key(prefix)?)?;
        let hop = self.hop(old.get());
        self.drop_hop(old);
        Some(hop)
    }

    /// Reads the routes from the arguments.
    pub(crate) fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let mut replaced = 0;
        for (index, text) in arguments.rest() {
            let result = match route(text, arguments.names(), false) {
                None => Err("expected 'ADDRESS/MASK [GATEWAY] OUTPUT'".to_owned()),
                Some(route) if usize::from(route.hop.output) >= arguments.outputs() => {
                    Err(format!("there is no output {}", route.hop.output))
                }
                Some(route) => self.insert(route),
            };
            match result {
                Ok(old) => replaced += usize::from(old.is_some()),
                Err(message) => {
                    arguments.error(ConfigError::at(index, format!("{message}, found '{text}'")));
                }
            }
        }
        if replaced > 0 {
            arguments.warn(format!("{replaced} routes replaced by later ones"));
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
        let (hops, drops) = (self.hops.as_slice(), &mut self.drops);
        context.forward_each(batch, |packet| {
            let number = number.next().copied().unwrap_or(0);
            let Some(hop) = hops.get(usize::from(number)).filter(|_| number != 0) else {
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
                let address: Ipv4Addr = crate::common::parse(handler, parameter)?;
                let number = self.table.lookup(address.into()).map_or(0, NextHop::get);
                Ok(match self.hop(number) {
                    NOWHERE => "-1".to_owned(),
                    Hop { gateway: 0, output } => output.to_string(),
                    Hop { gateway, output } => format!("{output} {}", Ipv4Addr::from(gateway)),
                })
            }
            "table" => Ok(self
                .table
                .iter()
                .map(|(prefix, number)| {
                    let Hop { gateway, output } = self.hop(number.get());
                    let gateway = match gateway {
                        0 => "-".to_owned(),
                        gateway => Ipv4Addr::from(gateway).to_string(),
                    };
                    format!("{}/{}\t{gateway}\t{output}\n", prefix.addr(), prefix.prefix_len())
                })
                .collect()),
            _ => Ok(self.drops.to_string()),
        }
    }

    /// One change; returns what undoes it.
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
        let Some(route) = route(text, &Names::default(), command == Command::Remove) else {
            return Err(HandlerError::value(handler, text, wanted));
        };
        let other = |message: String| Err(HandlerError::Other(message));
        if command == Command::Remove {
            return match self.remove(route.prefix) {
                Some(hop) => Ok((Command::Set, Route { hop, ..route })),
                None => other(format!("route '{text}' not found")),
            };
        }
        if usize::from(route.hop.output) >= outputs {
            return other(format!("there is no output {}", route.hop.output));
        }
        if command == Command::Add && key(route.prefix).and_then(|p| self.table.get(p)).is_some() {
            return other(format!("conflict with existing route '{text}'"));
        }
        match self.insert(route) {
            Ok(None) => Ok((Command::Remove, route)),
            Ok(Some(hop)) => Ok((Command::Set, Route { hop, ..route })),
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
                *self = IpRoutes { drops: self.drops, ..IpRoutes::default() };
                Ok(())
            }
            _ => self.control(value, outputs),
        }
    }

    /// Several changes; none of them if one cannot be made.
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
                            _ => drop(self.insert(route)),
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const ROUTES: &[&str] = &["10.0.0.0/8 0", "10.1.0.0/255.255.0.0 1.2.3.4 1", "0/0 - 2"];

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
        assert!(Bench::error("RadixIPLookup", ROUTES).contains("0/0"));
    }
}
