//! `builtin: ipv4` with a slow path: Linux owns addresses, neighbours, routes and errors.

use std::fmt::Write as _;

use super::{Description, MOST_INTERFACES, Problem};

/// The configuration of a router whose Linux answers whatever this does not forward.
///
/// Tables are empty at first, so everything goes to Linux; what Linux knows is then loaded into
/// `route`, `route6`, and `forwardN` and `forward6_N` of interface N. Outputs of the look-ups
/// are the interfaces, then Linux, then nowhere.
///
/// Linux gets, as they came: all group-addressed frames (routing protocols, ARP, Neighbor
/// Discovery), everything that is neither IPv4 without options nor IPv6, what is to or from a
/// link-local address, and packets to its own addresses, to unknown neighbours, too long, or at
/// the end of their time.
///
/// # Errors
/// Too many interfaces.
pub fn ipv4_with_host(description: &Description) -> Result<String, Problem> {
    let count = description.interfaces.len();
    if count > MOST_INTERFACES {
        return Err(Problem::TooMany { found: count });
    }
    let mut text = String::new();
    let host = count;
    let base = |prefixes: &[&str]| {
        let lines: Vec<String> = prefixes.iter().map(|p| format!("{p} - {host}")).collect();
        lines.join(", ")
    };
    // `DropMartians` has looked at the destinations that are nobody's.
    let route = base(&["0.0.0.0/0"]);
    let route6 = base(&["::/0", "::/128", "::ffff:0:0/96", "ff00::/8", "fe80::/10"]);
    let _ = write!(
        text,
        "// What Linux is to deal with goes there as it came.\n\
         host :: ToHost;\n\
         back :: Unstrip(14) -> host;\n\
         route :: RadixIPLookup({route});\n\
         route6 :: LookupIP6Route({route6});\n\
         route[{count}] -> back; route[{}] -> Discard;\n\
         route6[{count}] -> back; route6[{}] -> Discard;\n\
         check :: CheckIPHeader -> martians :: DropMartians -> route;\n\
         check6 :: CheckIP6Header(::) -> onlink :: Classifier(8/fe80%ffc0, 24/fe80%ffc0, -);\n\
         onlink[0] -> back; onlink[1] -> back; onlink[2] -> route6;\n",
        count + 1,
        count + 1,
    );
    for (n, interface) in description.interfaces.iter().enumerate() {
        let (name, mac, mtu) = (&interface.name, interface.mac, interface.mtu);
        let _ = write!(
            text,
            "\n// Interface {name}.\n\
             out{n} :: ToDevice({name});\n\
             FromHost({name}) -> out{n};\n\
             FromDevice({name}) -> class{n} :: Classifier(0/01%01, 12/080045, 12/86dd, -);\n\
             class{n}[0] -> host; class{n}[1] -> Strip(14) -> check;\n\
             class{n}[2] -> Strip(14) -> check6; class{n}[3] -> host;\n\
             route[{n}] -> forward{n} :: IPForward({mac}, {mtu}) -> out{n};\n\
             forward{n}[1] -> back; forward{n}[2] -> IPFragmenter({mtu}) -> forward{n};\n\
             route6[{n}] -> forward6_{n} :: IP6Forward({mac}, {mtu}) -> out{n};\n\
             forward6_{n}[1] -> back;\n",
        );
    }
    Ok(text)
}
