//! Captures, and tshark's results for them.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

/// A capture of IPv4 datagrams of protocol 46 (link type 101: raw IP).
fn capture(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101] {
        bytes.extend(word.to_be_bytes());
    }
    for (number, message) in messages.iter().enumerate() {
        let length = 20 + message.len();
        for word in [number, 0, length, length] {
            bytes.extend((word as u32).to_be_bytes());
        }
        let mut header = vec![0x45, 0xc0];
        header.extend((length as u16).to_be_bytes());
        header.extend([0, 0, 0, 0, message[4], 46, 0, 0]);
        header.extend(Ipv4Addr::new(192, 0, 2, 1).octets());
        header.extend(Ipv4Addr::new(192, 0, 2, 9).octets());
        let sum: u32 =
            header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(header);
        bytes.extend(message);
    }
    bytes
}

/// For each message: number, type, malformed parts and tshark's remarks; `None` if tshark is not
/// installed.
pub(crate) fn dissect(messages: &[Vec<u8>]) -> Option<Vec<String>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: tshark is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("messages.pcap");
    fs::write(&file, capture(messages)).unwrap();
    let fields = ["frame.number", "rsvp.msg", "_ws.malformed", "_ws.expert.message"];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file).args(["-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), messages.len());
    Some(lines)
}
