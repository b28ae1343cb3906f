//! `europa click` as a user meets it: options, messages, exit codes, sockets, interfaces.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use europa_tests::{Lab, europa, missing, skipped};

fn click(arguments: &[&str]) -> Command {
    let mut command = Command::new(europa());
    command.arg("click").args(arguments).stdin(Stdio::null());
    command
}

/// Runs `europa click` to its end. Returns exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = click(arguments).output().expect("europa runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn options_are_those_of_click() {
    let source = "c :: Counter; InfiniteSource(LIMIT 3, STOP true) -> c -> Discard;";
    for (arguments, expected) in [
        (&["-e", source, "-h", "c.count"][..], (0, "3\n", "")),
        (&["-qe", source, "-h", "c.count"], (0, "0\n", "")),
        (&["-e", source, "-h", "[a-c].count", "-x", "c.count"], (3, "c.count:\n3\n\n", "")),
        (&["-qe", source, "-h", "c.none"], (1, "", "no 'c.none' handler\n")),
        (&["-qe", source, "-h", "x.count"], (1, "", "no element 'x'\n")),
        (&["-qe", "a :: Idle -> Discard", "-h", "list"], (0, "2\na\nDiscard@2\n", "")),
        (
            &["-qe", "Idle -> Discard($n)", "-h", "flatconfig", "n=ACTIVE true"],
            (
                0,
                "Idle@1 :: Idle;\nDiscard@2 :: Discard(ACTIVE true);\n\nIdle@1 -> Discard@2;\n",
                "",
            ),
        ),
        (&["-e", ""], (0, "", "config: configuration has no elements, exiting\n")),
        (&["/nowhere"], (1, "", "/nowhere: No such file or directory\n")),
        (
            &["-qe", "a -> b;"],
            (1, "", "config:1: undeclared element 'a', assuming element class\n"),
        ),
        (&["-qe", "Queue(x) -> Discard; Idle -> Queue@1"], (1, "", "")),
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!(code, Some(expected.0), "{arguments:?}: {err}");
        if !expected.1.is_empty() {
            assert_eq!(out, expected.1, "{arguments:?}");
        }
        if !expected.2.is_empty() && expected.0 == 0 {
            assert_eq!(err, expected.2, "{arguments:?}");
        }
    }
}

