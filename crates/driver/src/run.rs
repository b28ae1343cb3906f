//! A whole run: loads, loops, and reads handlers at the end.

use std::cell::Cell;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use europa_engine::{Arena, Registry, Router};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::chatter_socket::ChatterSocket;
use crate::clock::Clock;
use crate::control_socket::ControlSocket;
use crate::devices::{Listeners, PacketDevices};
use crate::globals::{Pending, add_hotconfig, add_texts, add_timewarp};
use crate::kernel_tun::from_host::FromHost;
use crate::kernel_tun::to_host::ToHost;
use crate::kernel_tun::to_host_sniffers::ToHostSniffers;
use crate::kernel_tun::{KernelTun, kernel_tap::KernelTap};
use crate::load::{self, Text};
use crate::options::Options;
use crate::rounds::{self, Running};

/// Packet buffers: as many as large queues hold.
const SLOTS: u32 = 32768;
/// Bytes of a buffer: a jumbo frame with room in front. Memory that no packet has used costs
/// nothing.
const SLOT_BYTES: usize = 10240;

/// All classes: those of the library, and classes that need more than a sandbox allows.
pub fn registry() -> Registry {
    let mut registry = europa_elements::registry();
    registry.add_to::<ChatterSocket>("Control and configuration");
    registry.add_to::<ControlSocket>("Control and configuration");
    registry.add_to::<FromHost>("Devices and the host");
    registry.add_to::<KernelTap>("Devices and the host");
    registry.add_to::<KernelTun>("Devices and the host");
    registry.add_to::<ToHost>("Devices and the host");
    registry.add_to::<ToHostSniffers>("Devices and the host");
    registry
}

/// The parts that are needed to make the first router and its replacements.
#[derive(Clone)]
struct Maker {
    options: Rc<Options>,
    registry: Rc<Registry>,
    arena: Arena,
    clock: Rc<Cell<Clock>>,
    pending: Pending<Running>,
    listeners: Listeners,
}

impl Maker {
    /// Makes a router; `swaps` is whether another one is running.
    fn make(&self, text: &Text, swaps: bool) -> Result<(Running, europa_click::Graph), String> {
        let options = &self.options;
        let path = options.path.as_deref();
        let mut text = text.clone();
        let retries = if swaps { ", RETRIES 1, RETRY_WARNINGS false" } else { "" };
        let checked = load::check(&text, &self.registry, &options.defines, path)?;
        if options.warnings {
            say(&load::warnings(&checked.warnings));
        }
        let asks = options.exit_handler.is_some() || !options.handlers.is_empty();
        let mut graph = load::graph(&checked, options.simulated.is_some(), asks);
        for (number, socket) in options.sockets.iter().enumerate() {
            let suffix = if number == 0 { String::new() } else { format!("@{number}") };
            let arguments: Vec<&str> =
                socket.split(", ").chain(retries.split(", ").skip(1)).collect();
            graph.add(&format!("click_driver@@ControlSocket{suffix}"), "ControlSocket", &arguments);
        }
        let mut devices = PacketDevices::new(&self.arena, &self.listeners, &options.ports);
        for problem in devices.open_for(&graph, &self.registry) {
            say(&format!("{problem}\n"));
        }
        let clock = self.clock.get();
        let now_ns = clock.now_ns();
        let mut router = load::build(
            &checked,
            &graph,
            &self.registry,
            &self.arena,
            &devices,
            now_ns,
            options.warnings,
        )?;
        say(&load::notes(&checked, router.warnings(), options.warnings));
        router.set_wall_offset_ns(clock.wall_offset_ns);
        // The user of this run has requested the lines, and reads them as with Click.
        router.set_line_limit(None);
        if options.profile {
            router.measure();
        }
        add_texts(&mut router, &std::mem::take(&mut text.text), &checked, &self.registry);
        add_timewarp(&mut router, &self.clock);
        if options.reconfigure {
            let maker = self.clone();
            add_hotconfig(&mut router, &self.pending, move |text| {
                let text = Text { text: text.to_owned(), file: "config".to_owned() };
                maker.make(&text, true).map(|(running, _)| running).map_err(|errors| {
                    say(&errors);
                    errors.trim_end().to_owned()
                })
            });
        }
        Ok((Running { router, devices }, checked))
    }
}

/// Writes to standard error. A closed reader is no reason to end.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Runs a configuration; returns the exit code.
pub fn run(options: Options) -> u8 {
    run_with(options, registry(), |costs| say(&table(costs)))
}

