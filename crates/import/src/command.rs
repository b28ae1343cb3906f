//! The meaning of `exec` lines: addresses and routes become settings of the host; the other lines
//! are run.

use std::net::IpAddr;

use ipnet::IpNet;

/// The meaning of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An interface has an address.
    Address { interface: String, address: IpNet },
    /// A route.
    Route { to: IpNet, via: Option<IpAddr>, interface: Option<String> },
    /// A default route, and the interface that the line names.
    Gateway { via: IpAddr, interface: Option<String> },
    /// An interface is set up; those of links are up anyway.
    Up(String),
    /// The line removes a route that only a management network would have made.
    Management,
    /// Any other command.
    Run(String),
}

/// Reads one line.
pub(crate) fn read(line: &str) -> Meaning {
    let run = || Meaning::Run(line.to_owned());
    // Only a shell can run more than one plain command.
    if line.contains(['|', ';', '&', '>', '<', '$', '`', '"', '\'', '*']) {
        return run();
    }
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if words.first() != Some(&"ip") {
        return run();
    }
    words.remove(0);
    let version = words.first().copied();
    if matches!(version, Some("-4" | "-6")) {
        words.remove(0);
    }
    let is = |word: &str, whole: &str, least: usize| word.len() >= least && whole.starts_with(word);
    match words.as_slice() {
        [object, verb, rest @ ..] if is(object, "address", 1) && is(verb, "add", 1) => {
            address(rest).unwrap_or_else(run)
        }
        [object, "set", "dev", interface, "up"] | [object, "set", interface, "up"]
            if is(object, "link", 1) =>
        {
            Meaning::Up((*interface).to_owned())
        }
        [object, "del" | "delete", "default", ..] if is(object, "route", 1) => Meaning::Management,
        [object, "add" | "replace" | "a" | "append", rest @ ..] if is(object, "route", 1) => {
            route(rest, version == Some("-6")).unwrap_or_else(run)
        }
        _ => run(),
    }
}

/// `10.0.0.1/24 dev eth1`, also with `brd +`.
fn address(words: &[&str]) -> Option<Meaning> {
    let (first, mut rest) = words.split_first()?;
    let address =
        first.parse::<IpNet>().ok().or_else(|| first.parse::<IpAddr>().ok().map(IpNet::from))?;
    let mut interface = None;
    while let Some((word, after)) = rest.split_first() {
        match *word {
            "dev" => interface = Some((*after.first()?).to_owned()),
            "brd" | "broadcast" => {}
            _ => return None,
        }
        rest = after.get(1..)?;
    }
    Some(Meaning::Address { interface: interface?, address })
}

/// `10.0.0.0/8 via 10.0.0.1 dev eth1`.
fn route(words: &[&str], ipv6: bool) -> Option<Meaning> {
    let (to, mut rest) = words.split_first()?;
    let (mut via, mut interface) = (None, None);
    while let Some((word, after)) = rest.split_first() {
        match *word {
            "via" => via = Some(after.first()?.parse::<IpAddr>().ok()?),
            "dev" => interface = Some((*after.first()?).to_owned()),
            _ => return None,
        }
        rest = after.get(1..)?;
    }
    if *to == "default" {
        return match (via, &interface) {
            (Some(via), _) if !via.is_ipv4() && via.to_string().starts_with("fe80") => {
                Some(Meaning::Route { to: "::/0".parse().ok()?, via: Some(via), interface })
            }
            (Some(via), _) => Some(Meaning::Gateway { via, interface }),
            (None, Some(_)) => {
                let all = if ipv6 { "::/0" } else { "0.0.0.0/0" };
                Some(Meaning::Route { to: all.parse().ok()?, via, interface })
            }
            (None, None) => None,
        };
    }
    let to = to.parse::<IpNet>().ok().or_else(|| to.parse::<IpAddr>().ok().map(IpNet::from))?;
    (via.is_some() || interface.is_some()).then_some(Meaning::Route {
        to: to.trunc(),
        via,
        interface,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let net = |text: &str| text.parse::<IpNet>().expect("a prefix");
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let address = |interface: &str, text: &str| Meaning::Address {
            interface: interface.to_owned(),
            address: net(text),
        };
        let route = |to: &str, via: Option<&str>, interface: Option<&str>| Meaning::Route {
            to: net(to),
            via: via.map(ip),
            interface: interface.map(str::to_owned),
        };
        for (line, wanted) in [
            ("ip addr add 10.0.0.1/24 dev eth1", address("eth1", "10.0.0.1/24")),
            ("ip address add dev eth1 10.0.0.1/24", Meaning::Run(String::new())),
            ("ip -6 a add fd00::1/64 dev eth1", address("eth1", "fd00::1/64")),
            ("ip addr add 10.0.0.1/24 brd + dev eth1", address("eth1", "10.0.0.1/24")),
            ("ip addr add 10.0.0.1 dev lo", address("lo", "10.0.0.1/32")),
            ("ip link set eth1 up", Meaning::Up("eth1".to_owned())),
            ("ip link set dev br0 up", Meaning::Up("br0".to_owned())),
            ("ip link set eth1 mtu 1400", Meaning::Run(String::new())),
            ("ip route add 10.0.0.0/8 via 10.1.0.1", route("10.0.0.0/8", Some("10.1.0.1"), None)),
            (
                "ip r add 10.0.0.7/8 via 10.1.0.1 dev eth1",
                route("10.0.0.0/8", Some("10.1.0.1"), Some("eth1")),
            ),
            (
                "ip route replace default via 10.1.0.1 dev eth1",
                Meaning::Gateway { via: ip("10.1.0.1"), interface: Some("eth1".to_owned()) },
            ),
            ("ip -6 route add default dev eth1", route("::/0", None, Some("eth1"))),
            (
                "ip -6 route add default via fe80::1 dev eth1",
                route("::/0", Some("fe80::1"), Some("eth1")),
            ),
            ("ip route add 10.0.0.0/8 via 10.1.0.1 metric 7", Meaning::Run(String::new())),
            ("ip route del default", Meaning::Management),
            ("ip route delete default via 172.20.20.1", Meaning::Management),
            (
                "ip addr add 10.0.0.1/24 dev eth1 && ip link set eth1 up",
                Meaning::Run(String::new()),
            ),
            ("iperf3 -s -D", Meaning::Run(String::new())),
            ("sh -c 'ip addr add 10.0.0.1/24 dev eth1'", Meaning::Run(String::new())),
            ("ip", Meaning::Run(String::new())),
        ] {
            let wanted = match wanted {
                Meaning::Run(_) => Meaning::Run(line.to_owned()),
                other => other,
            };
            assert_eq!(read(line), wanted, "{line}");
        }
    }
}
