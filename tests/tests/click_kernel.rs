//! `europa click` with the elements of Click's kernel module: the router gets a device's frames,
//! and Linux gets those that `ToHost` gives it.

use std::time::Duration;

use europa_tests::{Error, Lab, Namespace, Process, europa, missing, skipped};
use nix::sys::signal::Signal;

const LIMIT: Duration = Duration::from_secs(20);

/// Answers connections to ports with the port, the peer's address, and the number of received
/// bytes.
const SERVER: &str = "
import socket, sys, threading
def serve(port):
    l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    l.bind(('', port)); l.listen()
    while True:
        c, a = l.accept(); n = 0
        while True:
            d = c.recv(65536)
            if not d: break
            n += len(d)
        c.sendall(f'{port} {a[0]} {n}'.encode()); c.close()
for port in map(int, sys.argv[1:]): threading.Thread(target=serve, args=(port,)).start()
print('listens', flush=True)
";

/// Sends this number of bytes; prints the answer, or `none` if there is no connection.
const CLIENT: &str = "
import socket, sys
try:
    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[4]))
    c.settimeout(10); c.sendall(b'x' * int(sys.argv[3])); c.shutdown(socket.SHUT_WR)
    print(c.recv(100).decode())
except OSError: print('none')
";

fn serve(at: &Namespace, ports: &[&str]) -> Result<Process, Error> {
    let mut server = at.start(&[&["python3", "-c", SERVER], ports].concat())?;
    server.wait_for("listens", LIMIT)?;
    Ok(server)
}

fn ask(
    from: &Namespace,
    address: &str,
    port: &str,
    bytes: &str,
    wait: &str,
) -> Result<String, Error> {
    let output = from.run(&["python3", "-c", CLIENT, address, port, bytes, wait])?;
    Ok(output.stdout.trim().to_owned())
}

fn click(at: &Namespace, text: &str) -> Result<Process, Error> {
    let program = europa().display().to_string();
    let text = format!("{text}; Script(print '#ready', pause)");
    let mut process = at.start(&[&program, "click", "-e", &text])?;
    process.wait_for("#ready", LIMIT)?;
    Ok(process)
}

/// An inner and an outer host, and a gateway between them whose Linux does not forward.
struct Gateway {
    _lab: Lab,
    inner: Namespace,
    gateway: Namespace,
    outer: Namespace,
}

const IN_MAC: &str = "02:00:00:00:00:01";
const OUT_MAC: &str = "02:00:00:00:00:02";
const OUTER_MAC: &str = "02:00:00:00:00:03";

impl Gateway {
    fn new() -> Result<Gateway, Error> {
        let mut lab = Lab::new()?;
        let (inner, gateway, outer) =
            (lab.namespace("in")?, lab.namespace("gw")?, lab.namespace("out")?);
        lab.veth((&inner, "eth0"), (&gateway, "in0"))?;
        lab.veth((&gateway, "out0"), (&outer, "eth0"))?;
        gateway.mac("in0", IN_MAC)?;
        gateway.mac("out0", OUT_MAC)?;
        outer.mac("eth0", OUTER_MAC)?;
        for (namespace, device, address) in [
            (&inner, "eth0", "10.0.0.5/8"),
            (&gateway, "in0", "10.0.0.1/8"),
            (&gateway, "out0", "192.0.2.1/24"),
            (&outer, "eth0", "192.0.2.9/24"),
        ] {
            namespace.address(device, address)?;
            namespace.ip(&["link", "set", device, "up"])?;
        }
        inner.route("default", "10.0.0.1")?;
        Ok(Gateway { _lab: lab, inner, gateway, outer })
    }
}

/// Network address translation, as written for the kernel module. It names devices by their
/// Ethernet address, gives passing packets to sniffers, and gives Linux packets for the gateway.
fn nat() -> String {
    format!(
        "AddressInfo(lan 10.0.0.1 10.0.0.0/8 {IN_MAC}, wan 192.0.2.1 192.0.2.0/24 {OUT_MAC}, \
            next {OUTER_MAC});
        elementclass Device {{ $device |
            from :: FromDevice($device) -> t1 :: Tee -> output;
            input -> q :: Queue(1024) -> t2 :: PullTee -> to :: ToDevice($device);
            t1[1] -> ToHostSniffers; t2[1] -> ToHostSniffers($device);
            ScheduleInfo(from .1, to 1);
        }}
        inside :: Device(lan:eth); outside :: Device(wan:eth);
        to_linux :: EtherEncap(0x0800, 1:1:1:1:1:1, lan) -> ToHost;
        out_arp, in_arp :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
        lan_arp :: ARPQuerier(lan);
        outside -> out_arp; out_arp[0] -> ARPResponder(wan) -> outside;
        out_arp[1] -> ToHost; out_arp[3] -> Discard;
        inside -> in_arp; in_arp[0] -> ARPResponder(lan) -> inside;
        in_arp[1] -> t :: Tee; t[0] -> ToHost; t[1] -> [1]lan_arp; in_arp[3] -> Discard;
        to_wan :: GetIPAddress(16) -> CheckIPHeader
            -> EtherEncap(0x0800, wan:eth, next:eth) -> outside;
        to_lan :: GetIPAddress(16) -> CheckIPHeader -> [0]lan_arp -> inside;
        rw :: IPRewriter(pattern wan 50000-65535 - - 0 1, drop);
        rw[0] -> to_wan; rw[1] -> to_lan;
        out_arp[2] -> Strip(14) -> CheckIPHeader -> mine :: IPClassifier(dst host wan, -);
        mine[0] -> ssh :: IPClassifier(dst tcp port ssh, -);
        ssh[0] -> to_linux; ssh[1] -> [1]rw; mine[1] -> Discard;
        in_arp[2] -> Strip(14) -> CheckIPHeader
            -> whose :: IPClassifier(dst host lan, dst net lan, -);
        whose[0] -> to_linux; whose[1] -> to_linux; whose[2] -> [0]rw"
    )
}

