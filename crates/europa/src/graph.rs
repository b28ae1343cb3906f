//! `graph`: drawings of the topology and of element graphs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::Objects;
use europa_capture::scene::{Interface, Scene, To};
use europa_capture::{describe, line};
use europa_draw::{Box, Diagram, Kind, Line, dot, layout, svg};
use europa_engine::GraphView;
use europa_node::Instance;
use serde_json::Value;

use crate::exit::Failure;
use crate::rates::{Interval, Row, View};
use crate::table::scaled;
use crate::{complete, handler};

/// Time over which rates are measured.
const SECONDS: Duration = Duration::from_millis(500);
/// Longest configuration in a box, in characters.
const LONGEST: usize = 34;

/// Arguments of `graph`.
#[derive(Args)]
pub(crate) struct GraphArgs {
    /// `topology`, or SLICE/ROUTER for the elements of a router.
    #[arg(default_value = "topology", add = ArgValueCompleter::new(complete::drawn))]
    what: String,
    /// The file to write. Default: standard output.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Write DOT for Graphviz.
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    /// Write the drawn objects as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn graph(instance: &Instance, args: &GraphArgs) -> Result<ExitCode, Failure> {
    let (diagram, data) = if args.what == "topology" {
        let scene = describe(&instance.directory())?;
        let (rates, links) = match args.json {
            true => (Rates::new(), Links::new()),
            false => (rates(instance)?, links(instance)?),
        };
        (topology(&scene, &rates, &links), serde_json::to_string_pretty(&scene)?)
    } else {
        let text = handler::read(instance, &args.what, "graph")?;
        let view: GraphView = serde_json::from_str(&text)?;
        (elements(&args.what, &view), serde_json::to_string_pretty(&view)?)
    };
    let text = if args.json {
        data + "\n"
    } else if args.dot {
        dot(&diagram)
    } else {
        svg(&diagram, &layout(&diagram))
    };
    match &args.output {
        Some(path) => {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        None => {
            // An error is ignored: the reader of the pipe may have ended.
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// By `slice/router.interface`: packets and bits a second, in and out.
type Rates = HashMap<String, [f64; 4]>;

fn rates(instance: &Instance) -> Result<Rates, Failure> {
    let client = crate::up::client(instance);
    let stats = || client.get("/v1/stats");
    let before = stats()?;
    std::thread::sleep(SECONDS);
    let after = stats()?;
    let rows = Interval::new(&before, &after).rows(View::Interfaces);
    let rate = |row: Row| match row.values[..] {
        [packets_in, bits_in, packets_out, bits_out, ..] => {
            (row.name, [packets_in, packets_out, bits_in, bits_out])
        }
        _ => (row.name, [0.0; 4]),
    };
    Ok(rows.into_iter().map(rate).collect())
}

/// Links by name: rate, delay and losses in the link's document, a line each.
type Links = HashMap<String, Vec<String>>;

fn links(instance: &Instance) -> Result<Links, Failure> {
    let objects: Objects = crate::up::client(instance).get("/v1/links")?;
    let links = objects.items.into_iter().map(|link| (link.name, line_of(&link.document)));
    Ok(links.collect())
}

/// The fields of a link's document that appear on its line, for both directions and for each.
fn line_of(document: &Value) -> Vec<String> {
    let fields = |at: &Value| {
        let text = |name: &str| match at.get(name)? {
            Value::String(text) => Some(format!("{name} {text}")),
            // Losses in bursts.
            Value::Object(_) => Some(format!("{name} in bursts")),
            _ => None,
        };
        let names = ["rate", "delay", "jitter", "loss", "reorder", "duplicate", "corrupt"];
        names.iter().filter_map(|name| text(name)).collect::<Vec<_>>()
    };
    let mut lines = fields(document);
    for (way, shown) in [("a_to_b", "a to b"), ("b_to_a", "b to a")] {
        let own = document.get(way).map(fields).unwrap_or_default();
        lines.extend((!own.is_empty()).then(|| format!("{shown}: {}", own.join(", "))));
    }
    lines
}

/// Names of ports that interfaces or hosts are attached to.
fn used_ports(scene: &Scene) -> HashSet<&str> {
    let of_hosts = scene.hosts.iter().flat_map(|host| &host.interfaces);
    let ends = of_hosts.filter_map(|interface| interface.to.as_ref());
    let all = ends.chain(scene.interfaces().map(|(_, interface)| &interface.to));
    let ports = all.filter_map(|to| match to {
        To::Port(port) => Some(port.as_str()),
        To::Link(_) => None,
    });
    ports.collect()
}

/// Ports, interfaces, routers and links, in columns by their distance from the ports.
fn topology(scene: &Scene, rates: &Rates, links: &Links) -> Diagram {
    let mut diagram = Diagram { title: "Topology".into(), sideways: true, ..Diagram::default() };
    let mut slices: Vec<&str> = scene.routers.iter().map(|router| router.slice()).collect();
    slices.sort_unstable();
    slices.dedup();
    let mut index: HashMap<String, usize> = HashMap::new();
    let used = used_ports(scene);
    for port in &scene.ports {
        // For a host at the end of a link, the node makes a port itself. The link is drawn in its
        // place.
        if port.name.contains('.') && !used.contains(port.name.as_str()) {
            continue;
        }
        let mut text = vec![port.name.clone(), format!("{} {}", port.kind, port.device)];
        text.push(format!("MTU {}", port.mtu));
        if let Some(rate) = port.rate_bits {
            text.push(scaled(rate as f64, "b/s"));
        }
        index.insert(format!("port {}", port.name), diagram.boxes.len());
        diagram.boxes.push(Box {
            hint: format!("port {}", port.name),
            text,
            kind: Kind::Outer,
            ..Box::default()
        });
    }
    let of_hosts = scene.hosts.iter().flat_map(|host| &host.interfaces);
    let ends = of_hosts.filter_map(|interface| interface.to.as_ref());
    for to in ends.chain(scene.interfaces().map(|(_, interface)| &interface.to)) {
        if let To::Link(link) = to {
            index.entry(format!("link {link}")).or_insert_with(|| {
                let line = links.get(link).into_iter().flatten().map(|line| short(line));
                diagram.boxes.push(Box {
                    text: [link.clone(), "link".into()].into_iter().chain(line).collect(),
                    hint: format!("link {link}"),
                    ..Box::default()
                });
                diagram.boxes.len() - 1
            });
        }
    }
    for host in &scene.hosts {
        let me = diagram.boxes.len();
        let mut text = vec![host.name.clone(), "host".to_owned()];
        for interface in &host.interfaces {
            text.push(format!("{} {}", interface.name, interface.addresses.join(" ")));
            let to = interface.to.as_ref().and_then(|to| index.get(&place(to)));
            if let Some(to) = to {
                diagram.lines.push(Line { from: (me, 0), to: (*to, 0), ..Line::default() });
            }
        }
        let text: Vec<String> = text.iter().map(|line| short(line)).collect();
        let hint = format!("host {}", host.name);
        diagram.boxes.push(Box { text, hint, kind: Kind::Strong, rank: Some(0), ..Box::default() });
    }
    for router in &scene.routers {
        let group = 1 + slices.iter().position(|slice| *slice == router.slice()).unwrap_or(0);
        let me = diagram.boxes.len();
        diagram.boxes.push(Box {
            text: vec![router.name.clone(), short(&router.fast_path)],
            hint: format!(
                "router {} of slice {}\n{}",
                router.name,
                router.slice(),
                router.fast_path
            ),
            kind: Kind::Strong,
            group,
            ..Box::default()
        });
        for interface in &router.interfaces {
            let full = format!("{}.{}", router.name, interface.name);
            let at = diagram.boxes.len();
            diagram.boxes.push(interface_box(&full, interface, rates.get(&full), group));
            let dashed = matches!(interface.to, To::Link(_));
            if let Some(to) = index.get(&place(&interface.to)) {
                diagram.lines.push(Line { from: (*to, 0), to: (at, 0), dashed, arrow: false });
            }
            diagram.lines.push(Line { from: (at, 0), to: (me, 0), ..Line::default() });
        }
    }
    rank(&mut diagram);
    diagram
}

fn place(to: &To) -> String {
    match to {
        To::Port(port) => format!("port {port}"),
        To::Link(link) => format!("link {link}"),
    }
}

fn interface_box(full: &str, interface: &Interface, rates: Option<&[f64; 4]>, group: usize) -> Box {
    let mut text = vec![interface.name.clone()];
    text.extend(interface.addresses.iter().take(4).cloned());
    if interface.addresses.len() > 4 {
        text.push(format!("and {} more", interface.addresses.len() - 4));
    }
    if !interface.matches.is_empty() && interface.matches != "MAC" {
        text.push(short(&interface.matches));
    }
    text.push(line::mac(&interface.mac));
    if let Some([rx, tx, rx_bits, tx_bits]) = rates
        && rx + tx > 0.0
    {
        text.push(format!("in  {} {}", scaled(*rx, "p/s"), scaled(*rx_bits, "b/s")));
        text.push(format!("out {} {}", scaled(*tx, "p/s"), scaled(*tx_bits, "b/s")));
    }
    let hint = format!(
        "interface {full}, {}, MTU {}\n{}",
        line::mac(&interface.mac),
        interface.mtu,
        interface.addresses.join("\n")
    );
    Box { text, hint, kind: Kind::Light, group, ..Box::default() }
}

/// Sets ranks by the distance from hosts and ports. Boxes without a connection to one of these
/// start a rank of their own.
fn rank(diagram: &mut Diagram) {
    let count = diagram.boxes.len();
    let mut near = vec![Vec::new(); count];
    for line in &diagram.lines {
        near[line.from.0].push(line.to.0);
        near[line.to.0].push(line.from.0);
    }
    let mut queue: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    let mut start = 0;
    // Hosts come before ports, whether or not ports exist.
    queue.extend((0..count).filter(|index| diagram.boxes[*index].rank == Some(0)));
    for (index, of) in diagram.boxes.iter_mut().enumerate() {
        if of.kind == Kind::Outer {
            of.rank = Some(1);
            queue.push_back(index);
        }
    }
    loop {
        while let Some(at) = queue.pop_front() {
            let next = diagram.boxes[at].rank.unwrap_or(0) + 1;
            for &other in &near[at] {
                if diagram.boxes[other].rank.is_none() {
                    diagram.boxes[other].rank = Some(next);
                    queue.push_back(other);
                }
            }
        }
        match (start..count).find(|at| diagram.boxes[*at].rank.is_none()) {
            None => break,
            Some(at) => {
                diagram.boxes[at].rank = Some(1);
                queue.push_back(at);
                start = at + 1;
            }
        }
    }
    let first = diagram.boxes.iter().filter_map(|of| of.rank).min().unwrap_or(0);
    for of in &mut diagram.boxes {
        of.rank = of.rank.map(|rank| rank - first);
    }
}

fn short(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(LONGEST - 1).collect();
    cut.push('…');
    cut
}

/// Draws elements and their connections, from top to bottom.
pub(crate) fn elements(router: &str, view: &GraphView) -> Diagram {
    let most = |element: usize, outputs: bool| {
        let ports = view.connections.iter().filter_map(|c| match outputs {
            true if c.from == element => Some(c.output + 1),
            false if c.to == element => Some(c.input + 1),
            _ => None,
        });
        ports.max().unwrap_or(0)
    };
    let boxes = view.elements.iter().enumerate().map(|(index, element)| {
        let made_up = element.name.starts_with(&format!("{}@", element.class));
        let (inputs, outputs) = (most(index, false), most(index, true));
        let head = if made_up {
            element.class.clone()
        } else {
            format!("{} :: {}", element.name, element.class)
        };
        let mut text = vec![head];
        if !element.config.is_empty() {
            text.push(short(&element.config));
        }
        if inputs > 0 {
            text.push(format!("{} packets", thousands(element.packets)));
        }
        let ends = inputs == 0 || outputs == 0;
        Box {
            text,
            hint: format!("{} :: {}({})", element.name, element.class, element.config),
            kind: if ends { Kind::Outer } else { Kind::Plain },
            inputs,
            outputs,
            ..Box::default()
        }
    });
    let lines = view.connections.iter().map(|c| Line {
        from: (c.from, c.output),
        to: (c.to, c.input),
        dashed: c.pull,
        arrow: true,
    });
    Diagram {
        title: format!("Elements of {router}"),
        sideways: false,
        boxes: boxes.collect(),
        lines: lines.collect(),
    }
}

/// The digits in groups of three.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_capture::scene::{Host, HostInterface, Port, Router};
    use serde_json::json;

    #[test]
    fn links_show_what_they_do_and_no_port_floats() {
        let host = |name: &str, link: &str| Host {
            name: name.into(),
            interfaces: vec![HostInterface {
                name: "eth0".into(),
                addresses: vec![],
                to: Some(To::Link(link.into())),
            }],
        };
        let interface = |name: &str, to: To| Interface {
            id: 1,
            name: name.into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            addresses: vec![],
            matches: String::new(),
            to,
        };
        let port = |name: &str| Port { name: name.into(), ..Port::default() };
        let scene = Scene {
            ports: vec![port("pc1.eth0"), port("left")],
            hosts: vec![host("pc1", "wan")],
            routers: vec![Router {
                name: "red/r1".into(),
                fast_path: "builtin: ipv4".into(),
                interfaces: vec![
                    interface("in", To::Port("left".into())),
                    interface("up", To::Link("wan".into())),
                ],
            }],
        };
        let document = json!({"name": "wan", "rate": "10Mb/s", "delay": "20ms",
            "b_to_a": {"loss": "1%"}});
        let links = Links::from([("wan".to_owned(), line_of(&document))]);
        let diagram = topology(&scene, &Rates::new(), &links);
        let texts: Vec<String> = diagram.boxes.iter().map(|one| one.text.join("|")).collect();
        let wan = "wan|link|rate 10Mb/s|delay 20ms|b to a: loss 1%";
        assert!(texts.iter().any(|text| text == wan), "{texts:?}");
        assert!(!texts.iter().any(|text| text.starts_with("pc1.eth0")), "{texts:?}");
        // Every box has a line to another box.
        for (index, text) in texts.iter().enumerate() {
            let is_joined = |line: &Line| line.from.0 == index || line.to.0 == index;
            assert!(diagram.lines.iter().any(is_joined), "{text}");
        }
    }
}
