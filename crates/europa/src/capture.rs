//! `capture`: prints packets of interfaces, or writes them to a file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_capture::wire::Line;
use europa_capture::{Named, Packet, Session, compile, line, pcapng};
use europa_client::{ClientError, escape};
use europa_node::Instance;
use europa_substrate::tap::{Direction, Lost, Way};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::complete;
use crate::exit::Failure;
use crate::target::remote;
use crate::up::client;

/// Time between two reads of the rings. Writers send no wake-up, so that a capture costs them less.
const EVERY: Duration = Duration::from_millis(5);
/// Time between two checks that the node still runs.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `capture`.
#[derive(Args)]
pub(crate) struct CaptureArgs {
    /// SLICE/ROUTER.INTERFACE, SLICE/ROUTER, or the name of a port, link or slice.
    ///
    /// If objects of several kinds have this name, add the kind: `port:NAME`, `slice:NAME`.
    #[arg(add = ArgValueCompleter::new(complete::captured))]
    target: String,
    /// A pcap filter, such as 'icmp or port 53'; see pcap-filter(7). Default: all packets.
    #[arg(short, long)]
    filter: Option<String>,
    /// Write a pcapng file; `-` is standard output: `europa capture r -w - | wireshark -k -i -`.
    #[arg(short, long)]
    write: Option<PathBuf>,
    /// Stop after this many packets.
    #[arg(short, long)]
    count: Option<u64>,
    /// Bytes of a frame to keep. Default: all.
    #[arg(short, long, default_value_t = 65535, value_parser = clap::value_parser!(u32).range(14..))]
    snaplen: u32,
    /// Most frames a second and direction to copy; further ones are counted as lost.
    ///
    /// This limits the cost of a capture for the captured routers.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rate: u32,
    /// Print JSON, one object a line.
    #[arg(long, conflicts_with = "write")]
    json: bool,
}

/// The destination of packets.
enum Out {
    Text(BufWriter<io::Stdout>),
    Json(BufWriter<io::Stdout>),
    File(pcapng::Writer<BufWriter<Box<dyn Write>>>),
}

impl Out {
    fn open(args: &CaptureArgs, interfaces: &[Named]) -> Result<Out, String> {
        let Some(path) = &args.write else {
            let stdout = BufWriter::new(io::stdout());
            return Ok(if args.json { Out::Json(stdout) } else { Out::Text(stdout) });
        };
        let to: Box<dyn Write> = if path.as_os_str() == "-" {
            if io::stdout().is_terminal() {
                return Err(
                    "a capture file cannot be shown on a terminal: redirect it to a file or a pipe"
                        .into(),
                );
            }
            Box::new(io::stdout())
        } else {
            Box::new(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?)
        };
        let to = BufWriter::with_capacity(1 << 18, to);
        pcapng::Writer::new(to, interfaces, args.snaplen, args.filter.as_deref())
            .map(Out::File)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn packet(&mut self, interfaces: &[Named], packet: &Packet) -> io::Result<()> {
        match self {
            Out::File(writer) => writer.packet(packet),
            Out::Text(stdout) => writeln!(stdout, "{}", text(interfaces, packet)),
            Out::Json(stdout) => writeln!(stdout, "{}", json(interfaces, packet)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::File(writer) => writer.flush(),
            Out::Text(stdout) | Out::Json(stdout) => stdout.flush(),
        }
    }

    fn finish(self, lost: Lost) -> io::Result<()> {
        match self {
            Out::File(writer) => writer.finish(lost),
            Out::Text(mut stdout) | Out::Json(mut stdout) => stdout.flush(),
        }
    }
}

fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in ",
        Direction::Out => "out",
    }
}

fn text(interfaces: &[Named], packet: &Packet) -> String {
    let name = interfaces.get(packet.interface).map_or("?", |one| one.name.as_str());
    let drop = packet.drop.map(|cause| format!("  DROPPED: {cause}")).unwrap_or_default();
    format!(
        "{} {name} {} {}{drop}",
        line::clock(packet.time_ns),
        arrow(packet.direction),
        line::frame(&packet.data)
    )
}

fn json(interfaces: &[Named], packet: &Packet) -> serde_json::Value {
    let interface = interfaces.get(packet.interface);
    serde_json::json!({
        "time_ns": packet.time_ns,
        "interface": interface.map(|one| &one.name),
        "router": interface.map(|one| &one.router),
        "direction": arrow(packet.direction).trim_end(),
        "length": packet.length,
        "drop": packet.drop,
        "summary": line::frame(&packet.data),
        "data": packet.data.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
    })
}