#[test]
fn a_nat_of_the_kernel_module_runs_on_devices() -> Result<(), Error> {
    if let Some(reason) = missing(&["python3"]) {
        skipped(&reason);
        return Ok(());
    }
    let lab = Gateway::new()?;
    let _outer = serve(&lab.outer, &["8000"])?;
    let _linux = serve(&lab.gateway, &["22", "8001"])?;
    let mut router = click(&lab.gateway, &nat())?;
    let answer = ask(&lab.inner, "192.0.2.9", "8000", "3000000", "5")?;
    assert_eq!(answer, "8000 192.0.2.1 3000000", "through the NAT: {}", router.stderr());
    let answer = ask(&lab.inner, "10.0.0.1", "22", "100000", "5")?;
    assert_eq!(answer, "22 10.0.0.5 100000", "to Linux, by ToHost");
    let answer = ask(&lab.outer, "192.0.2.1", "22", "100000", "5")?;
    assert_eq!(answer, "22 192.0.2.9 100000", "to Linux from outside");
    let answer = ask(&lab.outer, "192.0.2.1", "8001", "1", "1")?;
    assert_eq!(answer, "none", "Linux does not get what the NAT drops");
    assert!(router.is_running());
    router.signal(Signal::SIGKILL);
    router.wait(LIMIT)?;
    let answer = ask(&lab.outer, "192.0.2.1", "8001", "10", "5")?;
    assert_eq!(answer, "8001 192.0.2.9 10", "after a kill Linux has its frames again");
    Ok(())
}

#[test]
fn a_polled_device_and_one_without_sniffer_are_not_linuxs() -> Result<(), Error> {
    if let Some(reason) = missing(&["python3"]) {
        skipped(&reason);
        return Ok(());
    }
    let lab = Gateway::new()?;
    let _linux = serve(&lab.gateway, &["8001"])?;
    for (text, answers) in [
        ("FromDevice(out0) -> Discard", true),
        ("FromDevice(out0, SNIFFER false) -> Discard", false),
        ("PollDevice(out0) -> Discard", false),
        ("PollDevice(out0) -> ToHost", true),
        ("FromDPDKDevice(out0) -> Discard", false),
        (
            "FromDevice(out0, SNIFFER true) -> c :: Classifier(12/0806, -); c[0] -> Discard; \
            c[1] -> Discard; Idle -> ToHost(in0)",
            true,
        ),
    ] {
        let router = click(&lab.gateway, text)?;
        let answer = ask(&lab.outer, "192.0.2.1", "8001", "10", if answers { "5" } else { "1" })?;
        let wanted = if answers { "8001 192.0.2.9 10" } else { "none" };
        assert_eq!(answer, wanted, "{text}");
        router.signal(Signal::SIGTERM);
        router.wait(LIMIT)?;
        let answer = ask(&lab.outer, "192.0.2.1", "8001", "10", "5")?;
        assert_eq!(answer, "8001 192.0.2.9 10", "after {text}");
    }
    Ok(())
}

/// A sniffer of the gateway's device sees the packets that the router shows it; Linux does not.
#[test]
fn sniffers_are_shown_packets() -> Result<(), Error> {
    if let Some(reason) = missing(&["python3"]) {
        skipped(&reason);
        return Ok(());
    }
    let lab = Gateway::new()?;
    // Listens for all protocols, as tcpdump does.
    let listen = "import socket\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
        s.bind(('out0', 3)); s.settimeout(15); print('listens', flush=True)\n\
        while True:\n\
        \x20 d, a = s.recvfrom(2048)\n\
        \x20 if d[12:14] == bytes.fromhex('88b5'): break\n\
        print(len(d), a[2], flush=True)\n";
    let mut sniffer = lab.gateway.start(&["python3", "-c", listen])?;
    sniffer.wait_for("listens", LIMIT)?;
    let text = "RatedSource(DATA \\<020000000002 020000000009 88b5 0000>, LENGTH 60, RATE 10) \
        -> ToHostSniffers(out0)";
    let router = click(&lab.gateway, text)?;
    let seen = sniffer.wait(LIMIT)?.stdout;
    assert_eq!(seen, "listens\n60 0\n", "a frame for this host, as if received");
    router.signal(Signal::SIGTERM);
    router.wait(LIMIT)?;
    Ok(())
}
