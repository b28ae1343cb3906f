//! The same router twice: with a fast path, and as a plain namespace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use europa_packet::MacAddr;
use europa_tests::{Lab, Namespace, Node, patience};

use super::far::Far;
use super::packets::Packet;
use super::settings::Setting;

pub(crate) const INTERFACES: usize = 3;
/// The program for multicast routes.
const MROUTE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/mroute.py");
/// Time from a change to the first packet that must follow it.
const SETTLE: Duration = Duration::from_millis(300);
/// Longest time that the test waits for frames.
const LATEST: Duration = Duration::from_secs(1);
/// The test stops waiting after this time without a frame, if both sides have the same frames.
const QUIET: Duration = Duration::from_millis(60);

/// Number of equal frames, by interface and bytes.
type Seen = BTreeMap<(String, Vec<u8>), usize>;

/// The outcome of a run.
#[derive(Default)]
pub(crate) struct Tried {
    pub(crate) different: Vec<String>,
    /// Settings that were applied.
    pub(crate) made: Vec<&'static str>,
    /// Settings that neither router can have, with the reason.
    pub(crate) unable: Vec<(&'static str, String)>,
    /// Whether the routers have lost their former state.
    pub(crate) is_spoiled: bool,
}

/// One of the two routers.
struct Side {
    linux: String,
    far: Vec<Far>,
}

impl Drop for Side {
    fn drop(&mut self) {
        // The file of a daemon for multicast routes, which ended with its namespace.
        let _ = std::fs::remove_file(format!("/run/europa/{}.mroute", self.linux));
    }
}

/// Both routers.
pub(crate) struct Pair {
    sides: [Side; 2],
    macs: Vec<MacAddr>,
    pub(crate) node: Node,
    _lab: Lab,
}

impl Pair {
    pub(crate) fn new() -> Pair {
        let node = Node::new(None);
        let mut text = String::from(
            "kind: slice\nname: s\n---\nkind: router\nname: r\nslice: s\n\
             fast_path: {builtin: ipv4, routes: kernel}\nslow_path: {}\ninterfaces:\n",
        );
        for n in 0..INTERFACES {
            let _ = writeln!(
                text,
                "  eth{n}: {{link: h{n}, addresses: [10.0.{n}.1/24, \"fd00:{n}::1/64\"]}}"
            );
        }
        for n in 0..INTERFACES {
            let _ =
                write!(text, "---\nkind: host\nname: h{n}\ninterfaces: {{eth0: {{link: h{n}}}}}\n");
        }
        node.up(&text);
        let linux = node.host("s.r");
        let mut lab = Lab::new().expect("a lab");
        let far = lab.namespace("far").expect("a namespace");
        let plain = lab.namespace("plain").expect("a namespace");
        silence(&far);
        for n in 0..INTERFACES {
            let host = node.host(&format!("h{n}"));
            silence(&host);
            // The far end answers for this address.
            host.ip(&["addr", "flush", "dev", "eth0"]).expect("no addresses");
            host.ip(&["link", "set", "eth0", "arp", "off"]).expect("no ARP");
            lab.veth((&plain, &format!("eth{n}")), (&far, &format!("far{n}"))).expect("a veth");
        }
        let macs: Vec<MacAddr> = (0..INTERFACES).map(|n| own_mac(&linux, n)).collect();
        make_same(&linux, &plain, &macs);
        let fast = (0..INTERFACES).map(|n| Far::new(node.host(&format!("h{n}")).name(), "eth0", n));
        let slow = (0..INTERFACES).map(|n| Far::new(far.name(), &format!("far{n}"), n));
        let sides = [
            Side { linux: linux.name().into(), far: fast.collect() },
            Side { linux: plain.name().into(), far: slow.collect() },
        ];
        let pair = Pair { sides, macs, node, _lab: lab };
        let routes = pair
            .run("ip route add 10.9.0.0/16 via 10.0.1.9; ip -6 route add fd09::/16 via fd00:1::9");
        assert_eq!(routes, Ok(None), "both can do this");
        // No answer may depend on the number of earlier answers.
        for setting in [
            "ipv4.icmp_ratelimit=0",
            "ipv6.icmp.ratelimit=0",
            "ipv4.icmp_msgs_per_sec=100000",
            "ipv4.icmp_msgs_burst=10000",
        ] {
            // In some kernels the last settings do not belong to a namespace.
            let _ = pair.run(&format!("sysctl -qw net.{setting}"));
        }
        pair.wait_open();
        pair
    }

