//! Tests of `FromIPSummaryDump`.

use crate::testing::{Bench, run};
use europa_engine::Graph;

/// A dump that was read and written again.
fn again(dump: &str, from: &[&str], to: &[&str]) -> String {
    // Each case has its own file, named by a hash of its text.
    let hash = super::super::md5::hex(super::super::md5::digest(
        format!("{dump}{from:?}{to:?}").as_bytes(),
    ));
    let path = std::env::temp_dir().join(format!("europa-{}-{hash}", std::process::id()));
    let mut graph = Graph::default();
    let data = format!("DATA \"{}\"", dump.replace('\\', "\\\\").replace('"', "\\\""));
    let source = graph.add("s", "FromIPSummaryDump", &[&[data.as_str()], from].concat());
    let name = path.to_str().unwrap();
    let sink = graph.add("t", "ToIPSummaryDump", &[&[name, "HEADER false"], to].concat());
    graph.connect(source, 0, sink, 0);
    drop(run(graph));
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn lines_come_back_as_they_were() {
    for (fields, line) in [
        ("src dst proto", "1.0.0.1 2.0.0.2 U\n"),
        ("timestamp ip_id ip_ttl ip_tos", "7.000000009 12 3 4\n"),
        ("sport dport tcp_seq tcp_ack tcp_flags tcp_window tcp_urp", "1 2 3 4 SA 5 6\n"),
        ("tcp_opt payload", "mss1400;sackok \"a b\\n\"\n"),
        ("ip_opt src", "rr{1.0.0.1}+2 1.0.0.2\n"),
        ("ip_fragoff ip_frag", "64+ f\n"),
        ("ip_len payload_len", "80 40\n"),
        ("eth_src eth_dst eth_type", "00-01-02-03-04-05 06-07-08-09-0A-0B 0800\n"),
        ("count aggregate direction", "3 4 <\n"),
        ("ip_ecn ip_dscp", "ce 46\n"),
    ] {
        let dump = format!("!data {fields}\n{line}");
        assert_eq!(again(&dump, &[], &[&format!("FIELDS {fields}")]), line, "{fields}");
    }
    let dump = "!data icmp_type icmp_code icmp_seq\n!proto I\necho 0 7\nunreachable port 1\n";
    let names = &["FIELDS icmp_type_name icmp_code_name icmp_seq ip_len"];
    assert_eq!(again(dump, &[], names), "echo 0 7 28\nunreachable port - 28\n");
    let dump = "!flowid 1.0.0.1 5 2.0.0.2 6 U\n!data ip_len\n40\n";
    assert_eq!(
        again(dump, &[], &["FIELDS src sport dst dport udp_len"]),
        "1.0.0.1 5 2.0.0.2 6 20\n"
    );
}

#[test]
fn a_line_may_stand_for_many_packets() {
    let dump = "!data timestamp first_timestamp count ip_len\n5 3 3 150\n";
    let out = again(dump, &["MULTIPACKET true"], &["FIELDS timestamp ip_len"]);
    assert_eq!(out, "3.000000 50\n4.000000 50\n5.000000 50\n");
}

#[test]
fn binary_records_come_back() {
    let fields = "FIELDS timestamp src sport tcp_opt ip_len";
    let dump = "!data timestamp src sport tcp_opt ip_len\n2.5 1.0.0.1 7 mss1400 44\n";
    let binary = again(dump, &[], &[fields, "BINARY true"]);
    let record =
        b"\0\0\0\x1b\0\0\0\x02\0\x07\xa1\x20\x01\0\0\x01\0\x07\x04\x02\x04\x05\x78\0\0\0\x2c";
    assert_eq!(binary, String::from_utf8_lossy(record));
}

#[test]
fn mistakes_are_named() {
    assert_eq!(Bench::error("FromIPSummaryDump", &[]), "FILENAME: required argument missing");
    let error = Bench::error("FromIPSummaryDump", &["/nonexistent"]);
    assert_eq!(error, "/nonexistent: No such file or directory");
    let error = Bench::error("ToIPSummaryDump", &["-", "FIELDS nothing"]);
    assert_eq!(error, "unknown content type 'nothing'");
}

proptest::proptest! {
    #[test]
    fn any_line(line in "[-0-9a-zA-Z.<>!{}:;,= \"]{0,60}") {
        let fields = "src sport ip_opt tcp_opt tcp_flags ip_fragoff payload payload_len ip_len ip_hl tcp_off eth_src";
        let data = format!("DATA \"!data {fields}\n{}\"", line.replace('"', "'"));
        let mut bench = Bench::new("FromIPSummaryDump", &[&data, "CHECKSUM true"]);
        bench.router.set_log(Box::new(|_| {}));
        bench.run();
    }
}