/// Runs a configuration made of these classes; returns the exit code. With [`Options::profile`],
/// `measured` gets the elements' profile at the end, in the order of the flat configuration.
pub fn run_with(options: Options, registry: Registry, measured: impl FnOnce(&[Cost])) -> u8 {
    let text = match load::read(&options.source) {
        Ok(text) => text,
        Err(error) => {
            say(&format!("{error}\n"));
            return 1;
        }
    };
    let clock = options.simulated.map_or_else(Clock::real, Clock::simulated);
    let maker = Maker {
        registry: Rc::new(registry),
        arena: Arena::heap(SLOTS, SLOT_BYTES),
        clock: Rc::new(Cell::new(clock)),
        pending: Pending::default(),
        listeners: Listeners::default(),
        options: Rc::new(options),
    };
    let (mut running, checked) = match maker.make(&text, false) {
        Ok(made) => made,
        Err(errors) => {
            say(&errors);
            return 1;
        }
    };
    let options = maker.options.clone();
    let mut code = 0;
    if let Some(file) = &options.output {
        let flat = checked.to_string();
        if file == "-" {
            print(&flat);
        } else if let Err(error) = std::fs::write(file, flat) {
            say(&format!("{file}: {}\n", load::system(&error)));
            code = 1;
        }
    }
    let (before, begun) = (used(), Instant::now());
    if !options.quit && !checked.elements.is_empty() {
        if let Err(error) = rounds::run(&mut running, &maker.clock, &maker.pending) {
            say(&format!("{}\n", load::system(&error)));
            code = 1;
        }
    } else if !options.quit && options.warnings {
        say(&format!("{}: configuration has no elements, exiting\n", text.file));
    }
    for loss in running.devices.losses() {
        say(&loss);
    }
    if options.time {
        print(&times(before, used(), begun.elapsed()));
    }
    if options.profile {
        measured(&costs(&mut running.router));
    }
    if !read_handlers(&mut running.router, &options.handlers) {
        code = 1;
    }
    match &options.exit_handler {
        Some(path) => exit_code(&mut running.router, path),
        None => code,
    }
}

/// User and system time of this process so far.
fn used() -> (TimeVal, TimeVal) {
    let none = || (TimeVal::new(0, 0), TimeVal::new(0, 0));
    let times = |usage: Usage| (usage.user_time(), usage.system_time());
    getrusage(UsageWho::RUSAGE_SELF).map_or_else(|_| none(), times)
}

fn times(before: (TimeVal, TimeVal), after: (TimeVal, TimeVal), passed: Duration) -> String {
    let part = |time: TimeVal| format!("{}.{:03}", time.tv_sec(), time.tv_usec() / 1000);
    let hundredths = passed.as_millis().div_ceil(10);
    format!(
        "{}u {}s {}:{:02}.{:02}\n",
        part(after.0 - before.0),
        part(after.1 - before.1),
        hundredths / 6000,
        hundredths / 100 % 60,
        hundredths % 100
    )
}

/// An element's work and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets that reached it.
    pub packets: u64,
    /// Calls with packets.
    pub calls: u64,
    /// Time spent in the element, in nanoseconds.
    pub spent_ns: u64,
    /// The element's fraction of all elements' time, 0 to 1.
    pub share: f64,
}

impl Cost {
    /// Nanoseconds a packet.
    pub fn each_ns(&self) -> f64 {
        self.spent_ns as f64 / self.packets.max(1) as f64
    }
}

/// The work of all elements, in their order.
fn costs(router: &mut Router) -> Vec<Cost> {
    let names = router.names().to_vec();
    let spent = |router: &Router, index| router.spent_ns(index).unwrap_or(0);
    let total: u64 = (0..names.len()).map(|index| spent(router, index)).sum();
    let cost = |(index, name): (usize, String)| {
        let spent_ns = spent(router, index);
        let account = router.account(index).unwrap_or_default();
        Cost {
            class: router.read(&format!("{name}.class"), "").unwrap_or_default(),
            name,
            packets: account.packets,
            calls: account.batches,
            spent_ns,
            share: spent_ns as f64 / total.max(1) as f64,
        }
    };
    names.into_iter().enumerate().map(cost).collect()
}

/// A line for each element with work, the most expensive first.
fn table(costs: &[Cost]) -> String {
    let mut rows: Vec<&Cost> = costs.iter().filter(|c| c.spent_ns > 0 || c.packets > 0).collect();
    rows.sort_by_key(|cost| std::cmp::Reverse(cost.spent_ns));
    let mut text =
        format!("{:>6} {:>12} {:>12} {:>10} element\n", "share", "packets", "calls", "ns/packet");
    for cost in rows {
        text += &format!(
            "{:>5.1}% {:>12} {:>12} {:>10.1} {} :: {}\n",
            100.0 * cost.share,
            cost.packets,
            cost.calls,
            cost.each_ns(),
            cost.name,
            cost.class,
        );
    }
    text
}