pub(crate) fn capture(instance: &Instance, args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let program = args.filter.as_deref().map(compile::compile).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    if remote().is_some() {
        return far(instance, args, program.as_ref(), &stop);
    }
    europa_sandbox::give_way().map_err(|error| error.to_string())?;
    let mut session = Session::begin(&instance.directory(), &args.target, args.snaplen, args.rate)?;
    let mut out = Out::open(args, &session.interfaces)?;
    let names: Vec<&str> = session.interfaces.iter().map(|one| one.name.as_str()).collect();
    eprintln!("capturing {}; end with Ctrl-C", names.join(", "));
    let mut count = Count { captured: 0, unwanted: 0, most: args.count.unwrap_or(u64::MAX) };
    let mut checked = Instant::now();
    let mut result = Ok(());
    while !stop.load(Ordering::Relaxed) && count.captured < count.most && result.is_ok() {
        let packets = session.poll();
        if packets.is_empty() {
            std::thread::sleep(EVERY);
        } else {
            result = count.write(&mut out, &session.interfaces, packets, program.as_ref());
        }
        if checked.elapsed() >= CHECK_EVERY {
            session.check().map_err(|_| "the node has ended, and the capture with it")?;
            checked = Instant::now();
        }
    }
    let (last, lost) = session.stop()?;
    let result = result
        .and_then(|()| count.write(&mut out, &session.interfaces, last, program.as_ref()))
        .and_then(|()| out.finish(lost));
    match result {
        // The reader of the pipe has ended.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.map_err(|error| format!("writing packets: {error}"))?,
    }
    eprintln!("{}", count.summary(lost));
    Ok(ExitCode::SUCCESS)
}

/// A capture at a node on another machine.
fn far(
    instance: &Instance,
    args: &CaptureArgs,
    program: Option<&europa_cbpf::Program>,
    stop: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let (target, CaptureArgs { snaplen, rate, .. }) = (escape(&args.target), args);
    let path = format!("/v1/captures?target={target}&snaplen={snaplen}&rate={rate}");
    let mut count = Count { captured: 0, unwanted: 0, most: args.count.unwrap_or(u64::MAX) };
    let (mut out, mut named, mut rest) = (None, Vec::new(), Vec::new());
    // Whether the capture ends because it was requested.
    let mut done = false;
    let mut take = |bytes: &[u8]| -> io::Result<()> {
        rest.extend_from_slice(bytes);
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = rest.drain(..end).collect();
        let mut packets = Vec::new();
        for text in lines.split(|byte| *byte == b'\n') {
            match Line::read(text) {
                Some(Line::Interfaces(interfaces)) => {
                    out = Some(Out::open(args, &interfaces).map_err(io::Error::other)?);
                    let names: Vec<&str> = interfaces.iter().map(|one| one.name.as_str()).collect();
                    eprintln!("capturing {}; end with Ctrl-C", names.join(", "));
                    named = interfaces;
                }
                Some(Line::Packet(packet)) => packets.extend(packet.packet()),
                None => {}
            }
        }
        if let Some(out) = &mut out {
            count.write(out, &named, packets, program)?;
        }
        done = stop.load(Ordering::Relaxed) || count.captured >= count.most;
        if done { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    };
    let ended = client(instance).stream(&path, &mut take);
    match ended {
        Err(_) if done => {}
        Err(ClientError::Connection(why)) if why.contains("Broken pipe") => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
        Ok(()) => eprintln!("europa: the node has ended the capture"),
    }
    if let Some(out) = out {
        out.finish(Lost::default()).map_err(|error| format!("writing packets: {error}"))?;
    }
    // The node has counted the losses, but this connection has ended.
    eprintln!("{} packets captured", count.captured);
    Ok(ExitCode::SUCCESS)
}

struct Count {
    captured: u64,
    unwanted: u64,
    most: u64,
}

impl Count {
    fn write(
        &mut self,
        out: &mut Out,
        interfaces: &[Named],
        packets: Vec<Packet>,
        program: Option<&europa_cbpf::Program>,
    ) -> io::Result<()> {
        // A frame that a program drops is printed only once: as it arrived.
        for packet in packets.into_iter().filter(|packet| packet.way != Way::Verdict) {
            let wanted =
                program.is_none_or(|wants| wants.matches(&packet.data, packet.length as usize));
            if !wanted {
                self.unwanted += 1;
            } else if self.captured < self.most {
                self.captured += 1;
                out.packet(interfaces, &packet)?;
            }
        }
        out.flush()
    }

    fn summary(&self, lost: Lost) -> String {
        let mut text = format!("{} packets captured", self.captured);
        if self.unwanted > 0 {
            text += &format!(", {} not matched by the filter", self.unwanted);
        }
        text += &format!(", {} lost", lost.rate + lost.room);
        match (lost.rate, lost.room) {
            (0, 0) => {}
            (rate, 0) => text += &format!(": {rate} over the rate"),
            (0, room) => text += &format!(": {room} too fast for the reader"),
            (rate, room) => {
                text += &format!(": {rate} over the rate, {room} too fast for the reader");
            }
        }
        text
    }
}
