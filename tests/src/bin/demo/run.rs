//! The steps of the demo.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use europa_tests::{Iperf, Ping, Received};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::hosts::{Hosts, Tenant};
use crate::node::{Node, Router};
use crate::report::{Edits, Figures, paint, say, step, table};
use crate::{Failure, Outcome};

const FILE: &str = "examples/two-slices.yaml";
const PINGS: u32 = 300;
const TCP_SECONDS: u32 = 5;
/// Packets a second of each tenant's stream, and the bytes that each packet carries.
const STREAM_RATE: u32 = 10_000;
const STREAM_BYTES: usize = 200;
/// Number of edits of both configurations while packets pass.
const EDITS: u32 = 10;
/// The router that the demo kills.
const VICTIM: &str = "red/r1";

/// Runs the demo, as the guard's child.
pub(crate) fn run(instance: &str) -> Outcome<()> {
    // Without its guard this demo cannot clean up; the next demo does.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The guard has blocked these signals; the commands that the demo starts must not inherit that.
    SigSet::all().thread_unblock()?;
    let node = Node::new(instance);
    let file = format!("{}/../{FILE}", env!("CARGO_MANIFEST_DIR"));

    say("Two tenants with the same addresses, on the same two ports of one node:");
    step("asking `europa doctor` whether this machine fits", || {
        node.doctor().map_err(Failure::from)
    })?;
    let hosts = step("making four hosts and two bridges", Hosts::new)?;
    if let Some(reason) = &hosts.no_fence {
        say(&format!("  bridges cannot filter here ({reason}): hosts are told their neighbours"));
    }
    step(&format!("europa up {FILE}"), || node.up(&hosts.node, &file))?;
    let both = [&hosts.red, &hosts.blue];

    let what = format!("{PINGS} pings through each router, both at once");
    let [red_ping, blue_ping] = step(&what, || at_once(both, |t| ping(t, "10.0.2.2", PINGS)))?;
    step("20 IPv6 pings through red's", || ping(&hosts.red, "fd00:2::2", 20))?;
    let what = format!("iperf3 TCP through each for {TCP_SECONDS} s, default offloads, at once");
    let [red_tcp, blue_tcp] = step(&what, || at_once(both, tcp))?;
    let what = format!(
        "numbered packets through each; {EDITS} times `europa apply`: red's routes, blue's Click file"
    );
    let [red_edits, blue_edits] = step(&what, || edit_under_load(&node, both, &file))?;
    let what = "numbered packets through each; red's router gets SIGKILL in their midst";
    let (streams, again) = step(what, || kill_in_the_midst(&node, both))?;
    let [red_stream, blue_stream] = streams;
    step("20 pings through red's router, which is back", || ping(&hosts.red, "10.0.2.2", 20))?;

    let restart = red_stream.longest_gap;
    let red = Figures { ping: red_ping, tcp: red_tcp, edits: red_edits, stream: red_stream };
    let blue = Figures { ping: blue_ping, tcp: blue_tcp, edits: blue_edits, stream: blue_stream };
    table(&red, &blue, restart);
    say(&format!(
        "  {VICTIM} runs again as process {}, restarted {} time(s).",
        again.pid, again.restarts
    ));
    judge(&red, &blue)
}

/// The conditions for a successful demo.
fn judge(red: &Figures, blue: &Figures) -> Outcome<()> {
    let wrong = |r: &Received| r.foreign + r.corrupted + r.duplicates;
    let all = [red, blue].map(|f| wrong(&f.stream) + wrong(&f.edits.received));
    if all.iter().sum::<u64>() > 0 {
        return Err("packets were changed or misdelivered".into());
    }
    if blue.stream.lost > 0 {
        return Err("blue lost packets while red's router died".into());
    }
    if red.edits.received.lost + blue.edits.received.lost > 0 {
        return Err("packets were lost while configurations were edited".into());
    }
    say(&paint("32", "  Nobody lost a packet while both configurations were edited under load."));
    say(&paint("32", "  Blue lost nothing while red's router died and came back."));
    Ok(())
}