#[test]
fn mistakes_name_their_place() {
    let (code, _, err) = run(&["-e", "\nx :: Idle -> q :: Queue(many) -> Discard;"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("config:2: While configuring 'q :: Queue':\n  CAPACITY: "), "{err}");
    assert!(err.ends_with("Router could not be initialized!\n"), "{err}");
}

#[test]
fn warnings_name_their_place() {
    let text = "\nIdle -> c :: Classifier(12/0800, 12/0800, -);\nc[0], c[1], c[2] -> Discard;\n\
        Idle -> u :: Unqueue(0) -> Discard; f :: IPFilter(allow ip ttl > 255);\nIdle -> f -> Discard";
    let told = "config:2: While configuring 'c :: Classifier':\n  warning: output 1 matches no \
        packets\nconfig:4: While configuring 'f :: IPFilter':\n  pattern 0: warning: relation \
        '> 255' is always false (range 0-255)\nconfig:4: While initializing 'u :: Unqueue':\n  \
        warning: BURST size 0, no packets will be pulled\n";
    assert_eq!(run(&["-qe", text]), (Some(0), String::new(), told.to_owned()));
    assert_eq!(run(&["-wqe", text]), (Some(0), String::new(), String::new()));
}

#[test]
fn simulated_time_does_not_wait() {
    let begun = Instant::now();
    let (code, out, _) =
        run(&["--simtime", "-e", "Script(print $(now), wait 1000, print $(now), stop)"]);
    assert_eq!(code, Some(0));
    let times: Vec<f64> = out.lines().map(|line| line.parse().expect("a time")).collect();
    assert!((times[1] - times[0] - 1000.0).abs() < 0.001, "{out}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn checks_and_drawings_need_no_run() {
    let source = "src :: Idle -> q :: Queue -> dst :: Discard;";
    let (code, out, _) = run(&["check", "-e", source]);
    assert_eq!(code, Some(0));
    assert!(out.contains("q :: Queue: inputs push, outputs pull\n  [0] -> [0] dst\n"), "{out}");
    let (code, out, _) = run(&["graph", "-e", source]);
    assert!(code == Some(0) && out.contains("<svg") && out.contains("src :: Idle"), "{out}");
    let (_, out, _) = run(&["graph", "--dot", "-e", source]);
    assert!(out.starts_with("digraph"), "{out}");
    let source = "InfiniteSource(LIMIT 50000, STOP true) -> c :: Counter -> Discard;";
    let (code, out, err) = run(&["graph", "--profile", "--dot", "-e", source]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("digraph") && out.contains("50 000 packets"), "{out}");
    assert_eq!(out.matches(" ns a packet").count(), 2, "{out}");
    let (code, _, err) = run(&["check", "-e", "Queue -> Queue"]);
    assert!(code == Some(1) && !err.is_empty(), "{err}");
    assert!(run(&["--list"]).1.lines().count() > 50);
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let child = click(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running(child.expect("europa starts"))
    }

    /// Sends a signal and waits for the end.
    fn end(mut self, signal: nix::sys::signal::Signal) -> (Option<i32>, String) {
        let process = nix::unistd::Pid::from_raw(self.0.id() as i32);
        nix::sys::signal::kill(process, signal).expect("a process");
        let mut out = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut out).expect("output");
        }
        (self.0.wait().expect("an end").code(), out)
    }
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client of a control socket.
struct Client<S>(BufReader<S>);

impl<S: std::io::Read + std::io::Write> Client<S> {
    fn new(stream: S) -> Self {
        let mut client = Client(BufReader::new(stream));
        assert_eq!(client.line(), "Click::ControlSocket/1.3");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(command.as_bytes()).expect("a command");
        self.line()
    }

    /// The value of a read handler.
    fn read(&mut self, handler: &str) -> String {
        assert_eq!(
            self.ask(&format!("READ {handler}\n")),
            format!("200 Read handler '{}' OK", handler.split(' ').next().unwrap_or(handler))
        );
        let length = self.line().strip_prefix("DATA ").map(str::parse::<usize>);
        let mut data = vec![0; length.expect("a length").expect("a number")];
        self.0.read_exact(&mut data).expect("data");
        String::from_utf8(data).expect("text")
    }
}

/// A clickable client talks to the router and replaces it under load; no packet is lost.
#[test]
fn a_configuration_is_replaced_over_the_control_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("control");
    let path = socket.to_string_lossy().into_owned();
    let text = "s :: RatedSource(RATE 20000) -> c :: Counter -> q :: Queue(100000) \
        -> u :: Unqueue -> d :: Counter -> Discard; \
        Script(TYPE PASSIVE) ;";
    let running = Running::start(&["-R", "-u", &path, "-e", text]);
    wait_for(&socket);
    let mut client = Client::new(UnixStream::connect(&socket).expect("a connection"));
    assert_eq!(client.read("driver"), "userlevel");
    assert_eq!(client.ask("READ c.none\n"), "511 No handler named 'c.none'");
    assert_eq!(client.ask("READ none.count\n"), "510 No element named 'none'");
    assert_eq!(client.ask("WRITE c.count 1\n"), "530 Handler 'c.count' read-only");
    assert_eq!(client.ask("FLY\n"), "501 Command 'FLY' unimplemented");
    assert_eq!(client.ask("CHECKWRITE q.capacity\n"), "200 Write handler 'q.capacity' OK");
    let before: u64 = client.read("c.count").parse().expect("a number");
    let wrong = "this is wrong";
    let answer = client.ask(&format!("WRITEDATA hotconfig {}\n{wrong}", wrong.len()));
    assert!(answer.starts_with("520-Write handler 'hotconfig' error:"), "{answer}");
    while client.line().starts_with("520-") {}
    let answer = client.ask(&format!("WRITEDATA hotconfig {}\n{text}", text.len()));
    assert_eq!(answer, "200 Write handler 'hotconfig' OK");
    std::thread::sleep(Duration::from_millis(100));
    let after: u64 = client.read("c.count").parse().expect("a number");
    assert!(after > before && before > 0, "{before} {after}");
    assert_eq!(client.ask("WRITE s.active false\n"), "200 Write handler 's.active' OK");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(client.read("c.count"), client.read("d.count"));
    assert_eq!(client.ask("QUIT\n"), "200 Goodbye!");
    let (code, _) = running.end(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(code, Some(0));
    assert!(!socket.exists());
}

#[test]
fn tcp_control_and_private_handlers() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = folder.path().join("port");
    let text = format!(
        "cs :: ControlSocket(tcp, 41930+, LOCALHOST true); \
         s :: Script(print >{}.new $(cs.port), write t.run, pause); \
         t :: Script(TYPE PASSIVE, return)",
        port.display()
    );
    let running = Running::start(&["-e", &text]);
    let new = port.with_extension("new");
    wait_for(&new);
    std::thread::sleep(Duration::from_millis(50));
    let number = std::fs::read_to_string(&new).expect("a port");
    let stream = TcpStream::connect(format!("127.0.0.1:{}", number.trim())).expect("a connection");
    let mut client = Client::new(stream);
    assert_eq!(client.read("s.add 1 1"), "2");
    assert_eq!(client.ask("READ s.cat /etc/passwd\n"), "511 No handler named 's.cat'");
    assert_eq!(client.read("2.name"), "s");
    let (code, _) = running.end(nix::sys::signal::Signal::SIGINT);
    assert_eq!(code, Some(0));
}

