//! Frames as they are on the wire: written as expressions of scapy, sent and found again
//! byte by byte.
#![allow(dead_code, reason = "each test program uses a part of it")]

use europa_tests::{Captured, Namespace};

/// Addresses and short forms for expressions. `M` is a payload that no other row has.
const WORDS: &str = r"
A, B, I, O = ['02:00:00:00:00:' + x for x in ('0a', '0b', '01', '02')]
P, Q, X = '02:00:00:00:01:01', '02:00:00:00:01:02', '02:00:00:00:00:99'
ALL = 'ff:ff:ff:ff:ff:ff'
def E(to, **k):
    return Ether(**{'src': A, 'dst': to, **k})
def V(vlan, **k):
    return Dot1Q(vlan=vlan, **k)
def U(dst='10.9.9.9', port=9, src='10.0.1.2', **k):
    return IP(src=src, dst=dst, **k) / UDP(sport=4000, dport=port) / M
def U6(dst='fd09::9', port=9, src='fd00:1::2'):
    return IPv6(src=src, dst=dst) / UDP(sport=4000, dport=port) / M
def X4(vni, inner, src='10.0.1.2', dst='10.0.1.1', sport=50000):
    return (IP(src=src, dst=dst, flags='DF', id=0) /
            UDP(sport=sport, dport=4789, chksum=0) / VXLAN(vni=vni, flags=8) / inner)
def X6(vni, inner, src='fd00:1::2', dst='fd00:1::1', sport=50000):
    return (IPv6(src=src, dst=dst, hlim=64) /
            UDP(sport=sport, dport=4789, chksum=0) / VXLAN(vni=vni, flags=8) / inner)
N4 = ARP(op=2, hwsrc=A, psrc='10.0.1.2', hwdst=P, pdst='10.0.1.77')
";

/// The marks of the frames of row `index`.
pub(crate) fn mark(index: usize) -> String {
    format!("<row {index:03}>")
}

/// The bytes of expressions, each with the number of the row it belongs to.
pub(crate) fn bytes(place: &Namespace, expressions: &[(usize, &str)]) -> Vec<Vec<u8>> {
    let mut script = WORDS.to_owned();
    for (index, expression) in expressions {
        script += &format!("M = b'{}'\nprint(bytes({expression}).hex())\n", mark(*index));
    }
    let printed = place.scapy(&script).expect("scapy");
    printed.lines().map(unhex).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
    digits.map(|pair| byte(pair).expect("hexadecimal")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends each frame `times` times as fast as possible, in turns of 300 with a pause after each.
pub(crate) fn send(from: &Namespace, device: &str, frames: &[Vec<u8>], times: usize) {
    const SCRIPT: &str = "import socket, sys, time\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind((sys.argv[1], 0))\n\
        frames = [bytes.fromhex(frame) for frame in sys.stdin.read().split()]\n\
        times = int(sys.argv[2])\n\
        for begin in range(0, times, 300):\n    \
        for frame in frames:\n        \
        for _ in range(min(300, times - begin)):\n            s.send(frame)\n        \
        time.sleep(0.003)\n";
    let text: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text.join("\n")).expect("frames");
    let command =
        format!("exec /usr/bin/python3 -c \"$0\" \"$1\" \"$2\" < {}", file.path().display());
    from.run(&["sh", "-c", &command, SCRIPT, device, &times.to_string()]).expect("frames are sent");
}

/// The frames of row `index`, each one once, in order of their bytes.
pub(crate) fn of_row(captured: &Captured, index: usize) -> Vec<Vec<u8>> {
    let mark = mark(index);
    let frames = captured.frames().expect("frames").into_iter();
    let mut found: Vec<_> = frames
        .filter(|frame| frame.windows(mark.len()).any(|part| part == mark.as_bytes()))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// How many times row `index` was captured.
pub(crate) fn count(captured: &Captured, index: usize) -> usize {
    let mark = mark(index);
    let frames = captured.frames().expect("frames").into_iter();
    frames.filter(|frame| frame.windows(mark.len()).any(|part| part == mark.as_bytes())).count()
}

/// The frame with a VLAN tag.
pub(crate) fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let mut with = frame[..12].to_vec();
    with.extend([0x81, 0]);
    with.extend(vlan.to_be_bytes());
    with.extend(&frame[12..]);
    with
}

/// Frames for a message: one a line.
pub(crate) fn shown(frames: &[Vec<u8>]) -> String {
    frames.iter().map(|frame| format!("\n    {}", hex(frame))).collect()
}
