//! Measures how many frames of 64 bytes pass between two processes over memif, each on its own
//! core. Europa's processes and DPDK's testpmd, if it is installed, are measured alternately in the
//! same run.
//!
//! ```text
//! cargo run --release -p europa-memif --example memif_rate [SECONDS [ROUNDS]]
//! ```
//!
//! Cases: *one way* has a source and a sink; *echo* has a source whose frames return. The sender is
//! the client. testpmd's figures are the port statistics of its receiving side.

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use europa_memif::{Buffer, Config, Event, Greetings, Link, Port, Role, Signal, socket};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{self, kill};
use nix::unistd::Pid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FRAME_BYTES: usize = 64;
/// The default of testpmd.
const BATCH: usize = 32;
/// Distance between buffers. It is not 2048, as in packet pools, because then the first lines of
/// all buffers would share a few places of the first-level cache.
const ROOM: usize = 2112;
const CASES: [Case; 2] = [Case::OneWay, Case::Echo];

#[derive(Clone, Copy, PartialEq)]
enum Case {
    OneWay,
    Echo,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    if let [role, case, path, seconds, batch] = arguments.as_slice() {
        let case = if case == "echo" { Case::Echo } else { Case::OneWay };
        let duration = Duration::from_secs(seconds.parse()?);
        return half(role, case, Path::new(path), duration, batch.parse()?);
    }
    let (seconds, rounds) = (number(0, 3)?, number(1, 3)?);
    let batches = [BATCH, 256];
    for case in CASES {
        let name = if case == Case::Echo { "echo" } else { "one-way" };
        let mut ours = vec![Vec::new(); batches.len()];
        let mut theirs = Vec::new();
        for _ in 0..rounds {
            for (batch, rates) in batches.iter().zip(&mut ours) {
                rates.push(our_rate(name, seconds, *batch)?);
            }
            theirs.extend(testpmd_rate(case, seconds)?);
        }
        for (batch, rates) in batches.iter().zip(&mut ours) {
            println!("{name:8} europa, batches of {batch:3}: {}", figures(rates));
        }
        match theirs.len() {
            0 => println!("{name:8} testpmd: not installed"),
            _ => println!("{name:8} testpmd, batches of {BATCH:3}: {}", figures(&mut theirs)),
        }
    }
    Ok(())
}

/// Median and all figures, in million frames a second.
fn figures(rates: &mut [f64]) -> String {
    rates.sort_by(f64::total_cmp);
    let all: Vec<String> = rates.iter().map(|rate| format!("{rate:.2}")).collect();
    format!("{:6.2} Mpps ({})", rates[rates.len() / 2], all.join(" "))
}

/// Runs both halves as processes; the source prints how many frames a second have arrived.
fn our_rate(case: &str, seconds: u64, batch: usize) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("memif.sock");
    let start = |role: &str| {
        Command::new(std::env::current_exe()?)
            .args([role, case])
            .arg(&path)
            .args([seconds.to_string(), batch.to_string()])
            .stdout(Stdio::piped())
            .spawn()
    };
    let server = start("server")?;
    let client = start("client")?;
    client.wait_with_output()?;
    let said = server.wait_with_output()?.stdout;
    Ok(String::from_utf8(said)?.trim().parse()?)
}

/// One of our two processes.
fn half(role: &str, case: Case, path: &Path, duration: Duration, batch: usize) -> Result<()> {
    let mut core = CpuSet::new();
    core.set(usize::from(role == "client"))?;
    sched_setaffinity(Pid::from_raw(0), &core)?;
    let (mut port, link) = if role == "server" { serve(path)? } else { connect(path)? };
    match (role, case) {
        ("client", _) => source(&mut port, link, case, batch),
        _ => sink(&mut port, link, case, duration, batch),
    }
}

fn serve(path: &Path) -> Result<(Port, Link)> {
    let listener = socket::listen(path, 0o600)?;
    let mut port = Port::new(Role::Server, Config::default(), Signal::new()?)?;
    let mut greetings = Greetings::default();
    loop {
        if let Some(client) = socket::accept(&listener)? {
            greetings.add(client, port.config())?;
        }
        if let Some(greeting) = greetings.process()? {
            port.accept(greeting)?;
        }
        if let Some(link) = connected(&mut port)? {
            return Ok((port, link));
        }
    }
}

