//! `i3`: servers and clients of the Internet Indirection Infrastructure. Needs no node.

mod keep;
mod send;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use europa_i3::client::{Arrived, Client};
use europa_i3::server::{Server, Settings};
use europa_i3::table::Limits;
use europa_i3::udp::{Wire, own_address};
use europa_i3::wire::Trigger;
use europa_i3::{Key, Member, Named, Prefix};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::Failure;

/// Time limit for the answer of a server, and for the insertion of a trigger.
const ANSWER: Duration = Duration::from_secs(15);

/// The message if no server answers.
const SILENCE: &str = "no server of --server answers: are they running, joined and reachable?";

#[derive(Subcommand, Debug)]
pub(crate) enum I3Command {
    /// Run a server until SIGTERM or Ctrl-C; then it leaves the ring.
    Serve(ServeArgs),
    /// Receive packets for an id, and print each payload as a line.
    ///
    /// If several receivers use the same NAME, each gets a copy. Among receivers NAME/MEMBER, only
    /// the one with the nearest id gets a packet.
    Receive(ReceiveArgs),
    /// Send a payload to an id, or through several ids.
    Send(SendArgs),
    /// Keep a trigger to further ids inserted until SIGTERM or Ctrl-C, then remove it.
    ///
    /// Prints the trigger's id, which senders use. It depends on the first of the ids.
    Insert(InsertArgs),
    /// Remove a trigger that points to an address of this machine.
    Remove(RemoveArgs),
    /// Print the 64 digits of an id.
    Id {
        /// NAME, or NAME/MEMBER.
        name: Named,
    },
    /// Print a server's position in the ring, its triggers and counters as JSON.
    State {
        /// The server.
        #[arg(value_name = "ADDRESS:PORT")]
        server: SocketAddr,
        /// File with the ring's key.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Address and port for clients and other servers.
    #[arg(value_name = "ADDRESS:PORT")]
    at: SocketAddr,
    /// Servers of the ring. All servers can have the same list; the first server in it begins the
    /// ring.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    join: Vec<SocketAddr>,
    /// Position in the ring, 48 hexadecimal digits. Default: a hash of the address.
    #[arg(long, value_name = "DIGITS")]
    position: Option<Prefix>,
    /// File with the ring's key. Without it, every program that reaches the port can join.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Number of servers that keep a copy of each trigger.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=16))]
    replicas: u8,
    /// Most triggers, including copies, that the server keeps.
    #[arg(long, value_name = "N", default_value_t = Limits::default().triggers)]
    triggers: usize,
}

/// Options of all clients.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    /// Servers to begin with. If a server does not answer, another one is used.
    #[arg(
        short,
        long,
        value_name = "ADDRESS:PORT",
        value_delimiter = ',',
        required = true,
        env = "EUROPA_I3_SERVERS"
    )]
    server: Vec<SocketAddr>,
    /// Own port. Default: any.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// NAME, NAME/MEMBER, or 64 digits with --key.
    id: Named,
    #[command(flatten)]
    client: ClientArgs,
    /// The key before its hash, 32 hexadecimal digits. Default: derived from the name.
    #[arg(long, value_name = "DIGITS")]
    key: Option<Key>,
    /// End after so many packets.
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// End after so many seconds.
    #[arg(short = 't', long = "for", value_name = "SECONDS", value_parser = crate::cli::interval)]
    time: Option<Duration>,
    /// Run this command in a shell for each packet, and send its output to the remaining ids.
    #[arg(long, value_name = "COMMAND")]
    pass_on: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Ids that the packet passes, in order, separated by commas.
    #[arg(value_name = "ID", value_delimiter = ',', required = true)]
    ids: Vec<Named>,
    /// The payload. Default: each line of the standard input.
    text: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
    /// Send the payload so many times.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// Seconds between two packets. Default: 1, or none between lines of the standard input.
    #[arg(short, long, value_name = "SECONDS", value_parser = crate::cli::interval)]
    every: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct InsertArgs {
    /// NAME, or 64 digits.
    id: Named,
    /// Destination ids, in order, separated by commas.
    #[arg(long, value_name = "ID", value_delimiter = ',', required = true)]
    to: Vec<Named>,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// NAME, NAME/MEMBER, or 64 digits with --key.
    id: Named,
    #[command(flatten)]
    client: ClientArgs,
    /// The key before its hash, 32 hexadecimal digits. Default: derived from the name.
    #[arg(long, value_name = "DIGITS")]
    key: Option<Key>,
}

pub(crate) fn i3(command: I3Command) -> Result<ExitCode, Failure> {
    match command {
        I3Command::Serve(args) => serve(args),
        I3Command::Receive(args) => receive(&args),
        I3Command::Send(args) => send::send(&args),
        I3Command::Insert(args) => keep::insert(&args),
        I3Command::Remove(args) => keep::remove(&args),
        I3Command::Id { name } => {
            println!("{}", name.id());
            Ok(ExitCode::SUCCESS)
        }
        I3Command::State { server, key_file } => keep::state(server, key_file.as_deref()),
    }
}

/// A flag that SIGTERM and Ctrl-C set.
fn stopping() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn ring_key(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let key = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    if key.is_empty() {
        return Err(format!("{}: the file is empty; write a key into it", file.display()).into());
    }
    Ok(key)
}

