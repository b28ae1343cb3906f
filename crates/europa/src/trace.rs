//! `trace`: follows single packets through a router.

mod cage;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::Object;
use europa_capture::{CaptureError, Packet, Session, change, compile, line};
use europa_client::ClientError;
use europa_engine::trace::{Event, Fate, Fetched, Hop, What};
use europa_node::Instance;
use europa_substrate::tap::{Direction, Way};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::cage::Caged;
use crate::exit::Failure;
use crate::up::client;
use crate::{complete, handler, routers};

/// Interval of requests for the router's events.
const EVERY: Duration = Duration::from_millis(50);
/// Longest time from the moment when a packet leaves its router until a capture shows it leaving
/// the node.
const PATIENCE: Duration = Duration::from_millis(150);
/// Time to wait for packets that an element holds, once all packets have been chosen.
const KEPT_FOR: Duration = Duration::from_secs(3);

/// Arguments of `trace`.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// SLICE/ROUTER.
    #[arg(add = ArgValueCompleter::new(complete::routers))]
    router: String,
    /// A pcap filter, such as 'icmp and host 10.0.2.2'. Default: all packets.
    filter: Option<String>,
    /// Number of packets to follow.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Bytes of a packet to read.
    #[arg(short, long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(34..=16384))]
    snaplen: u32,
    /// Print JSON, an object a line.
    #[arg(long)]
    json: bool,
}

/// The trace in the router; it ends when this is dropped. If a router gets no requests for some
/// time, it ends the trace itself.
struct Tracing<'a> {
    instance: &'a Instance,
    router: &'a str,
}

impl Tracing<'_> {
    fn fetch(&self) -> Result<Fetched, Failure> {
        let text = handler::read(self.instance, self.router, "trace")?;
        serde_json::from_str(&text).map_err(|error| format!("the router's answer: {error}").into())
    }
}

impl Drop for Tracing<'_> {
    fn drop(&mut self) {
        // The router may have ended.
        let _ = handler::write(self.instance, self.router, "trace", "");
    }
}

/// An error that lists the routers, if this one is unknown.
fn unknown_router(instance: &Instance, router: &str, error: CaptureError) -> Failure {
    // If the router is unknown, the node's refusal lists the names.
    match routers::path(router).map(|path| client(instance).get::<Object>(&path)) {
        Ok(Err(unknown @ ClientError::Problem(_))) => unknown.into(),
        Err(no_name) if matches!(error, CaptureError::Refused(_)) => {
            no_name.with(&routers::known(instance))
        }
        _ => error.into(),
    }
}

/// Whether a router's program runs in the kernel.
fn runs_in_kernel(instance: &Instance, router: &str) -> bool {
    let Ok(path) = routers::path(router) else { return false };
    let object = client(instance).get::<Object>(&path);
    object.is_ok_and(|object| object.document["run"] == "kernel")
}

pub(crate) fn trace(instance: &Instance, args: &TraceArgs) -> Result<ExitCode, Failure> {
    let program = compile::compile(args.filter.as_deref().unwrap_or_default())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    // A capture at the router's interfaces shows what happens to packets after the router.
    let target = format!("router:{}", args.router);
    let mut session = Session::begin(&instance.directory(), &target, args.snaplen, 100_000)
        .map_err(|error| unknown_router(instance, &args.router, error))?;
    let order = format!("{} {} {program}", args.count, args.snaplen);
    handler::write(instance, &args.router, "trace", &order)?;
    let tracing = Tracing { instance, router: &args.router };
    let what =
        if args.count == 1 { "packet".to_owned() } else { format!("{} packets", args.count) };
    eprintln!("waiting for the next {what} of {}; end with Ctrl-C", args.router);
    let mut out = Out { json: args.json, sent: VecDeque::new(), seen: VecDeque::new() };
    let mut caged = Caged::new(&program, args.count, args.json);
    let is_kernel = runs_in_kernel(instance, &args.router);
    let mut lost = 0;
    let mut finished: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let fetched = tracing.fetch()?;
        lost += fetched.lost;
        let result = session
            .poll()
            .into_iter()
            .try_for_each(|packet| {
                if !caged.packet(&session, &packet)? {
                    out.left(&session, packet);
                }
                Ok(())
            })
            .and_then(|()| fetched.events.iter().try_for_each(|event| out.event(args, event)))
            .and_then(|()| out.match_sent())
            .and_then(|()| io::stdout().flush());
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            other => other.map_err(|error| format!("writing: {error}"))?,
        }
        let is_done = fetched.left == 0 || is_kernel && caged.is_done();
        if is_done && fetched.events.is_empty() {
            let since = finished.get_or_insert_with(Instant::now).elapsed();
            let waits = fetched.under_way > 0 && since < KEPT_FOR;
            if !waits && out.sent.is_empty() {
                break;
            }
        }
        std::thread::sleep(EVERY);
    }
    if lost > 0 {
        eprintln!("{lost} steps are missing: the router's list of events was full");
    }
    Ok(ExitCode::SUCCESS)
}

