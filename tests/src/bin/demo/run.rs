//! The demo itself.

use std::thread;
use std::time::Duration;

use europa_tests::{Iperf, Ping, Received};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::hosts::{Hosts, Tenant};
use crate::node::{Node, Router};
use crate::report::{Figures, paint, say, step, table};
use crate::{Failure, Outcome};

const FILE: &str = "examples/two-slices.yaml";
const PINGS: u32 = 300;
const TCP_SECONDS: u32 = 5;
/// Numbered packets of each tenant in a second, and the bytes that they carry.
const STREAM_RATE: u32 = 10_000;
const STREAM_BYTES: usize = 200;
/// The router that is killed.
const VICTIM: &str = "red/r1";

/// Runs it, as the guard's child.
pub(crate) fn run(instance: &str) -> Outcome<()> {
    // Without a guard nobody would clean up; the next demo does it then.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The guard has blocked them; what is started here shall not inherit that.
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
    let what = "numbered packets through each; red's router gets SIGKILL in their midst";
    let (streams, again) = step(what, || kill_in_the_midst(&node, both))?;
    let [red_stream, blue_stream] = streams;
    step("20 pings through red's router, which is back", || ping(&hosts.red, "10.0.2.2", 20))?;

    let restart = red_stream.longest_gap;
    let red = Figures { ping: red_ping, tcp: red_tcp, stream: red_stream };
    let blue = Figures { ping: blue_ping, tcp: blue_tcp, stream: blue_stream };
    table(&red, &blue, restart);
    say(&format!(
        "  {VICTIM} runs again as process {}, restarted {} time(s).",
        again.pid, again.restarts
    ));
    judge(&red, &blue)
}

/// What must hold for the demo to have shown something.
fn judge(red: &Figures, blue: &Figures) -> Outcome<()> {
    let wrong = |f: &Figures| f.stream.foreign + f.stream.corrupted + f.stream.duplicates;
    let isolated = wrong(red) + wrong(blue) == 0;
    let undisturbed = blue.stream.lost == 0;
    if isolated && undisturbed {
        say(&paint("32", "  Blue lost nothing while red's router died and came back."));
        return Ok(());
    }
    let what = if isolated { "blue lost packets" } else { "packets were changed or misdelivered" };
    Err(what.into())
}

/// Does the same for both tenants at once.
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
    // The first one waits for ARP.
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

/// Sends numbered packets through both routers and kills one after a second.
fn kill_in_the_midst(node: &Node, tenants: [&Tenant; 2]) -> Outcome<([Received; 2], Router)> {
    let before = node.router(VICTIM)?.ok_or_else(|| Failure::from("red's router does not run"))?;
    let mut under_way = Vec::new();
    for (tenant, number) in tenants.into_iter().zip(1..) {
        let sink = tenant.b.sink("10.0.2.2:5000", number)?;
        let stream = tenant.a.stream("10.0.2.2:5000", number, STREAM_RATE, STREAM_BYTES)?;
        under_way.push((stream, sink));
    }
    thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(before.pid), Signal::SIGKILL)?;
    let after = node.wait_for_another(VICTIM, before.pid)?;
    thread::sleep(Duration::from_secs(2));
    let sent: Vec<_> = under_way.into_iter().map(|(stream, sink)| (stream.stop(), sink)).collect();
    let received: Vec<_> = sent.into_iter().map(|(sent, sink)| sink.stop(sent)).collect();
    let after = after.ok_or_else(|| Failure::from("red's router did not come back"))?;
    let [red, blue] = <[Received; 2]>::try_from(received)
        .unwrap_or_else(|all| unreachable!("two streams, not {}", all.len()));
    Ok(([red, blue], after))
}