#[test]
fn scripts_hear_signals() {
    let text = "s :: Script(TYPE SIGNAL USR1, print '#heard', stop); \
        Script(print '#ready', pause)";
    let mut running = Running::start(&["-e", text]);
    let mut out = BufReader::new(running.0.stdout.take().expect("output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "#ready\n");
    let process = nix::unistd::Pid::from_raw(running.0.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGUSR1).expect("a process");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("output");
    assert_eq!(rest, "#heard\n");
    assert_eq!(running.0.wait().expect("an end").code(), Some(0));
}

#[test]
fn a_signal_after_a_scripts_exit_does_what_it_does_to_others() {
    let text = "Script(TYPE SIGNAL USR1, print '#heard', exit); Script(print '#ready', pause)";
    let mut running = Running::start(&["-e", text]);
    let mut out = BufReader::new(running.0.stdout.take().expect("output"));
    let process = nix::unistd::Pid::from_raw(running.0.id() as i32);
    for expected in ["#ready\n", "#heard\n"] {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, expected);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGUSR1).expect("a process");
    }
    let status = running.0.wait().expect("an end");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(10));
}

#[test]
fn interfaces_are_reached_by_packet_sockets() -> Result<(), europa_tests::Error> {
    if let Some(reason) = missing(&["ping"]) {
        skipped(&reason);
        return Ok(());
    }
    let mut lab = Lab::new()?;
    let (a, middle, b) = (lab.namespace("a")?, lab.namespace("m")?, lab.namespace("b")?);
    lab.veth((&a, "eth0"), (&middle, "left"))?;
    lab.veth((&middle, "right"), (&b, "eth0"))?;
    a.address("eth0", "10.9.0.1/24")?;
    b.address("eth0", "10.9.0.2/24")?;
    for (namespace, device) in [(&a, "eth0"), (&b, "eth0"), (&middle, "left"), (&middle, "right")] {
        namespace.ip(&["link", "set", device, "up"])?;
    }
    let text = "FromDevice(left, SNIFFER false, PROMISC true) -> c :: Counter -> Queue \
        -> ToDevice(right); FromDevice(right, PROMISC true) -> Queue -> ToDevice(left);";
    let program = europa().display().to_string();
    let router = middle.start(&[&program, "click", "-e", text, "-h", "c.count"])?;
    std::thread::sleep(Duration::from_millis(300));
    a.run(&["ping", "-c", "3", "-i", "0.2", "-W", "2", "10.9.0.2"])?;
    router.signal(nix::sys::signal::Signal::SIGTERM);
    let output = router.wait(Duration::from_secs(5))?;
    let count: u64 = output.stdout.trim().parse().expect("a count");
    assert!(count >= 4, "{count} frames: three requests and an ARP packet");
    Ok(())
}