/// Runs the same work for both tenants at the same time.
fn at_once<T: Send>(
    tenants: [&Tenant; 2],
    work: impl Fn(&Tenant) -> Outcome<T> + Sync,
) -> Outcome<[T; 2]> {
    thread::scope(|scope| {
        let [red, blue] = tenants.map(|tenant| scope.spawn(|| work(tenant)));
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok([join(red)?, join(blue)?])
    })
}

/// Pings from the tenant's left host to its right one.
fn ping(tenant: &Tenant, to: &str, count: u32) -> Outcome<Ping> {
    // The first ping waits for ARP.
    tenant.a.ping(to, 1, &[])?;
    let ping = tenant.a.ping(to, count, &[])?;
    match ping.received {
        0 => Err(format!("{}: no answer from {to}", tenant.name).into()),
        _ => Ok(ping),
    }
}

fn tcp(tenant: &Tenant) -> Outcome<Iperf> {
    let _server = tenant.b.iperf_server()?;
    Ok(tenant.a.iperf("10.0.2.2", TCP_SECONDS, &[])?)
}

/// Sends numbered packets through both routers during `work`; returns the results.
fn under_load<T>(
    tenants: [&Tenant; 2],
    work: impl FnOnce() -> Outcome<T>,
) -> Outcome<([Received; 2], T)> {
    let mut under_way = Vec::new();
    for (tenant, number) in tenants.into_iter().zip(1..) {
        let sink = tenant.b.sink("10.0.2.2:5000", number)?;
        let stream = tenant.a.stream("10.0.2.2:5000", number, STREAM_RATE, STREAM_BYTES)?;
        under_way.push((stream, sink));
    }
    thread::sleep(Duration::from_secs(1));
    let done = work();
    thread::sleep(Duration::from_secs(1));
    let sent: Vec<_> = under_way.into_iter().map(|(stream, sink)| (stream.stop(), sink)).collect();
    let received: Vec<_> = sent.into_iter().map(|(sent, sink)| sink.stop(sent)).collect();
    let received = <[Received; 2]>::try_from(received)
        .unwrap_or_else(|all| unreachable!("two streams, not {}", all.len()));
    Ok((received, done?))
}

/// Kills one router while numbered packets pass through both.
fn kill_in_the_midst(node: &Node, tenants: [&Tenant; 2]) -> Outcome<([Received; 2], Router)> {
    let before = node.router(VICTIM)?.ok_or_else(|| Failure::from("red's router does not run"))?;
    under_load(tenants, || {
        kill(Pid::from_raw(before.pid), Signal::SIGKILL)?;
        let after = node.wait_for_another(VICTIM, before.pid)?;
        thread::sleep(Duration::from_secs(1));
        after.ok_or_else(|| Failure::from("red's router did not come back"))
    })
}

/// Edits red's routes and blue's Click file repeatedly, while numbered packets pass through both.
fn edit_under_load(node: &Node, tenants: [&Tenant; 2], file: &str) -> Outcome<[Edits; 2]> {
    const ROUTES: &str = "  routes:\n";
    const PLACE: &str = "routes[2] -> DropBroadcasts";
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let yaml = read(file)?;
    let click = read(&file.replace("two-slices.yaml", "blue.click"))?;
    let folder = tempfile::tempdir()?;
    let edited = folder.path().join("two-slices.yaml");
    let path = edited.to_string_lossy().into_owned();
    let mut slowest = Duration::ZERO;
    let (received, ()) = under_load(tenants, || {
        for number in 1..=EDITS {
            let route = format!("    - {{to: 10.{}.0.0/16, via: 10.0.2.2}}\n", 100 + number);
            let element = format!("routes[2] -> edit{number} :: Counter -> DropBroadcasts");
            fs::write(&edited, yaml.replacen(ROUTES, &format!("{ROUTES}{route}"), 1))?;
            fs::write(folder.path().join("blue.click"), click.replacen(PLACE, &element, 1))?;
            let start = Instant::now();
            let told = node.apply(&path)?;
            slowest = slowest.max(start.elapsed());
            for done in ["~ router red/r1 (in place)", "~ router blue/r1 (hot swap)"] {
                if !told.contains(done) {
                    return Err(format!("europa apply did not say {done:?} but\n{told}").into());
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    })?;
    Ok(received.map(|received| Edits { count: EDITS, slowest, received }))
}
