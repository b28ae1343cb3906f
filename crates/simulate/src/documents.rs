//! Random documents: few objects with few variants each, so that operations often concern the same
//! objects.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use europa_api::{Bundle, Document, Documents, Kept, Source};
use fastrand::Rng;

/// A document, ready to be used.
#[derive(Clone)]
pub(crate) struct Ready {
    document: Document,
    kept: Kept,
    text: String,
}

/// Kind, number within the kind, and variant of each object.
pub(crate) type Choice = BTreeMap<(u8, u8), u8>;

const PORT: u8 = 0;
const SLICE: u8 = 1;
const LINK: u8 = 2;
const HOST: u8 = 3;
const ROUTER: u8 = 4;
const FILTERS: u8 = 5;
const USER: u8 = 6;

/// Kinds, with the number of objects of each and of variants of each.
const KINDS: [(u8, u8, u8); 7] = [
    (PORT, 4, 3),
    (SLICE, 3, 3),
    (LINK, 3, 6),
    (HOST, 4, 6),
    (ROUTER, 6, 16),
    (FILTERS, 2, 2),
    (USER, 2, 3),
];

thread_local! {
    /// Each text is read once.
    static READY: RefCell<BTreeMap<String, Rc<Ready>>> = const { RefCell::new(BTreeMap::new()) };
    /// The same by their stored form.
    static KEPT: RefCell<HashMap<String, Rc<Ready>>> = RefCell::new(HashMap::new());
}

/// A few objects to begin with.
pub(crate) fn first(rng: &mut Rng) -> Choice {
    let mut choice = Choice::new();
    for _ in 0..rng.usize(3..16) {
        change_one(&mut choice, rng);
    }
    choice
}

/// The same choice with some objects added, changed or removed.
pub(crate) fn next(choice: &Choice, rng: &mut Rng) -> Choice {
    let mut choice = choice.clone();
    if rng.u8(..) < 6 {
        choice.clear();
    }
    for _ in 0..rng.usize(1..5) {
        change_one(&mut choice, rng);
    }
    choice
}

/// Kinds, repeated according to how often they are changed.
const OFTEN: [u8; 17] = [
    PORT, SLICE, LINK, LINK, LINK, HOST, HOST, HOST, ROUTER, ROUTER, ROUTER, ROUTER, ROUTER,
    ROUTER, ROUTER, FILTERS, USER,
];

fn change_one(choice: &mut Choice, rng: &mut Rng) {
    let kind = OFTEN[rng.usize(..OFTEN.len())];
    let (_, count, variants) = KINDS[usize::from(kind)];
    let number = rng.u8(..count);
    if choice.contains_key(&(kind, number)) && rng.u8(..5) == 0 {
        choice.remove(&(kind, number));
        return;
    }
    choice.insert((kind, number), rng.u8(..variants));
    if kind == ROUTER {
        choice.entry((SLICE, number % 3)).or_default();
        choice.entry((PORT, number % 4)).or_default();
    }
}

/// The documents of a choice and their stored form. Documents that exist in `before` come first.
/// Dangling references are omitted.
pub(crate) fn documents(choice: &Choice, before: &[Kept]) -> (Documents, Vec<Kept>) {
    let mut all = standing(choice);
    let place: HashMap<_, _> = before.iter().map(|kept| &kept.key).zip(0..).collect();
    all.sort_by_key(|ready| place.get(&ready.kept.key).copied().unwrap_or(usize::MAX));
    (assemble(&all), all.iter().map(|ready| ready.kept.clone()).collect())
}

/// The same as YAML.
pub(crate) fn yaml(choice: &Choice) -> String {
    let all: Vec<String> = standing(choice).iter().map(|ready| ready.text.clone()).collect();
    all.join("---\n")
}

/// A choice that a machine of veth devices can carry out: it has no tunnel to another machine, no
/// router whose program ends at once, and no device that hides VLAN tags.
pub(crate) fn for_real(mut choice: Choice) -> Choice {
    for ((kind, number), variant) in &mut choice {
        match (*kind, *number, *variant) {
            (LINK, _, tunnel) => *variant = tunnel % 3,
            (ROUTER, _, 8) | (ROUTER, 3, 2) => *variant = 0,
            _ => {}
        }
    }
    choice
}

