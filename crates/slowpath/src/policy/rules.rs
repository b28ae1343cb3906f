//! Rules that choose a table of routes, and the packets of each unusual rule.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_port::netlink::{attributes, number, text};
use ipnet::IpNet;

use crate::message::INET;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TUN_ID: u16 = 12;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
/// Newer selectors: DSCP, flow label and later ones.
const FRA_FIRST_UNKNOWN: u16 = 25;

const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;

const LOCAL: u32 = 255;
const MAIN: u32 = 254;
const DEFAULT: u32 = 253;
/// Most prefixes that are compared one by one.
const MOST_PREFIXES: usize = 48;

/// A rule, with the properties that matter to forwarded packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    is_v4: bool,
    priority: u32,
    /// The table of a rule that only looks up a table.
    table: Option<u32>,
    which: Which,
}

/// The forwarded packets that a rule concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    None,
    /// Packets from a device.
    From(String),
    Source(IpNet),
    Destination(IpNet),
    /// Unknown without more of the packet.
    Some,
    All,
}

impl Rule {
    /// Reads the payload of a message.
    pub(crate) fn parse(message: &[u8]) -> Option<Rule> {
        let &[family, to_length, from_length, tos, table, _, _, action, ..] =
            message.first_chunk::<12>()?;
        let flags = number(message, 8)?;
        let mut rule = Rule {
            is_v4: family == INET,
            priority: 0,
            table: Some(table.into()),
            which: Which::All,
        };
        let (mut from, mut to, mut device) = (None, None, None);
        let (mut is_narrow, mut is_never, mut is_plain) =
            (tos != 0, false, action == FR_ACT_TO_TBL);
        let (mut mark, mut mask) = (0, u32::MAX);
        for (kind, value) in attributes(message, 12) {
            match kind {
                FRA_PRIORITY => rule.priority = number(value, 0)?,
                FRA_TABLE => rule.table = number(value, 0),
                FRA_DST => to = prefix(value, to_length),
                FRA_SRC => from = prefix(value, from_length),
                FRA_IIFNAME => device = Some(text(value)),
                // The outgoing device of a forwarded packet is not known yet.
                FRA_OIFNAME => is_never = true,
                // VRFs: their devices are Linux's anyway.
                FRA_L3MDEV => is_never |= value.first() == Some(&1),
                FRA_FWMARK => mark = number(value, 0)?,
                FRA_FWMASK => mask = number(value, 0)?,
                // Forwarded packets of IPv4 are those of root of the network namespace, which has
                // another number here (`sock_net_uid` in the kernel): any range may have it.
                FRA_UID_RANGE => is_narrow = true,
                FRA_SUPPRESS_IFGROUP => is_plain &= number(value, 0) == Some(u32::MAX),
                FRA_SUPPRESS_PREFIXLEN => is_plain &= number(value, 0) == Some(u32::MAX),
                FRA_TUN_ID | FRA_IP_PROTO | FRA_SPORT_RANGE | FRA_DPORT_RANGE => is_narrow = true,
                FRA_FIRST_UNKNOWN.. => is_narrow = true,
                _ => {}
            }
        }
        // A mark that packets get before the look-up comes from a setting that sends them to Linux
        // anyway.
        is_never |= mark & mask != 0;
        rule.which = match (device, from, to) {
            _ if flags & FIB_RULE_INVERT != 0 => Which::Some,
            _ if is_never => Which::None,
            (Some(device), ..) => Which::From(device),
            (_, Some(from), _) => Which::Source(from),
            (_, _, Some(to)) => Which::Destination(to),
            _ if is_narrow => Which::Some,
            _ => Which::All,
        };
        rule.table = rule.table.filter(|_| is_plain);
        Some(rule)
    }
}

fn prefix(octets: &[u8], length: u8) -> Option<IpNet> {
    let address: IpAddr = match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok()?.into(),
        _ => <[u8; 16]>::try_from(octets).ok()?.into(),
    };
    IpNet::new(address, length).ok()
}

/// The rules of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    all: Vec<Rule>,
}

/// The packets of one family that rules concern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Concern {
    /// All packets.
    pub(crate) all: bool,
    /// Packets from devices with such names.
    pub(crate) devices: Vec<String>,
    pub(crate) sources: Vec<IpNet>,
    pub(crate) destinations: Vec<IpNet>,
}

impl Rules {
    pub(crate) fn new(all: Vec<Rule>) -> Rules {
        Rules { all }
    }

