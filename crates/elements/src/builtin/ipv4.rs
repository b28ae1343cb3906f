//! `builtin: ipv4`: a router for IPv4 and IPv6.

use std::fmt::{Display, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use europa_packet::MacAddr;

use super::routes::{self, Output, anycast6, link_local, own6, routes};
use super::{Description, Interface, MOST_INTERFACES, Neighbour, Problem};

/// Values with blanks between them.
pub(super) fn words(values: impl IntoIterator<Item = impl Display>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

/// An element that makes IPv4 errors with the precedence of routers; `arguments` follow its source.
pub(super) fn error4(source: Ipv4Addr, arguments: impl Display) -> String {
    format!("ICMPError({source}, {arguments}, PRECEDENCE 6)")
}

/// The anycast addresses of these interfaces as an argument.
fn anycast<'a>(interfaces: impl IntoIterator<Item = &'a Interface>) -> String {
    let pairs: Vec<_> = interfaces.into_iter().flat_map(|i| anycast6(&i.addresses)).collect();
    let arguments = words(pairs.iter().flatten());
    if pairs.is_empty() { arguments } else { format!("ANYCAST {arguments}") }
}

/// The values that all parts of the text need.
pub(super) struct Router<'a> {
    pub(super) description: &'a Description,
    /// Elements that are used in several places come before all connections.
    declarations: String,
    connections: String,
    /// Broadcast addresses of all subnets.
    pub(super) broadcasts: String,
    /// An own address as the source of errors.
    pub(super) source: Option<Ipv4Addr>,
    pub(super) source6: Option<Ipv6Addr>,
}

/// The configuration of a router.
///
/// Forwarded packets take the path of Click's standard router. In addition, the router speaks ARP
/// and Neighbor Discovery. It answers pings to its own addresses; other packets to them get an ICMP
/// port (TCP, UDP) or protocol unreachable. It sends ICMP errors for packets that it cannot forward
/// (TTL, MTU, no route, unreachable neighbour), and redirects. It drops martians, broadcasts and
/// multicast. IPv6 is enabled if an interface has an IPv6 address; the interface's link-local
/// address is then derived from its Ethernet address. The router announces its new addresses, and
/// so switches learn its groups. Frames with only a priority tag count as untagged.
///
/// # Errors
/// Returns an error that names the impossible parts of the description.
pub fn ipv4(description: &Description) -> Result<String, Problem> {
    let interfaces = &description.interfaces;
    if interfaces.len() > MOST_INTERFACES {
        return Err(Problem::TooMany { found: interfaces.len() });
    }
    for Neighbour { address, interface, .. } in &description.neighbours {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let has =
            |i: &Interface| i.addresses.iter().any(|net| net.addr().is_ipv4() == address.is_ipv4());
        if !interfaces.get(*interface).is_some_and(has) {
            let what = format!("neighbour {address}");
            return Err(Problem::Interface { what, interface: *interface, family });
        }
    }
    let all = || interfaces.iter().flat_map(|interface| &interface.addresses).copied();
    let every: Vec<_> = all().collect();
    let mut router = Router {
        description,
        declarations: String::new(),
        connections: String::new(),
        broadcasts: words(routes::ipv4(&every).flat_map(routes::reserved)),
        source: routes::ipv4(&every).next().map(|net| net.addr()),
        source6: routes::ipv6(&every).next().map(|net| net.addr()),
    };
    if router.source.is_none() && router.source6.is_none() {
        return Err(Problem::NoAddress);
    }
    for index in 0..interfaces.len() {
        router.interface(index);
    }
    if let Some(source) = router.source {
        router.shared4(source)?;
    }
    if let Some(source) = router.source6 {
        router.shared6(source)?;
    }
    router.labels();
    Ok(router.declarations + "\n" + &router.connections)
}

