//! The label table before a fast path that has none: a Click configuration of the user's, a router
//! with a slow path, or the process of a router with `run: kernel`.
//!
//! Labelled packets, RSVP messages and packets of flows that begin here never reach that fast path.
//! All others do, as they came.

use std::fmt::Write as _;

use super::ipv4::words;
use super::routes::{ipv4, link_local, own6};
use super::{Description, FRONT_LABELS, Interface, Labels, MOST_INTERFACES, Problem};

/// The source address of Ethernet headers that packets get back at the end of an LSP.
const NOBODY: &str = "02:00:00:00:00:00";

/// The patterns of a classifier, and what follows each.
#[derive(Default)]
struct Ways {
    patterns: Vec<String>,
    ways: Vec<String>,
}

impl Ways {
    fn add(&mut self, pattern: String, way: String) {
        self.patterns.push(pattern);
        self.ways.push(way);
    }
}

/// The text that follows the fast path's own. Empty if no interface signals.
///
/// `DeviceFront` hands packets to the `FromDevice` of the fast path. Packets whose LSP ends here get
/// an Ethernet header to the interface where they arrived; packets that are too long for their flow
/// continue without it.
///
/// # Errors
/// Too many interfaces.
pub fn front(description: &Description) -> Result<String, Problem> {
    let Some(labels) = description.labels.as_ref().filter(|all| !all.interfaces.is_empty()) else {
        return Ok(String::new());
    };
    if description.interfaces.len() > MOST_INTERFACES {
        return Err(Problem::TooMany { found: description.interfaces.len() });
    }
    let mut text = shared(description, labels);
    // Writing to a string cannot fail.
    for (number, interface) in description.interfaces.iter().enumerate() {
        let place = labels.interfaces.iter().position(|other| *other == number);
        let place = place.map(|place| (place, labels.interfaces.len()));
        let _ = writeln!(text, "// Interface {}.", interface.name);
        if let Some(place) = place {
            text += &neighbours(number, interface, place);
        }
        text += &one(number, interface, place, labels.interfaces.len());
    }
    Ok(text)
}

/// The label table, and what leaves it for no neighbour.
fn shared(description: &Description, labels: &Labels) -> String {
    let count = labels.interfaces.len();
    let signal = labels.interfaces.iter().filter_map(|number| description.interfaces.get(*number));
    let names = words(signal.map(|interface| &interface.name));
    let model = if labels.is_pipe { "pipe" } else { "uniform" };
    let all = description.interfaces.iter().flat_map(|interface| &interface.addresses);
    let own = words(all.flat_map(|net| [net.trunc(), net.addr().into()]));
    let [v4, v6] = [count * 2, count * 2 + 1];
    let mut text = format!(
        "\n\n// Labels, as a signaller says, before this configuration.\n\
         {FRONT_LABELS} :: LabelSwitch({names}, MODEL {model}, OWN {own});\n\
         europa_none :: PaintSwitch; europa_end4 :: PaintSwitch; europa_end6 :: PaintSwitch;\n\
         {FRONT_LABELS}[{}] -> europa_end4; {FRONT_LABELS}[{}] -> europa_end6;\n",
        v4 + 4,
        v6 + 4,
    );
    for output in [v4, v6, v4 + 2, v6 + 2] {
        let _ = write!(text, "{FRONT_LABELS}[{output}] -> europa_none; ");
    }
    text + "\n"
}