    /// Waits until the fast path forwards packets itself.
    fn wait_open(&self) {
        let limit = Instant::now() + Duration::from_secs(10) * patience();
        while self.node.run(&["read", "s/r", "gate0.policy"]).contains("all ") {
            assert!(Instant::now() < limit, "the fast path does not open");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(SETTLE * patience());
    }

    pub(crate) fn macs(&self) -> &[MacAddr] {
        &self.macs
    }

    /// Runs a line of shell in both. Returns the message if both refuse it; an error if only one
    /// refuses.
    fn run(&self, line: &str) -> Result<Option<String>, String> {
        let mut line = format!("set -e; {line}");
        for (n, mac) in self.macs.iter().enumerate() {
            line = line.replace(&format!("$MAC{n}"), &mac.to_string());
        }
        line = line.replace("$MROUTE", MROUTE);
        let outputs = [0, 1].map(|side: usize| {
            let linux = &self.sides[side].linux;
            let line = line.replace("$LINUX", linux);
            // The kernel accepts numbers of users only from the namespace's own users.
            if side == 0 && line.contains("uidrange") {
                return self.node.attempt(&["exec", "s/r", "sh", "-c", &line]);
            }
            let argv = ["ip", "netns", "exec", linux, "sh", "-c", &line];
            europa_tests::Process::start(&argv)
                .and_then(|process| process.wait(Duration::from_secs(30) * patience()))
                .expect("a shell")
        });
        let [fast, slow] = outputs.map(|output| match output.status.success() {
            true => Ok(()),
            false => Err(output.stderr),
        });
        match (&fast, slow) {
            (Err(_), Err(why)) => Err(why),
            (Ok(()), Ok(())) => Ok(None),
            (_, slow) => Ok(Some(format!("{line}: {fast:?} in the router, {slow:?} else"))),
        }
    }

    /// Applies settings one after the other, sends half of the packets before and half after that,
    /// and removes the settings.
    pub(crate) fn try_out(&self, settings: &[&Setting], packets: &[Packet]) -> Tried {
        let (before, after) = packets.split_at(packets.len() / 2);
        let mut tried =
            Tried { different: self.compare("before", before, false), ..Tried::default() };
        for setting in settings {
            match self.run(setting.set) {
                Ok(different) => {
                    tried.different.extend(different);
                    tried.made.push(setting.set);
                }
                Err(why) => {
                    // A part of the setting may be there.
                    let _ = self.run(setting.undo);
                    tried.unable.push((setting.set, why));
                }
            }
        }
        let made = settings.iter().filter(|setting| tried.made.contains(&setting.set)).rev();
        if made.clone().count() > 0 {
            let settles = made.clone().map(|setting| setting.settles()).max();
            std::thread::sleep(settles.unwrap_or(SETTLE) * patience());
            let spreads = made.clone().any(|setting| setting.spreads());
            tried.different.extend(self.compare("after", after, spreads));
        }
        for setting in made.clone() {
            match self.run(setting.undo) {
                Ok(different) => tried.different.extend(different),
                // A later setting may have removed the earlier one.
                Err(why) if settings.len() == 1 => tried.different.push(why),
                Err(_) => tried.is_spoiled = true,
            }
        }
        let settles = made.map(|setting| setting.settles()).max();
        std::thread::sleep(settles.unwrap_or(SETTLE) * patience());
        tried
    }

    /// Sends packets through both routers, one after the other. Returns the differences.
    fn compare(&self, when: &str, packets: &[Packet], spreads: bool) -> Vec<String> {
        let all = || self.sides.iter().flat_map(|side| &side.far);
        all().for_each(Far::forget);
        for packet in packets {
            for side in &self.sides {
                side.far[packet.interface].send(&packet.frame);
            }
            // The pause keeps the routers' queues from overflowing.
            std::thread::sleep(Duration::from_millis(1) * patience());
        }
        let limit = Instant::now() + LATEST * patience();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        let seen = loop {
            let seen = [0, 1].map(|side: usize| self.seen(side, spreads));
            let now: Vec<usize> = seen.iter().map(|seen| seen.values().sum()).collect();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            let is_done = seen[0] == seen[1] && since.elapsed() > QUIET * patience();
            if is_done || Instant::now() > limit {
                break seen;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let [fast, slow] = seen;
        let mut different = Vec::new();
        for (key, count) in fast.iter().filter(|(key, count)| slow.get(*key) != Some(count)) {
            let wanted = slow.get(key).unwrap_or(&0);
            different.push(format!("{when}: {count} times, not {wanted}: {}", show(key)));
        }
        for (key, count) in slow.iter().filter(|(key, _)| !fast.contains_key(*key)) {
            different.push(format!("{when}: missing {count} times: {}", show(key)));
        }
        if !different.is_empty() {
            different.extend(packets.iter().map(|packet| format!("  sent {}", packet.what)));
        }
        different
    }

    fn seen(&self, side: usize, spreads: bool) -> Seen {
        let mut seen = Seen::new();
        for (n, far) in self.sides[side].far.iter().enumerate() {
            for mut frame in far.heard() {
                let mut by = format!("eth{n}");
                if spreads && n > 0 {
                    by = "some interface".into();
                    frame[..12].fill(0);
                }
                *seen.entry((by, frame)).or_default() += 1;
            }
        }
        seen
    }
}

/// A readable text of a frame.
fn show((by, frame): &(String, Vec<u8>)) -> String {
    let hex: String = frame.iter().take(96).map(|byte| format!("{byte:02x}")).collect();
    format!("by {by}, {} bytes: {hex}", frame.len())
}

fn own_mac(linux: &Namespace, n: usize) -> MacAddr {
    let text = linux.run(&["cat", &format!("/sys/class/net/eth{n}/address")]).expect("an address");
    text.stdout.trim().parse().expect("an Ethernet address")
}

/// Keeps a namespace from sending on its own.
fn silence(namespace: &Namespace) {
    for setting in ["net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6"] {
        namespace.sysctl(setting, "1").expect("a setting");
    }
}

/// Gives a plain namespace the settings of a router's Linux.
fn make_same(linux: &Namespace, plain: &Namespace, macs: &[MacAddr]) {
    let pattern = "^net\\.(ipv4|ipv6)\\.(conf\\.(all|default)|fib|icmp|ip_forward)";
    let list = linux.run(&["sysctl", "-a", "--pattern", pattern]).expect("settings").stdout;
    let (mut file, mut lines) = (tempfile::NamedTempFile::new().expect("a file"), String::new());
    for line in list.lines().filter(|line| !line.contains("stable_secret")) {
        lines += line;
        lines.push('\n');
    }
    file.write_all(lines.as_bytes()).expect("a file");
    // The test cannot write settings of the machine, which are the same for both anyway.
    let argv = ["sysctl", "-qep", &file.path().to_string_lossy()];
    let _ = plain.attempt(Duration::from_secs(10), &argv);
    for (n, mac) in macs.iter().enumerate() {
        let device = format!("eth{n}");
        for (family, settings) in [
            ("ipv4", &["rp_filter", "forwarding", "send_redirects", "accept_local"][..]),
            ("ipv6", &["forwarding", "accept_dad"]),
        ] {
            for setting in settings {
                let name = format!("net.{family}.conf.{device}.{setting}");
                let value = linux.run(&["sysctl", "-n", &name]).expect("a setting").stdout;
                plain.sysctl(&name, value.trim()).expect("a setting");
            }
        }
        // The kernel derives the link-local address from the Ethernet address when the device comes
        // up.
        plain.ip(&["link", "set", &device, "down"]).expect("down");
        plain.mac(&device, &mac.to_string()).expect("an Ethernet address");
        plain.ip(&["link", "set", &device, "up"]).expect("up");
        plain.address(&device, &format!("10.0.{n}.1/24")).expect("an address");
        plain.address(&device, &format!("fd00:{n}::1/64")).expect("an address");
        let _ = plain.offloads(&device, &[("tx", false), ("tso", false), ("gso", false)]);
    }
    linux.ip(&["link", "set", "lo", "up"]).expect("lo");
}