/// Objects of a choice without dangling references.
fn standing(choice: &Choice) -> Vec<Rc<Ready>> {
    let has = |kind: u8, number: u8| choice.contains_key(&(kind, number));
    let mut all = Vec::new();
    // The ends of each link: their number, and the number of routers among them.
    let mut ends: HashMap<String, (u8, u8)> = HashMap::new();
    let mut routers = Vec::new();
    // Routers come first and links last, as links depend on the objects at their ends.
    let order = |kind: u8| [0, 1, 4, 3, 2, 5, 6][usize::from(kind)];
    let mut choice: Vec<_> =
        choice.iter().map(|((kind, number), v)| (*kind, *number, *v)).collect();
    choice.sort_by_key(|(kind, number, _)| (order(*kind), *number));
    for (kind, number, variant) in choice {
        let text = text(kind, number, variant);
        let links: Vec<&str> =
            text.match_indices("link: ").filter_map(|(at, _)| text.get(at + 6..at + 8)).collect();
        let room = links.iter().all(|link| ends.get(*link).is_none_or(|ends| ends.0 < 2));
        let stands = match kind {
            HOST => room,
            // A link between two hosts has no link effects. A link to another machine has one end
            // here.
            LINK if variant > 2 => ends.get(&format!("l{number}")).is_some_and(|ends| ends.0 == 1),
            LINK => ends.get(&format!("l{number}")).is_some_and(|ends| ends.1 > 0),
            PORT | SLICE => true,
            USER => variant == 0 || has(SLICE, number % 3),
            ROUTER => {
                room && has(SLICE, number % 3) && (uses_no_port(variant) || has(PORT, number % 4))
            }
            _ => routers.contains(&number),
        };
        if !stands {
            continue;
        }
        for link in links {
            let ends = ends.entry(link.to_owned()).or_default();
            ends.0 += 1;
            ends.1 += u8::from(kind == ROUTER);
        }
        if kind == ROUTER {
            routers.push(number);
        }
        all.push(ready(kind, number, variant));
    }
    all
}

/// The documents from their stored form.
pub(crate) fn restore(kept: &[Kept]) -> Documents {
    let known = |kept: &Kept| KEPT.with_borrow(|all| all.get(&kept.document).cloned());
    assemble(&kept.iter().filter_map(known).collect::<Vec<_>>())
}

fn assemble(all: &[Rc<Ready>]) -> Documents {
    let mut documents = Documents::default();
    for ready in all {
        match ready.document.clone() {
            Document::Port(one) => documents.ports.push(one),
            Document::Slice(one) => documents.slices.push(one),
            Document::Link(one) => documents.links.push(*one),
            Document::Host(one) => documents.hosts.push(*one),
            Document::Router(one) => documents.routers.push(*one),
            Document::Filters(one) => documents.filters.push(one),
            Document::Flow(one) => documents.flows.push(*one),
            Document::User(one) => documents.users.push(one),
            Document::Node(one) => documents.nodes.push(one),
        }
    }
    documents.complete();
    documents
}

fn uses_no_port(variant: u8) -> bool {
    variant >= 9
}

fn ready(kind: u8, number: u8, variant: u8) -> Rc<Ready> {
    let text = text(kind, number, variant);
    READY.with_borrow_mut(|all| {
        let ready =
            all.entry(text.clone()).or_insert_with(|| Rc::new(read(kind, number, &text))).clone();
        KEPT.with_borrow_mut(|kept| kept.insert(ready.kept.document.clone(), ready.clone()));
        ready
    })
}