/// Prints the values of handlers; returns whether all answered.
fn read_handlers(router: &mut Router, handlers: &[String]) -> bool {
    let mut good = true;
    for path in handlers {
        let (elements, name) = match path.split_once('.') {
            Some((pattern, name)) => match matching(router, pattern, name) {
                Ok(elements) => (elements, name),
                Err(error) => {
                    say(&format!("{error}\n"));
                    good = false;
                    continue;
                }
            },
            None => (Vec::new(), path.as_str()),
        };
        // Answers to a pattern show the element's name even if only one element matches.
        let exact = elements.first().is_none_or(|first| path.split('.').next() == Some(first));
        let several = handlers.len() > 1 || elements.len() > 1 || !exact;
        let paths = match path.contains('.') {
            true => elements.iter().map(|element| format!("{element}.{name}")).collect(),
            false => vec![path.clone()],
        };
        for path in paths {
            match router.read(&path, "") {
                Ok(mut answer) => {
                    if several {
                        print(&format!("{path}:\n"));
                    }
                    if !answer.is_empty() && !answer.ends_with('\n') {
                        answer.push('\n');
                    }
                    print(&answer);
                    if several {
                        print("\n");
                    }
                }
                Err(error) => {
                    say(&format!("{error}\n"));
                    good = false;
                }
            }
        }
    }
    good
}

/// Elements with this name; otherwise elements with a matching name, or of this class, that have
/// the handler.
fn matching(router: &mut Router, pattern: &str, handler: &str) -> Result<Vec<String>, String> {
    if router.find(pattern).is_some() {
        return Ok(vec![pattern.to_owned()]);
    }
    let is_pattern = pattern.contains(['*', '?', '[']);
    let mut found = Vec::new();
    let mut any = false;
    for (index, name) in router.names().to_vec().into_iter().enumerate() {
        let fits = match is_pattern {
            true => glob(pattern.as_bytes(), name.as_bytes()),
            false => router.read(&format!("{name}.class"), "").is_ok_and(|class| class == pattern),
        };
        any |= fits;
        if fits && router.handlers(index).iter().any(|(own, _)| own == handler) {
            found.push(name);
        }
    }
    let what = if is_pattern { "no element matching" } else { "no element" };
    if any { Ok(found) } else { Err(format!("{what} '{pattern}'")) }
}

/// Whether a shell pattern fits a name.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            glob(rest, name) || name.split_first().is_some_and(|(_, left)| glob(pattern, left))
        }
        (Some((b'?', rest)), Some((_, left))) => glob(rest, left),
        (Some((b'[', rest)), Some((byte, left))) => {
            let Some(end) = rest.iter().position(|b| *b == b']') else { return false };
            let (set, after) = (rest.get(..end).unwrap_or_default(), rest.get(end + 1..));
            let (not, set) = match set.split_first() {
                Some((b'^' | b'!', set)) => (true, set),
                _ => (false, set),
            };
            in_set(set, *byte) != not && glob(after.unwrap_or_default(), left)
        }
        (Some((own, rest)), Some((byte, left))) => own == byte && glob(rest, left),
        _ => false,
    }
}

/// Whether a set like `[a-z_]` contains a character.
fn in_set(mut set: &[u8], byte: u8) -> bool {
    while let Some((first, rest)) = set.split_first() {
        if let [b'-', last, after @ ..] = rest {
            if (*first..=*last).contains(&byte) {
                return true;
            }
            set = after;
        } else if *first == byte {
            return true;
        } else {
            set = rest;
        }
    }
    false
}

/// The exit code from a handler: a number, or true for 0. 255 for other values.
fn exit_code(router: &mut Router, path: &str) -> u8 {
    const FAILED: u8 = 255;
    let (path, parameter) = path.split_once(' ').unwrap_or((path, ""));
    match router.read(path, parameter) {
        Ok(answer) => match answer.trim() {
            "true" | "yes" => 0,
            "false" | "no" => 1,
            // The system truncates the value.
            text => text.parse::<i64>().map_or_else(
                |_| {
                    say("exit handler value should be integer\n");
                    FAILED
                },
                |code| code as u8,
            ),
        },
        Err(error) => {
            say(&format!("{error}\n"));
            FAILED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?", "ab", true),
            ("a[b-d]", "ac", true),
            ("a[^b-d]", "ac", false),
            ("*", "", true),
            ("[", "a", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
