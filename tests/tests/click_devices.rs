//! `europa click` between real devices: unfinished offloads, and the frames that Linux gets.

use std::process::{Command, Stdio};
use std::time::Duration;

use europa_tests::{Error, Lab, Namespace, Process, europa, missing, skipped};
use nix::sys::signal::Signal;

const LIMIT: Duration = Duration::from_secs(20);

/// A machine between two others: `left` and `right` of `m`, `eth0` of `a` and of `b`.
struct Between {
    _lab: Lab,
    a: Namespace,
    m: Namespace,
    b: Namespace,
}

impl Between {
    fn new() -> Result<Between, Error> {
        let mut lab = Lab::new()?;
        let (a, m, b) = (lab.namespace("a")?, lab.namespace("m")?, lab.namespace("b")?);
        lab.veth((&a, "eth0"), (&m, "left"))?;
        lab.veth((&m, "right"), (&b, "eth0"))?;
        for (namespace, device) in [(&a, "eth0"), (&b, "eth0"), (&m, "left"), (&m, "right")] {
            namespace.ip(&["link", "set", device, "up"])?;
        }
        Ok(Between { _lab: lab, a, m, b })
    }

    /// Starts a configuration on `m` that prints `#ready` when it runs.
    fn click(&self, text: &str, arguments: &[&str]) -> Result<Process, Error> {
        start(&self.m, text, arguments)
    }
}

/// Starts a configuration that prints `#ready` when it runs.
fn start(at: &Namespace, text: &str, arguments: &[&str]) -> Result<Process, Error> {
    let program = europa().display().to_string();
    let text = format!("{text}; Script(print '#ready', pause)");
    let command = [&[program.as_str(), "click", "-e", &text], arguments].concat();
    let mut process = at.start(&command)?;
    process.wait_for("#ready", LIMIT)?;
    Ok(process)
}

/// Ends a configuration as Ctrl-C does. Returns its output.
fn end(process: Process) -> Result<(String, String), Error> {
    process.signal(Signal::SIGINT);
    let output = process.wait(LIMIT)?;
    Ok((output.stdout.replace("#ready\n", ""), output.stderr))
}

/// The value of a handler at the end.
fn answer(output: &str, handler: &str) -> u64 {
    let mut lines = output.lines().skip_while(|line| *line != format!("{handler}:"));
    lines.nth(1).and_then(|line| line.parse().ok()).expect("a number")
}

/// Counts segments and datagrams that a machine refused for their checksum.
fn checksum_errors(namespace: &Namespace) -> Result<u64, Error> {
    let script = "awk '/^(Tcp|Udp):/ {n=0; for (i=1;i<=NF;i++) { if ($i==\"InCsumErrors\") c[$1]=i; \
        else if (c[$1]==i) s+=$i } } END {print s+0}' /proc/net/snmp";
    Ok(namespace.run(&["sh", "-c", script])?.stdout.trim().parse().expect("a number"))
}

/// Receives all bytes of one TCP connection and one datagram; prints their numbers and sums.
const SERVER: &str = "
import socket, hashlib
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 7))
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(('', 7)); l.listen(); print('listens', flush=True)
c, _ = l.accept(); h = hashlib.sha1(); n = 0
while True:
    d = c.recv(65536)
    if not d: break
    h.update(d); n += len(d)
u.settimeout(10)
d = u.recv(65536)
print(n, h.hexdigest(), len(d), flush=True)
";

/// Sends the bytes that the server receives.
const CLIENT: &str = "
import socket, hashlib, sys
d = bytes(range(256)) * 16384
c = socket.create_connection((sys.argv[1], 7), timeout=10); c.sendall(d); c.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.sendto(b'x' * 1000, (sys.argv[1], 7))
print(len(d), hashlib.sha1(d).hexdigest(), 1000)
";

/// Sends four mebibytes from one machine to another, and checks that they arrive unchanged.
fn connects(from: &Namespace, to: &Namespace, address: &str) -> Result<(), Error> {
    let mut server = to.start(&["python3", "-c", SERVER])?;
    server.wait_for("listens", LIMIT)?;
    let sent = from.run(&["python3", "-c", CLIENT, address])?;
    let received = server.wait(LIMIT)?;
    assert_eq!(received.stdout, format!("listens\n{}", sent.stdout));
    Ok(())
}