/// What an interface receives. `place`: its rank among those that signal, and their number.
fn one(n: usize, interface: &Interface, place: Option<(usize, usize)>, count: usize) -> String {
    let Interface { name, mac, addresses, .. } = interface;
    let (has_v4, has_v6) = (ipv4(addresses).next().is_some(), !own6(addresses, mac.0).is_empty());
    let to: String = mac.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let [v4, v6] = [count * 2, count * 2 + 1];
    let mut ways = Ways::default();
    if let Some((place, count)) = place {
        let message = format!("Strip(14) -> [{}]{FRONT_LABELS}", count + place);
        ways.add(
            format!("0/{to} 12/8847"),
            format!("Paint({n}) -> Strip(14) -> [{place}]{FRONT_LABELS}"),
        );
        ways.add(format!("0/{to} 12/0800 23/2e"), message.clone());
        ways.add(format!("0/{to} 12/86dd 20/2e"), message.clone());
        ways.add(format!("0/{to} 12/86dd 20/00 54/2e"), message);
        let known = |table: &str| {
            format!(
                "europa_{table}s{n} :: Tee(2) -> [1]europa_{table}{n}; europa_{table}s{n}[1] -> europa_front{n}"
            )
        };
        if has_v4 {
            ways.add("12/0806 20/0002".into(), known("arp"));
        }
        if has_v6 {
            ways.add("12/86dd 20/3aff 54/88".into(), known("nd"));
        }
    }
    let back = format!("Unstrip(14) -> europa_front{n}");
    ways.add(
        format!("0/{to} 12/0800"),
        format!(
            "Paint({n}) -> Strip(14) -> europa_check{n} :: CheckIPHeader -> [{v4}]{FRONT_LABELS}; \
             europa_check{n}[1] -> Paint(0) -> {back}"
        ),
    );
    ways.add(
        format!("0/{to} 12/86dd"),
        format!(
            "Paint({n}) -> Strip(14) -> europa_check6_{n} :: CheckIP6Header(::) -> \
             [{v6}]{FRONT_LABELS}; europa_check6_{n}[1] -> Paint(0) -> {back}"
        ),
    );
    ways.add("-".into(), format!("europa_front{n}"));
    let patterns = ways.patterns.join(", ");
    let mut text = format!(
        "europa_front{n} :: DeviceFront({name}) -> Discard;\n\
         FromDevice({name}, true) -> europa_class{n} :: Classifier({patterns});\n"
    );
    for (output, way) in ways.ways.iter().enumerate() {
        let _ = writeln!(text, "europa_class{n}[{output}] -> {way};");
    }
    let _ = writeln!(text, "europa_none[{n}] -> Paint(0) -> {back};");
    for (end, kind) in [("end4", "0x0800"), ("end6", "0x86dd")] {
        let _ = writeln!(
            text,
            "europa_{end}[{n}] -> Paint(0) -> EtherEncap({kind}, {NOBODY}, {mac}) -> europa_front{n};"
        );
    }
    text
}

/// What an interface that signals sends.
fn neighbours(n: usize, interface: &Interface, (place, count): (usize, usize)) -> String {
    let Interface { name, mac, addresses, .. } = interface;
    let own4: Vec<_> = ipv4(addresses).collect();
    let own6 = own6(addresses, mac.0);
    let mut text = format!(
        "europa_out{n} :: ToDevice({name}); europa_mpls{n} :: LabelEther -> europa_out{n};\n"
    );
    let mut table = |output: usize, kind: &str, class: String| {
        let _ = writeln!(
            text,
            "{FRONT_LABELS}[{output}] -> europa_{kind}{n} :: {class} -> europa_mpls{n}; \
             europa_{kind}{n}[1] -> europa_out{n}; europa_{kind}{n}[2] -> Discard;"
        );
    };
    match own4.is_empty() {
        true => {}
        false => table(place, "arp", format!("ARPQuerier({}, {mac}, CAPACITY 256)", words(&own4))),
    }
    if !own6.is_empty() {
        let given = super::routes::ipv6(addresses).map(|net| net.addr());
        let sources = words(given.chain([link_local(mac.0)]));
        table(count + place, "nd", format!("IP6NDSolicitor({sources}, {mac}, CAPACITY 256)"));
    }
    for (output, is_unused) in [(place, own4.is_empty()), (count + place, own6.is_empty())] {
        if is_unused {
            let _ = writeln!(text, "{FRONT_LABELS}[{output}] -> Discard;");
        }
    }
    text
}