fn connect(path: &Path) -> Result<(Port, Link)> {
    let mut port = Port::new(Role::Client, Config::default(), Signal::new()?)?;
    let client = loop {
        match socket::connect(path) {
            Ok(client) => break client,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    port.connect(client);
    loop {
        if let Some(link) = connected(&mut port)? {
            return Ok((port, link));
        }
    }
}

fn connected(port: &mut Port) -> Result<Option<Link>> {
    match port.process() {
        Some(Event::Connected(link)) => Ok(Some(link)),
        Some(Event::Disconnected(error)) => Err(error.into()),
        None => Ok(None),
    }
}

/// Sends as fast as possible, and receives echoed frames, until the other side ends.
fn source(port: &mut Port, mut link: Link, case: Case, batch: usize) -> Result<()> {
    let memory = vec![[7_u8; FRAME_BYTES]; batch];
    let frames: Vec<&[u8]> = memory.iter().map(|frame| &frame[..]).collect();
    let mut room = vec![[0_u8; ROOM]; batch];
    let mut buffers = buffers(&mut room);
    loop {
        for _ in 0..1000 {
            link.transmitters[0].transmit(&frames)?;
            if case == Case::Echo {
                link.receivers[0].receive(&mut buffers)?;
            }
        }
        if port.process().is_some() {
            return Ok(());
        }
    }
}

/// Receives frames, returns them in the case of an echo, and prints their rate, without the first
/// half second.
fn sink(
    port: &mut Port,
    mut link: Link,
    case: Case,
    duration: Duration,
    batch: usize,
) -> Result<()> {
    let mut room = vec![[0_u8; ROOM]; batch];
    let mut buffers = buffers(&mut room);
    let warm = Instant::now() + Duration::from_millis(500);
    let mut began = None;
    loop {
        for _ in 0..1000 {
            let count = link.receivers[0].receive(&mut buffers)?;
            if case == Case::Echo && count > 0 {
                let mut frames: [&[u8]; 256] = [&[]; 256];
                for (frame, buffer) in frames.iter_mut().zip(&buffers[..count]) {
                    *frame = &buffer.bytes[..buffer.length];
                }
                link.transmitters[0].transmit(&frames[..count])?;
            }
        }
        let frames = match case {
            Case::OneWay => link.receivers[0].counters().frames,
            Case::Echo => link.transmitters[0].counters().frames,
        };
        let now = Instant::now();
        match began {
            None if now > warm => began = Some((now, frames)),
            Some((start, before)) if now > start + duration => {
                println!("{}", (frames - before) as f64 / (now - start).as_secs_f64() / 1e6);
                return Ok(());
            }
            _ => {}
        }
        if port.process().is_some() {
            return Err("the source has gone".into());
        }
    }
}

fn buffers(room: &mut [[u8; ROOM]]) -> Vec<Buffer<'_>> {
    room.iter_mut().map(|bytes| Buffer { bytes, length: 0 }).collect()
}

/// Runs two testpmd; `None` if it is not installed. The first seconds do not count.
fn testpmd_rate(case: Case, seconds: u64) -> Result<Option<f64>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("memif.sock");
    let (server_mode, client_mode, figure) = match case {
        Case::OneWay => ("rxonly", "txonly", "Rx-pps:"),
        Case::Echo => ("io", "flowgen", "Tx-pps:"),
    };
    let log = folder.path().join("log");
    let server = testpmd(&path, "server", server_mode, &log);
    let Ok(server) = server else { return Ok(None) };
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let client = testpmd(&path, "client", client_mode, &folder.path().join("other"))?;
    std::thread::sleep(Duration::from_secs(seconds + 4));
    for mut child in [client, server] {
        // testpmd prints its results when it ends in order.
        kill(Pid::from_raw(child.id().try_into()?), signal::Signal::SIGINT)?;
        child.wait()?;
    }
    let mut rates: Vec<f64> = std::fs::read_to_string(log)?
        .lines()
        .filter_map(|line| {
            line.trim().strip_prefix(figure)?.split_whitespace().next()?.parse().ok()
        })
        .filter(|rate| *rate > 0.0)
        .skip(2)
        .collect();
    rates.sort_by(f64::total_cmp);
    Ok(rates.get(rates.len() / 2).map(|rate| rate / 1e6))
}

/// Starts one testpmd; both its threads use the core that Europa's process would use.
fn testpmd(path: &Path, role: &str, mode: &str, log: &Path) -> Result<Child> {
    let core = usize::from(role == "client");
    let socket = path.display();
    Ok(Command::new("dpdk-testpmd")
        .arg(format!("--lcores=0@{core},1@{core}"))
        .args(["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "192"])
        .arg(format!("--vdev=net_memif0,role={role},socket-abstract=no,socket={socket}"))
        .args(["--", "--total-num-mbufs=16384", "--stats-period=1"])
        .arg(format!("--forward-mode={mode}"))
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(log)?)
        .stderr(Stdio::null())
        .spawn()?)
}