fn bind(at: SocketAddr) -> Result<Wire, Failure> {
    Wire::bind(at).map_err(|error| format!("UDP {at}: {error}").into())
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("random numbers: {error}"))?;
    Ok(bytes)
}

fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    if args.at.ip().is_unspecified() || args.at.port() == 0 {
        let wanted = "clients and other servers need an address and a port";
        return Err(Failure::usage(format!("{}: {wanted}", args.at)));
    }
    let stop = stopping()?;
    let position = args.position.unwrap_or_else(|| Prefix::of_text(&args.at.to_string()));
    let settings = Settings {
        me: Member { id: position, at: args.at },
        seeds: args.join,
        key: ring_key(args.key_file.as_deref())?,
        replicas: args.replicas.into(),
        limits: Limits { triggers: args.triggers, ..Limits::default() },
        secret: random()?,
        seed: u64::from_be_bytes(random()?),
    };
    let mut wire = bind(args.at)?;
    println!("serving at {} with position {position}", args.at);
    let mut server = Server::new(&settings);
    wire.serve(&mut server, || stop.load(Ordering::Relaxed))?;
    Ok(ExitCode::SUCCESS)
}

/// A client's socket and state.
struct Session {
    wire: Wire,
    client: Client,
    port: u16,
    towards: SocketAddr,
    at: SocketAddr,
}

impl Session {
    fn new(args: &ClientArgs) -> Result<Session, Failure> {
        let first = *args.server.first().ok_or("--server names no server")?;
        let any: SocketAddr = match first {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, args.port).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, args.port).into(),
        };
        let wire = bind(any)?;
        let port = wire.at()?.port();
        let ip =
            own_address(first).map_err(|error| format!("no route to server {first}: {error}"))?;
        let at = SocketAddr::new(ip, port);
        let client = Client::new(at, args.server.clone(), u64::from_be_bytes(random()?));
        Ok(Session { wire, client, port, towards: first, at })
    }

    /// Looks for a server, and keeps a trigger inserted.
    fn begin(&mut self, trigger: Trigger) {
        let mut out = Vec::new();
        let now = self.wire.now();
        self.client.probe(now, &mut out);
        self.client.insert(now, trigger);
        self.wire.send(&mut out);
    }

    /// The own address, if it has changed since the last call.
    fn moved(&mut self) -> Option<SocketAddr> {
        let ip = own_address(self.towards).ok()?;
        let now = SocketAddr::new(ip, self.port);
        (now != self.at).then(|| {
            self.at = now;
            now
        })
    }
}

/// Prints messages for the user.
fn tell(arrived: &Arrived) -> Result<(), Failure> {
    match arrived {
        Arrived::Data(..) => {}
        Arrived::Inserted(id) => eprintln!("inserted {id}"),
        Arrived::NotPresent(id) => eprintln!("nobody receives {id}"),
        Arrived::ConstraintFailed(id) => {
            let remedy = "the key must be the one whose hash the id contains";
            return Err(format!("the server refuses a trigger for {id}: {remedy}").into());
        }
    }
    Ok(())
}

fn receive(args: &ReceiveArgs) -> Result<ExitCode, Failure> {
    let stop = stopping()?;
    let mut session = Session::new(&args.client)?;
    let trigger = args.id.to_host(session.at.into(), args.key)?;
    let id = trigger.id;
    session.begin(trigger);
    let mut left = args.count.unwrap_or(u64::MAX);
    let end = args.time.map(|time| session.wire.now() + time);
    let mut failure = None;
    let mut next_look = Duration::ZERO;
    let mut next_hint = session.wire.now() + ANSWER;
    while failure.is_none() && left > 0 {
        let (mut moved, mut ended) = (None, false);
        if session.wire.now() >= next_look {
            next_look = session.wire.now() + Duration::from_millis(500);
            moved = session.moved();
        }
        session.wire.run(&mut session.client, |client, now, arrived, out| {
            if let Some(at) = moved {
                client.move_to(now, at, out);
            }
            for one in arrived {
                if let Err(error) = tell(&one) {
                    failure = Some(error);
                }
                if let Arrived::Data(stack, payload) = one
                    && left > 0
                {
                    left -= 1;
                    let shown = handle(&payload, args.pass_on.as_deref());
                    match shown {
                        Ok(Some(output)) if stack.len() > 1 => {
                            client.send(now, stack[1..].to_vec(), &output, out);
                        }
                        Ok(_) => {}
                        Err(error) => failure = Some(error),
                    }
                }
            }
            ended = stop.load(Ordering::Relaxed) || end.is_some_and(|end| now >= end);
            ControlFlow::Break(())
        })?;
        if ended {
            break;
        }
        if !session.client.is_inserted() && session.wire.now() >= next_hint {
            next_hint = session.wire.now() + ANSWER;
            eprintln!("{SILENCE}; trying again");
        }
    }
    let mut out = Vec::new();
    session.client.remove(session.wire.now(), &id, &mut out);
    session.wire.send(&mut out);
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Prints a payload, or returns the output of a command that gets it.
fn handle(payload: &[u8], pass_on: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    let Some(command) = pass_on else {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(payload)?;
        stdout.write_all(b"\n")?;
        stdout.flush()?;
        return Ok(None);
    };
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::execution("/bin/sh", &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The command need not read its input.
        let _ = stdin.write_all(payload);
    }
    Ok(Some(child.wait_with_output()?.stdout))
}