#[test]
fn what_senders_leave_to_their_device_is_done() -> Result<(), Error> {
    if let Some(reason) = missing(&["python3"]) {
        skipped(&reason);
        return Ok(());
    }
    let lab = Between::new()?;
    lab.a.address("eth0", "10.9.0.1/24")?;
    lab.b.address("eth0", "10.9.0.2/24")?;
    let text = "FromDevice(left, PROMISC true) -> c :: Counter -> Queue(5000) \
        -> d :: ToDevice(right); \
        FromDevice(right, PROMISC true) -> Queue(5000) -> ToDevice(left)";
    let click = lab.click(text, &["-h", "c.count", "-h", "d.drops"])?;
    connects(&lab.a, &lab.b, "10.9.0.2")?;
    let (out, err) = end(click)?;
    assert_eq!((answer(&out, "d.drops"), err.as_str()), (0, ""));
    assert_eq!(checksum_errors(&lab.b)? + checksum_errors(&lab.a)?, 0);
    let segments = 4_194_304 / 1448;
    assert!(answer(&out, "c.count") >= segments, "segments come one by one: {out}");
    Ok(())
}

#[test]
fn vlan_tags_are_as_they_were_on_the_link() -> Result<(), Error> {
    if let Some(reason) = missing(&["python3"]) {
        skipped(&reason);
        return Ok(());
    }
    let lab = Between::new()?;
    let text = "FromDevice(left, PROMISC true) \
        -> c :: Classifier(12/8100 14/0064 16/8100 18/000a 20/88b5, 12/8100 14/000a, 12/88b5, -); \
        c[0] -> both :: Counter -> q :: Queue -> ToDevice(right); \
        c[1] -> inner :: Counter -> q; c[2] -> none :: Counter -> q; c[3] -> Discard";
    let names = ["both.count", "inner.count", "none.count"];
    let handlers: Vec<&str> = names.iter().flat_map(|name| ["-h", *name]).collect();
    let click = lab.click(text, &handlers)?;
    let far = "FromDevice(eth0, PROMISC true) \
        -> c :: Classifier(12/8100 14/0064 16/8100 18/000a 20/88b5, 12/8100 14/000a, -); \
        c[0] -> both :: Counter -> Discard; c[1] -> inner :: Counter -> Discard; c[2] -> Discard";
    let far = start(&lab.b, far, &["-h", "both.count", "-h", "inner.count"])?;
    let send = "import socket\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind(('eth0', 0))\n\
        a = bytes.fromhex('020000000002020000000001')\n\
        for tags in ['810000648100000a', '8100000a', '']:\n\
        \x20 s.send(a + bytes.fromhex(tags + '88b5') + bytes(50))\n";
    lab.a.run(&["python3", "-c", send])?;
    std::thread::sleep(Duration::from_millis(300));
    let (out, err) = end(click)?;
    assert_eq!(names.map(|name| answer(&out, name)), [1, 1, 1], "{out}{err}");
    let (out, _) = end(far)?;
    assert_eq!([answer(&out, "both.count"), answer(&out, "inner.count")], [1, 1], "{out}");
    Ok(())
}

#[test]
fn frames_that_are_too_long_are_told_of_and_counted() -> Result<(), Error> {
    let lab = Between::new()?;
    let text = "InfiniteSource(LIMIT 10, LENGTH 3000) -> Queue -> t :: ToDevice(right)";
    let click = lab.click(text, &["-h", "t.count", "-h", "t.drops"])?;
    std::thread::sleep(Duration::from_millis(200));
    let (out, err) = end(click)?;
    assert_eq!((answer(&out, "t.count"), answer(&out, "t.drops")), (0, 10));
    let line = "t :: ToDevice(right): frame longer than the MTU of 1500 bytes allows; such frames \
        are dropped, see 'drops'\n";
    assert_eq!(err, line);
    Ok(())
}

#[test]
fn an_interrupt_has_the_driver_manager_make_its_steps() {
    let text = "DriverManager(print '#ready', pause, print 'first', wait 100s, print 'last', stop)";
    let mut child = Command::new(europa())
        .args(["click", "-e", text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("europa starts");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("output"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    let process = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(process, Signal::SIGINT).expect("a process");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).expect("output");
    assert_eq!((line.as_str(), rest.as_str()), ("#ready\n", "first\nlast\n"));
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn a_check_reads_arguments_and_helps_with_names() {
    let check = |text: &str| {
        let output = Command::new(europa()).args(["click", "check", "-e", text]).output();
        let output = output.expect("europa runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = check("Idle -> q :: Queue(many) -> Discard");
    assert_eq!(code, Some(1));
    assert!(err.contains("While configuring 'q :: Queue':\n  CAPACITY: "), "{err}");
    let (code, err) = check("FromDevice(nowhere0) -> FromDump@2 :: ToDump(/nowhere/x)");
    assert_eq!((code, err.as_str()), (Some(0), ""), "no device and no file is needed");
    let (code, err) = check("Idle -> Quueue -> Discard; Idle -> q :: Queu -> Discard");
    assert_eq!(code, Some(1));
    assert_eq!(err.matches("  did you mean 'Queue'?\n").count(), 2, "{err}");
    assert!(err.ends_with("'europa click --list' names all classes\n"), "{err}");
}
