//! `builtin: ipv4` with a slow path: Linux owns addresses, neighbours, routes and errors.

use std::fmt::Write as _;

use super::{Description, MOST_INTERFACES, Problem};

/// The configuration of a router whose Linux handles all packets that the fast path does not
/// forward.
///
/// At first Linux gets all packets. Linux's routes are then loaded into `route` and `route6`, and
/// its neighbours into `forwardN` and `forward6_N` of interface N. The policies of these elements
/// and of `gateN` select the packets that the tables must not decide. Outputs of the look-ups are
/// the interfaces, then Linux, then a discard, then Linux for errors.
///
/// Linux gets unchanged: all group-addressed frames (routing protocols, ARP, Neighbor Discovery);
/// all packets that are neither IPv4 without options nor IPv6; packets to or from a link-local
/// address; packets to its own addresses or to unknown neighbours; packets that are too long, or
/// whose TTL has expired.
///
/// # Errors
/// Too many interfaces.
pub fn ipv4_with_host(description: &Description) -> Result<String, Problem> {
    let count = description.interfaces.len();
    if count > MOST_INTERFACES {
        return Err(Problem::TooMany { found: count });
    }
    let mut text = String::new();
    let (host, errors) = (count, count + 2);
    let base = |all: &str, prefixes: &[&str]| {
        let lines = prefixes.iter().map(|prefix| format!(", {prefix} - {host}"));
        format!("{all} - {errors}{}", lines.collect::<String>())
    };
    // `DropMartians` has already dropped packets to destinations that belong to no host.
    let route = base("0.0.0.0/0", &[]);
    let route6 = base("::/0", &["::/128", "::ffff:0:0/96", "ff00::/8", "fe80::/10"]);
    let _ = write!(
        text,
        "// What Linux is to deal with goes there as it came.\n\
         host :: ToHost(KEEP 256); urgent :: ToHost;\n\
         police :: HostPolice; police[0] -> host; police[1] -> urgent;\n\
         back :: Unstrip(14) -> police; errors :: Unstrip(14) -> [1]police;\n\
         through :: Unstrip(14) -> [2]police;\n\
         route :: RadixIPLookup({route});\n\
         route6 :: LookupIP6Route({route6});\n\
         route[{count}] -> back; route[{}] -> Discard; route[{}] -> errors;\n\
         route6[{count}] -> back; route6[{}] -> Discard; route6[{}] -> errors;\n\
         check :: CheckIPHeader -> martians :: DropMartians -> route;\n\
         check6 :: CheckIP6Header(::) -> onlink :: Classifier(8/fe80%ffc0, 24/fe80%ffc0, -);\n\
         onlink[0] -> back; onlink[1] -> back; onlink[2] -> route6;\n",
        count + 1,
        count + 2,
        count + 1,
        count + 2,
    );
    for (n, interface) in description.interfaces.iter().enumerate() {
        let (name, mac, mtu) = (&interface.name, interface.mac, interface.mtu);
        let _ = write!(
            text,
            "\n// Interface {name}.\n\
             out{n} :: ToDevice({name});\n\
             FromHost({name}) -> out{n};\n\
             FromDevice({name}, true) -> gate{n} :: HostGate({mac});\n\
             gate{n}[1] -> police;\n\
             gate{n}[0] -> class{n} :: Classifier(0/01%01, 12/080045, 12/86dd 20/00, 12/86dd, -);\n\
             class{n}[0] -> police; class{n}[1] -> Strip(14) -> check;\n\
             class{n}[2] -> [2]police; class{n}[3] -> Strip(14) -> check6;\n\
             class{n}[4] -> police;\n\
             route[{n}] -> forward{n} :: IPForward({mac}, {mtu}) -> out{n};\n\
             forward{n}[1] -> errors; forward{n}[2] -> IPFragmenter({mtu}) -> forward{n};\n\
             forward{n}[3] -> through;\n\
             route6[{n}] -> forward6_{n} :: IP6Forward({mac}, {mtu}) -> out{n};\n\
             forward6_{n}[1] -> errors; forward6_{n}[2] -> through;\n",
        );
    }
    Ok(text)
}