impl Router<'_> {
    pub(super) fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.connections, "{line}");
    }

    pub(super) fn declare(&mut self, line: impl Display) {
        let _ = writeln!(self.declarations, "{line}");
    }

    /// Static neighbours of an interface as an argument: the router sends no requests for them.
    fn fixed(&self, index: usize, is_v4: bool) -> String {
        let of_interface = |n: &&Neighbour| n.interface == index && n.address.is_ipv4() == is_v4;
        let pair = |n: &Neighbour| format!("{} {}", n.address, n.mac);
        let pairs = words(self.description.neighbours.iter().filter(of_interface).map(pair));
        if pairs.is_empty() { pairs } else { format!(", STATIC {pairs}") }
    }

    /// The elements of one interface.
    fn interface(&mut self, n: usize) {
        let Some(interface) = self.description.interfaces.get(n) else { return };
        let Interface { name, mac, mtu, addresses } = interface;
        let own4: Vec<_> = routes::ipv4(addresses).collect();
        let own6 = own6(addresses, mac.0);
        self.line(format_args!("// Interface {name}. Paint {} says a packet came by it.", n + 1));
        let (mut patterns, mut ways) = (Vec::new(), Vec::new());
        let mut way = |pattern: &'static str, way: String| {
            ways.push(format!("class{n}[{}] -> {way};", patterns.len()));
            patterns.push(pattern);
        };
        let paint = format!("Paint({}) -> Strip(14)", n + 1);
        for (pattern, to) in self.labelled_ways(n, !own4.is_empty(), !own6.is_empty()) {
            way(pattern, format!("{paint} -> {to}"));
        }
        let flows6 = self.flows(false);
        if !own4.is_empty() {
            way("12/0800", format!("{paint} -> CheckIPHeader -> martians{n}"));
            way("12/0806 20/0001", format!("tee{n} :: Tee(2)"));
            way("12/0806 20/0002", format!("[1]arp{n}"));
        }
        if !own6.is_empty() {
            // Solicitations, advertisements, and packets that must not leave the link.
            way("12/86dd 20/3aff 54/87", format!("tee6{n} :: Tee(2)"));
            way("12/86dd 20/3aff 54/88", format!("[1]nd{n}"));
            let check = format!("{paint} -> CheckIP6Header(::)");
            way("12/86dd 22/fe80%ffc0", format!("{check} -> onlink"));
            way("12/86dd", format!("{check} -> {flows6}"));
        }
        if !own4.is_empty() || !own6.is_empty() {
            // A priority tag belongs to no VLAN (IEEE 802.1Q section 6.9).
            way("12/8100 14/0000%0fff", format!("VLANDecap(false) -> class{n}"));
        }
        self.declare(format_args!("out{n} :: ToDevice({name});"));
        match patterns.is_empty() {
            true => self.line(format_args!("FromDevice({name}) -> Discard; Idle -> out{n};")),
            false => {
                let patterns = patterns.join(", ");
                self.line(format_args!(
                    "FromDevice({name}) -> class{n} :: Classifier({patterns});"
                ));
            }
        }
        ways.iter().for_each(|way| self.line(way));
        if let Some(first) = own4.first() {
            self.interface4(n, first.addr(), *mac, *mtu, &words(&own4));
        }
        if !own6.is_empty() {
            self.interface6(n, *mac, *mtu, &own6);
        }
        self.line("");
    }

    fn interface4(&mut self, n: usize, own: Ipv4Addr, mac: MacAddr, mtu: u32, nets: &str) {
        let others = self.addresses4();
        let bad = format!("{} {others}", self.broadcasts);
        let addresses = words(
            self.description
                .interfaces
                .get(n)
                .into_iter()
                .flat_map(|i| routes::ipv4(&i.addresses).map(|net| net.addr())),
        );
        let fixed = self.fixed(n, true);
        let broadcasts = self.broadcasts.clone();
        let flows = self.flows(true);
        self.declare(format_args!("martians{n} :: DropMartians({bad});"));
        self.line(format_args!("martians{n} -> {flows};"));
        self.line(format_args!(
            "tee{n}[0] -> own{n} :: ARPResponder({addresses} {mac}, ANNOUNCE true) -> out{n};"
        ));
        self.line(format_args!("tee{n}[1] -> [1]arp{n};"));
        self.line(format_args!(
            "route[{n}] -> DropBroadcasts -> same{n} :: PaintTee({}) -> options{n} :: \
             IPGWOptions({own}, {others})",
            n + 1
        ));
        self.line(format_args!(
            "  -> FixIPSrc({own}) -> ttl{n} :: DecIPTTL -> fragment{n} :: IPFragmenter({mtu})"
        ));
        self.declare(format_args!(
            "arp{n} :: ARPQuerier({nets}, {mac}, CAPACITY 256, ENTRY_PACKET_CAPACITY 32{fixed});"
        ));
        let (out, dead) = self.behind_neighbours(n, "dead");
        self.line(format_args!("  -> arp{n} -> {out};"));
        self.line(format_args!("arp{n}[1] -> out{n};"));
        self.line(format_args!("arp{n}[2] -> {dead};"));
        self.line(format_args!("options{n}[1] -> problem;"));
        self.line(format_args!("ttl{n}[1] -> expired;"));
        self.line(format_args!(
            "fragment{n}[1] -> {} -> route;",
            error4(own, format_args!("unreachable, needfrag, {broadcasts}, PMTU {mtu}"))
        ));
        // A packet with an expired TTL leaves by no other interface. `FixIPSrc` knows one address
        // only.
        self.line(format_args!(
            "same{n}[1] -> expires{n} :: Classifier(8/00%fe, -); expires{n}[0] -> Discard;"
        ));
        let redirect = format!("redirect, host, {broadcasts}, FROM {nets}, SET_FIX_ANNO false");
        self.line(format_args!("expires{n}[1] -> {} -> route;", error4(own, redirect)));
    }

    /// All own IPv4 addresses.
    fn addresses4(&self) -> String {
        let nets = self.description.interfaces.iter().flat_map(|i| routes::ipv4(&i.addresses));
        words(nets.map(|net| net.addr()))
    }

    fn interface6(&mut self, n: usize, mac: MacAddr, mtu: u32, own: &[Ipv6Addr]) {
        let fixed = self.fixed(n, false);
        let Some(interface) = self.description.interfaces.get(n) else { return };
        let given = routes::ipv6(&interface.addresses).map(|net| net.addr());
        let sources = words(given.chain([link_local(mac.0)]));
        let errors = self.sources6();
        let first = own.first().copied().unwrap_or(Ipv6Addr::UNSPECIFIED);
        let own = words(own);
        let anycast = anycast([interface]);
        let anycast = if anycast.is_empty() { anycast } else { format!(", {anycast}") };
        self.line(format_args!("tee6{n}[0] -> own6_{n} :: IP6NDAdvertiser({own} {mac}, ANNOUNCE true{anycast}) -> out{n};"));
        self.line(format_args!("tee6{n}[1] -> [1]nd{n};"));
        self.declare(format_args!("groups{n} :: MLDReporter({own}, {mac}) -> out{n};"));
        self.line(format_args!(
            "route6[{n}] -> DropBroadcasts -> hops{n} :: DecIP6HLIM -> length{n} :: CheckLength({mtu})"
        ));
        self.declare(format_args!(
            "nd{n} :: IP6NDSolicitor({sources}, {mac}, CAPACITY 256, ENTRY_PACKET_CAPACITY 32{fixed});"
        ));
        let (out, dead) = self.behind_neighbours(n, "dead6");
        self.line(format_args!("  -> nd{n} -> {out};"));
        self.line(format_args!("nd{n}[1] -> out{n};"));
        self.line(format_args!("nd{n}[2] -> {dead};"));
        self.line(format_args!("hops{n}[1] -> expired6;"));
        self.line(format_args!(
            "length{n}[1] -> ICMP6Error({first}, packettoobig, 0, PMTU {mtu}, SOURCES {errors}) \
             -> reply6;"
        ));
    }

    /// Sources of IPv6 errors by paint: the address of the interface where the packet arrived.
    pub(super) fn sources6(&self) -> String {
        let default = self.source6.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let of = |i: &Interface| routes::ipv6(&i.addresses).next().map_or(default, |n| n.addr());
        words([default].into_iter().chain(self.description.interfaces.iter().map(of)))
    }

    /// Outputs of a look-up without an interface of this address family.
    fn unused(&mut self, route: &str, is_v4: bool) {
        for (index, interface) in self.description.interfaces.iter().enumerate() {
            let same = |address: IpAddr| address.is_ipv4() == is_v4;
            if !interface.addresses.iter().any(|net| same(net.addr())) {
                self.line(format_args!("{route}[{index}] -> Discard;"));
            }
        }
    }

    fn output(&self, output: Output) -> usize {
        output.number(self.description.interfaces.len())
    }

    /// The elements that IPv4 has once.
    fn shared4(&mut self, own: Ipv4Addr) -> Result<(), Problem> {
        let routes = routes(self.description, true)?.join(",\n  ");
        let bad = self.broadcasts.clone();
        let (local, discard, none) = (
            self.output(Output::Local),
            self.output(Output::Discard),
            self.output(Output::Unreachable),
        );
        self.declare("// IPv4.");
        self.line("// IPv4.");
        self.declare(format_args!("route :: RadixIPLookup(\n  {routes});"));
        self.unused("route", true);
        self.line(format_args!("route[{discard}] -> Discard;"));
        self.line(format_args!(
            "route[{none}] -> {} -> route;",
            error4(own, format_args!("unreachable, net, {bad}"))
        ));
        for (name, error) in [
            ("dead", "unreachable, host"),
            ("expired", "timeexceeded, transit"),
            ("problem", "parameterproblem, erroratptr"),
        ] {
            let error = error4(own, format_args!("{error}, {bad}"));
            self.declare(format_args!("{name} :: {error};"));
        }
        self.line("dead -> route; expired -> route; problem -> route;");
        self.line("// To the router itself: pings, TCP and UDP, other ICMP, others.");
        let all = self.addresses4();
        self.line(format_args!(
            "route[{local}] -> options :: IPGWOptions({own}, {all}) -> ping :: ICMPPingResponder"
        ));
        self.line("  -> route;");
        self.line("options[1] -> problem;");
        self.line("ping[1] -> local :: Classifier(9/06, 9/11, 9/01, -);");
        let error = |code| error4(own, format_args!("unreachable, {code}, {bad}"));
        self.line(format_args!("port :: {} -> route;", error("port")));
        self.line("local[0] -> port; local[1] -> port; local[2] -> Discard;");
        self.line(format_args!("local[3] -> {} -> route;\n", error("protocol")));
        Ok(())
    }

    /// The elements that IPv6 has once.
    fn shared6(&mut self, own: Ipv6Addr) -> Result<(), Problem> {
        let routes = routes(self.description, false)?.join(",\n  ");
        let sources = self.sources6();
        let (local, discard, none) = (
            self.output(Output::Local),
            self.output(Output::Discard),
            self.output(Output::Unreachable),
        );
        let interfaces = &self.description.interfaces;
        let own_all = interfaces.iter().flat_map(|i| own6(&i.addresses, i.mac.0));
        let onlink: Vec<_> = own_all.map(|address| format!("{address}/128 - 0")).collect();
        let painted: Vec<(usize, Ipv6Addr)> = interfaces
            .iter()
            .enumerate()
            .filter(|(_, i)| routes::ipv6(&i.addresses).next().is_some())
            .map(|(index, i)| (index, link_local(i.mac.0)))
            .collect();
        let anycast = anycast(interfaces);
        self.declare("// IPv6.");
        self.line("// IPv6.");
        self.declare(format_args!("route6 :: LookupIP6Route(\n  {routes});"));
        self.unused("route6", false);
        self.line(format_args!("route6[{discard}] -> Discard;"));
        for (name, error) in [
            ("noroute6", "unreachable, noroute"),
            ("dead6", "unreachable, address"),
            ("expired6", "timeexceeded, 0"),
        ] {
            self.declare(format_args!("{name} :: ICMP6Error({own}, {error}, SOURCES {sources});"));
        }
        self.declare(format_args!("ping6 :: ICMP6PingResponder({anycast});"));
        self.declare("// A link-local destination is on the link that the packet came by.");
        self.declare("reply6 :: Classifier(24/fe80%ffc0, -);");
        self.declare("// From a link-local address: to the router itself only.");
        let onlink = onlink.join(", ");
        self.declare(format_args!("onlink :: LookupIP6Route({onlink}, ::/0 - 1);"));
        self.declare("// A link-local address is own on its link only.");
        self.declare("scope6 :: Classifier(24/fe80%ffc0, -);");
        self.line("onlink[0] -> scope6; scope6[1] -> ping6;");
        // An ICMPv6 message of type 130 behind a hop-by-hop header.
        self.line("onlink[1] -> queries6 :: Classifier(6/00 40/3a 48/82);");
        self.line(format_args!("route6[{none}] -> noroute6;"));
        self.line("noroute6 -> reply6; dead6 -> reply6; expired6 -> reply6;");
        self.line("// To the router itself: pings, TCP and UDP; what ends silently (other ICMP,");
        self.line("// extension headers, no next header); protocols that it does not know.");
        self.line(format_args!("route6[{local}] -> scope6; ping6 -> reply6;"));
        self.line(
            "ping6[1] -> local6 :: Classifier(6/06, 6/11, 6/3a, 6/00, 6/2b, 6/2c, 6/3b, 6/3c, -);",
        );
        let from = match anycast.is_empty() {
            true => "FROM_DESTINATION true".to_owned(),
            false => format!("FROM_DESTINATION true, {anycast}"),
        };
        self.line(format_args!("port6 :: ICMP6Error({own}, unreachable, port, {from}) -> reply6;"));
        self.line("local6[0] -> port6; local6[1] -> port6;");
        self.line((2..8).fold("none6 :: Discard;".to_owned(), |line, output| {
            format!("{line} local6[{output}] -> none6;")
        }));
        self.line(
            "// The annotation points at the header's next header field (RFC 8200 section 4).",
        );
        self.line(format_args!(
            "local6[8] -> Paint(6, 17) -> ICMP6Error({own}, parameterproblem, 1, {from}) -> reply6;"
        ));
        let (mut replies, mut scoped) = ("reply6[0]".to_owned(), "scope6[0]".to_owned());
        let mut queries = "queries6".to_owned();
        for (index, address) in painted {
            let check = format!("CheckPaint({})", index + 1);
            let bytes: String = address.octets().iter().map(|byte| format!("{byte:02x}")).collect();
            self.line(format_args!("{replies} -> by{index} :: {check} -> nd{index};"));
            self.line(format_args!(
                "{scoped} -> at{index} :: {check} -> Classifier(24/{bytes}) -> ping6;"
            ));
            self.line(format_args!("{queries} -> asked{index} :: {check} -> groups{index};"));
            queries = format!("asked{index}[1]");
            (replies, scoped) = (format!("by{index}[1]"), format!("at{index}[1]"));
        }
        self.line(format_args!("{replies} -> Discard; {scoped} -> Discard; {queries} -> Discard;"));
        self.line("reply6[1] -> route6;");
        Ok(())
    }
}