/// Reads a document together with others that it may name.
fn read(kind: u8, number: u8, text: &str) -> Ready {
    let mut all = vec![text.to_owned()];
    if kind == ROUTER || kind == FILTERS || kind == USER {
        all.push(format!("kind: slice\nname: s{}\n", number % 3));
        all.push(format!("kind: port\nname: p{}\ndevice: d\n", number % 4));
    }
    if kind == FILTERS {
        let (slice, router) = (number % 3, number);
        all.push(format!(
            "kind: router\nname: r{router}\nslice: s{slice}\ninterfaces: {{a: {{port: p{}}}}}\n\
             fast_path: {{click: Idle}}\n",
            number % 4
        ));
    }
    // Every link has two ends.
    let ends = text.match_indices("link: ").filter_map(|(at, _)| text.get(at + 6..at + 8));
    let mut ends: Vec<&str> = ends.collect();
    let own_link = format!("l{number}");
    if kind == LINK {
        // The other end of a tunnel is on another machine.
        ends = if text.contains("tunnel") { Vec::new() } else { vec![&own_link] };
        all.push("kind: slice\nname: s0\n".into());
        all.push(format!(
            "kind: router\nname: z\nslice: s0\ninterfaces: {{x: {{link: {own_link}}}}}\n\
             fast_path: {{click: Idle}}\n"
        ));
    }
    for (number, link) in ends.into_iter().enumerate() {
        all.push(format!("kind: host\nname: z{number}\ninterfaces: {{x: {{link: {link}}}}}\n"));
    }
    let source = Source { path: "simulated.yaml".into(), text: all.join("---\n") };
    let bundle = Bundle { sources: vec![source], ..Bundle::default() };
    let documents = bundle.documents().unwrap_or_else(|p| panic!("{}", p.render(false)));
    let name = |document: &Document| document.key();
    let own = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or_default();
    let found = documents.iter().find(|document| {
        let key = name(document);
        key.name == own || key.name.ends_with(&format!("/{own}"))
    });
    let document = found.unwrap_or_else(|| panic!("no {own} in\n{text}"));
    let kept = Kept::of(&document).unwrap_or_else(|error| panic!("{error}"));
    Ready { document, kept, text: text.to_owned() }
}

fn text(kind: u8, number: u8, variant: u8) -> String {
    match kind {
        PORT => {
            let more = ["", "rate: 100Mb/s\n", "mtu: 1400\n"][usize::from(variant)];
            format!("kind: port\nname: p{number}\ndevice: d{number}\n{more}")
        }
        SLICE => {
            let links = format!("links: {{ipv4: 10.{number}.0.0/16}}\n");
            let more = ["", &links, "reservation: {filters: 100}\n"][usize::from(variant)];
            format!("kind: slice\nname: s{number}\n{more}")
        }
        LINK => link_text(number, variant),
        HOST => host_text(number, variant),
        ROUTER => router_text(number, variant),
        FILTERS => {
            let action = ["drop", "count"][usize::from(variant)];
            format!(
                "kind: filters\nname: f{number}\nslice: s{}\nrules:\n  - {{priority: 1, action: {action}}}\n",
                number % 3
            )
        }
        _ => {
            let role = |role: &str| format!("roles: {{s{}: {role}}}\n", number % 3);
            let more = [String::new(), role("viewer"), role("owner")][usize::from(variant)].clone();
            format!("kind: user\nname: u{number}\n{more}")
        }
    }
}

/// A link's document.
fn link_text(number: u8, variant: u8) -> String {
    let tunnel = |epoch: u8, remote: u8| {
        format!(
            "tunnel: {{local: 192.0.2.1, remote: 192.0.2.{remote}, id: {number}, \
             epoch: {epoch}, send_key: \"0000000000000001\", \
             receive_key: \"0000000000000002\"}}\n"
        )
    };
    let more = match variant {
        0 => String::new(),
        1 => "delay: 5ms\n".to_owned(),
        2 => "loss: 1%\n".to_owned(),
        3 => tunnel(1, 2),
        4 => tunnel(2, 2) + "delay: 5ms\n",
        _ => tunnel(2, 3),
    };
    format!("kind: link\nname: l{number}\n{more}")
}