    /// The packets that the tables local, main and default in this order do not answer for.
    pub(crate) fn concern(&self, is_v4: bool) -> Concern {
        let mut concern = Concern::default();
        // The order of the list is the order of evaluation.
        let mut order: BTreeMap<u32, Vec<&Rule>> = BTreeMap::new();
        for rule in self.all.iter().filter(|rule| rule.is_v4 == is_v4) {
            order.entry(rule.priority).or_default().push(rule);
        }
        let mut tables = Vec::new();
        for rule in order.into_values().flatten() {
            match &rule.which {
                Which::None => {}
                Which::From(device) => concern.devices.push(device.clone()),
                Which::Source(prefix) => concern.sources.push(*prefix),
                Which::Destination(prefix) => concern.destinations.push(*prefix),
                Which::Some => concern.all = true,
                Which::All => tables.push(rule.table),
            }
        }
        let wanted: &[u32] = if is_v4 { &[LOCAL, MAIN, DEFAULT] } else { &[LOCAL, MAIN] };
        let is_usual =
            tables.iter().eq(wanted.iter().map(|table| Some(*table)).collect::<Vec<_>>().iter());
        let lists = [&concern.sources, &concern.destinations];
        concern.all |= !is_usual || lists.iter().any(|list| list.len() > MOST_PREFIXES);
        concern
    }
}

/// The rules that a namespace begins with.
#[cfg(test)]
pub(crate) fn usual() -> Rules {
    let rule =
        |is_v4, priority, table| Rule { is_v4, priority, table: Some(table), which: Which::All };
    let v4 = [(0, LOCAL), (32766, MAIN), (32767, DEFAULT)];
    let v6 = [(0, LOCAL), (32766, MAIN)];
    let v4 = v4.into_iter().map(|(priority, table)| rule(true, priority, table));
    let v6 = v6.into_iter().map(|(priority, table)| rule(false, priority, table));
    Rules::new(v4.chain(v6).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule message: header and attributes.
    fn message(family: u8, table: u8, flags: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![family, 0, 24, 0, table, 0, 0, FR_ACT_TO_TBL];
        bytes.extend(flags.to_ne_bytes());
        for (kind, value) in attributes {
            bytes.extend((value.len() as u16 + 4).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn a_rule_is_read() {
        let priority = 32766u32.to_ne_bytes();
        let rule = Rule::parse(&message(INET, 254, 0, &[(FRA_PRIORITY, &priority)]));
        assert_eq!(rule.as_ref(), super::usual().all.get(1));
    }

    /// The rules of IPv4.
    fn usual() -> Vec<Rule> {
        super::usual().all.into_iter().filter(|rule| rule.is_v4).collect()
    }

    #[test]
    fn the_usual_rules_concern_nothing_else() {
        assert_eq!(Rules::new(usual()).concern(true), Concern::default());
        let mut rules = usual();
        rules.swap(0, 1);
        assert_eq!(Rules::new(rules).concern(true), Concern::default(), "priorities count");
        assert!(Rules::default().concern(true).all, "without rules nothing is found");
        assert!(Rules::new(usual()[1..].to_vec()).concern(true).all);
    }

    #[test]
    fn a_rule_concerns_what_it_selects() {
        let priority = 100u32.to_ne_bytes();
        let net = "10.1.2.0/24".parse().unwrap();
        let all = Concern { all: true, ..Concern::default() };
        let none = Concern::default();
        for (what, flags, attribute, wanted) in [
            (
                "iif",
                0,
                (FRA_IIFNAME, &b"eth1\0"[..]),
                Concern { devices: vec!["eth1".into()], ..Concern::default() },
            ),
            (
                "from",
                0,
                (FRA_SRC, &[10, 1, 2, 0][..]),
                Concern { sources: vec![net], ..Concern::default() },
            ),
            ("not from", FIB_RULE_INVERT, (FRA_SRC, &[10, 1, 2, 0][..]), all.clone()),
            ("oif", 0, (FRA_OIFNAME, &b"eth1\0"[..]), none.clone()),
            ("fwmark", 0, (FRA_FWMARK, &[7, 0, 0, 0][..]), none.clone()),
            ("fwmark 0", 0, (FRA_FWMARK, &[0, 0, 0, 0][..]), all.clone()),
            ("some users", 0, (FRA_UID_RANGE, &[0, 0, 0, 0, 9, 0, 0, 0][..]), all.clone()),
            ("every user", 0, (FRA_UID_RANGE, &[0, 0, 0, 0, 255, 255, 255, 255][..]), all.clone()),
            ("a protocol", 0, (FRA_IP_PROTO, &[6][..]), all.clone()),
            ("a DSCP", 0, (25, &[1][..]), all.clone()),
            ("all, another table", 0, (FRA_TABLE, &[100, 0, 0, 0][..]), all.clone()),
        ] {
            let mut rules = usual();
            let attributes = [(FRA_PRIORITY, &priority[..]), attribute];
            rules.push(Rule::parse(&message(INET, 100, flags, &attributes)).unwrap());
            assert_eq!(Rules::new(rules).concern(true), wanted, "{what}");
        }
    }
}