/// A packet that has left its router.
struct Sent {
    packet: u32,
    interface: String,
    bytes: Vec<u8>,
    since: Instant,
}

struct Out {
    json: bool,
    /// Sent packets whose capture has not arrived yet.
    sent: VecDeque<Sent>,
    /// Packets that a capture has shown: interface, bytes, and result.
    seen: VecDeque<(String, Vec<u8>, String, Instant)>,
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.filter_map(byte).collect()
}

impl Out {
    /// Notes a packet that the switch or its programs have reported as leaving.
    fn left(&mut self, session: &Session, packet: Packet) {
        if packet.direction != Direction::Out {
            return;
        }
        let Some(interface) = session.interfaces.get(packet.interface) else { return };
        let fate = match (packet.drop, packet.way) {
            (Some(cause), _) => format!("DROPPED by the switch: {cause}"),
            (None, Way::Live) => format!("left by {}, in a kick", interface.place),
            (None, Way::Socket) => format!("left by {}, by its socket", interface.place),
            (None, _) => format!("delivered over {}", interface.place),
        };
        self.seen.push_back((interface.name.clone(), packet.data, fate, Instant::now()));
        let old = |seen: &(String, Vec<u8>, String, Instant)| seen.3.elapsed() > PATIENCE * 2;
        while self.seen.len() > 100_000 || self.seen.front().is_some_and(old) {
            self.seen.pop_front();
        }
    }

    /// Reports the results of packets that have left their router.
    fn match_sent(&mut self) -> io::Result<()> {
        let mut waiting = VecDeque::new();
        while let Some(sent) = self.sent.pop_front() {
            let is_it = |seen: &(String, Vec<u8>, String, Instant)| {
                let same = seen.1.len().min(sent.bytes.len());
                seen.0 == sent.interface
                    && (same == 0 || seen.1.get(..same) == sent.bytes.get(..same))
            };
            let fate = match self.seen.iter().position(is_it) {
                Some(at) => self.seen.remove(at).map(|seen| seen.2).unwrap_or_default(),
                None if sent.since.elapsed() < PATIENCE => {
                    waiting.push_back(sent);
                    continue;
                }
                None => "not seen to leave the node".to_owned(),
            };
            let Sent { packet, interface, .. } = sent;
            let mut out = io::stdout().lock();
            if self.json {
                let line = serde_json::json!({
                    "packet": packet, "what": {"fate": {"interface": interface, "text": fate}},
                });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "#{packet} {interface}: {fate}")?;
            }
        }
        self.sent = waiting;
        Ok(())
    }

    fn event(&mut self, args: &TraceArgs, event: &Event) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let number = event.packet;
        if let What::Sent { interface, bytes: text } = &event.what {
            self.sent.push_back(Sent {
                packet: number,
                interface: format!("{}.{interface}", args.router),
                bytes: bytes(text),
                since: Instant::now(),
            });
        }
        if self.json {
            let text = serde_json::to_string(event).map_err(io::Error::from)?;
            return writeln!(out, "{text}");
        }
        let router = &args.router;
        let time = line::clock(event.at_ns);
        match &event.what {
            What::Received { interface, bytes: data } => {
                writeln!(out, "#{number} {time} received by {router}.{interface}")?;
                writeln!(out, "     {}", change::summary(&bytes(data)))
            }
            What::Made { from, element, bytes: data } => {
                writeln!(out, "#{number} {time} made by {element} because of #{from}")?;
                writeln!(out, "     {}", change::summary(&bytes(data)))
            }
            What::Element(hop) => write!(out, "{}", step(number, hop)),
            What::Sent { interface, bytes: data } => {
                writeln!(out, "#{number} sent by {router}.{interface}")?;
                writeln!(out, "     {}", change::summary(&bytes(data)))
            }
            What::Host { interface } => {
                writeln!(out, "#{number} given to the router's Linux, from {router}.{interface}")
            }
            What::Gone => writeln!(out, "#{number} DROPPED by the element that kept it"),
        }
    }
}

/// An element on the path, and its effect.
fn step(number: u32, hop: &Hop) -> String {
    let class = if hop.name.starts_with(&format!("{}@", hop.class)) {
        hop.name.clone()
    } else {
        format!("{} :: {}", hop.name, hop.class)
    };
    let input = match hop.input {
        None => String::new(),
        Some(input) => format!("[{input}] "),
    };
    let fate = match hop.fate {
        Fate::Output(output) => format!("[{output}]"),
        Fate::Unconnected(output) => {
            format!("[{output}]  DROPPED: nothing is connected to this output")
        }
        Fate::Kept => "  kept".to_owned(),
        Fate::Left => String::new(),
        Fate::Dropped => "  DROPPED".to_owned(),
    };
    let mut text = format!("#{number}   {input}{class} {fate}");
    text.truncate(text.trim_end().len());
    text.push('\n');
    for note in &hop.notes {
        text += &format!("       {note}\n");
    }
    if let Some(after) = &hop.after {
        for line in change::changes(&bytes(&hop.before), &bytes(after)) {
            text += &format!("       {line}\n");
        }
    }
    text
}