/// A host's document.
fn host_text(number: u8, variant: u8) -> String {
    // Two hosts may share a link, without a router; others are at routers' links.
    let link = number % 3;
    let more = match variant {
        0 => format!("interfaces: {{e: {{link: l{link}}}}}\n"),
        1 => format!("interfaces: {{e: {{link: l{link}, addresses: [10.9.0.2/24]}}}}\n"),
        2 => format!(
            "interfaces: {{e: {{link: l{link}, addresses: [10.9.0.2/24]}}}}\n\
             gateway: 10.9.0.1\n"
        ),
        3 => format!("interfaces: {{e: {{link: l{link}, mtu: 1400}}}}\nrun: [\"true\"]\n"),
        4 => format!("interfaces: {{e: {{port: hp{number}}}}}\n"),
        _ => format!("interfaces: {{e: {{link: l{link}}}, f: {{port: hq{number}}}}}\n"),
    };
    format!("kind: host\nname: h{number}\n{more}")
}

/// A router's document.
fn router_text(number: u8, variant: u8) -> String {
    let (slice, port, link) = (number % 3, number % 4, number % 3);
    let vlan = 10 + number;
    let more = match variant {
        0 => format!("interfaces: {{a: {{port: p{port}}}}}\nfast_path: {{click: Idle}}\n"),
        1 => format!(
            "interfaces: {{a: {{port: p{port}}}}}\nfast_path: {{click: \"Idle -> Discard\"}}\n"
        ),
        2 => format!(
            "interfaces: {{a: {{port: p{port}, match: {{vlan: {vlan}}}}}}}\n\
             fast_path: {{click: Idle}}\n"
        ),
        3 => format!(
            "interfaces: {{a: {{port: p{port}}}, b: {{link: l{link}}}}}\n\
             fast_path: {{click: Idle}}\n"
        ),
        4 => format!(
            "interfaces: {{a: {{port: p{port}}}, b: {{link: l{link}}}}}\n\
             fast_path: {{click: Idle}}\nrun: inline\n"
        ),
        5 => format!(
            "interfaces: {{a: {{port: p{port}, addresses: [10.7.{number}.1/24]}}}}\n\
             fast_path: {{builtin: ipv4}}\n"
        ),
        6 => format!(
            "interfaces: {{a: {{port: p{port}, addresses: [10.7.{number}.1/24]}}}}\n\
             fast_path: {{builtin: ipv4, routes: [{{to: 10.8.0.0/16, via: 10.7.{number}.2}}]}}\n"
        ),
        // Two slow paths that differ in a file.
        7 | 14 => format!(
            "interfaces: {{a: {{port: p{port}, addresses: [10.7.{number}.1/24]}}}}\n\
             fast_path: {{builtin: ipv4, routes: kernel}}\n\
             slow_path:\n  files: [{{path: /run/x, text: t{variant}}}]\n  \
             run: [{{name: a, command: [/bin/true, /run/x], reload: HUP}}]\n"
        ),
        8 => format!("interfaces: {{a: {{port: p{port}}}}}\nfast_path: {{program: [/bin/true]}}\n"),
        9 => format!("interfaces: {{b: {{link: l{link}}}}}\nfast_path: {{click: Idle}}\n"),
        // Two slow paths that differ in an uplink and a command.
        10 | 15 => format!(
            "interfaces: {{b: {{link: l{link}, addresses: [10.6.{number}.1/24]}}}}\n\
             fast_path: {{builtin: ipv4, routes: kernel}}\n\
             slow_path: {{uplink: {}, run: [{{name: a, command: [/bin/true, t{variant}]}}]}}\n",
            variant == 10
        ),
        11 => format!(
            "interfaces: {{b: {{link: l{link}, addresses: [10.6.{number}.1/24]}}}}\n\
             fast_path: {{builtin: ipv4}}\nrun: inline\n"
        ),
        12 => format!(
            "interfaces: {{b: {{link: l{link}}}}}\nfast_path: {{click: Idle}}\npool: {{slots: 1024}}\n"
        ),
        _ => format!(
            "interfaces: {{b: {{link: l{link}}}, c: {{link: m{number}, \
             addresses: [10.5.{number}.1/24]}}}}\nfast_path: {{builtin: ipv4}}\n"
        ),
    };
    format!("kind: router\nname: r{number}\nslice: s{slice}\n{more}")
}
