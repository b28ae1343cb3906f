//! A class table like that of user-level Click, with the classes that the tests use.

use europa_click::{ClassTable, Shape};

pub(crate) fn classes() -> ClassTable {
    let mut table = ClassTable::new();
    for (name, ports, processing, flow) in [
        ("ARPQuerier", "2/1-2", "h/h", "xy/x"),
        ("ARPResponder", "1/1-2", "a/ah", "x/x"),
        ("AddressInfo", "0", "a/a", "x/x"),
        ("CheckIPHeader", "1/1-2", "a/ah", "x/x"),
        ("CheckPaint", "1/1-2", "a/ah", "x/x"),
        ("Classifier", "1/-", "h/h", "x/x"),
        ("Counter", "1/1", "a/a", "x/x"),
        ("DecIPTTL", "1/1-2", "a/ah", "x/x"),
        ("Discard", "1/0", "a/a", "x/y"),
        ("DriverManager", "0", "a/a", "x/x"),
        ("DropBroadcasts", "1/1", "a/a", "x/x"),
        ("EtherEncap", "1/1", "a/a", "x/x"),
        ("FixIPSrc", "1/1", "a/a", "x/x"),
        ("FromDevice", "0/1", "h/h", "x/y"),
        ("GetIPAddress", "1/1", "a/a", "x/x"),
        ("ICMPError", "1/1", "h/h", "x/y"),
        ("IPClassifier", "1/-", "h/h", "x/x"),
        ("IPFragmenter", "1/1-2", "h/h", "x/x"),
        ("IPGWOptions", "1/1-2", "a/ah", "x/x"),
        ("IPRewriter", "1-/1-", "h/h", "x/x"),
        ("Idle", "-/-", "a/a", "x/y"),
        ("InfiniteSource", "0/1", "a/a", "x/y"),
        ("Message", "0", "a/a", "x/x"),
        ("Null", "1/1", "a/a", "x/x"),
        ("Paint", "1/1", "a/a", "x/x"),
        ("PaintTee", "1/2", "a/ah", "x/x"),
        ("Print", "1/1", "a/a", "x/x"),
        ("PullNull", "1/1", "l/l", "x/x"),
        ("Queue", "1-2/1-2", "h/lh", "x/y"),
        ("RadixIPLookup", "1/-", "h/h", "x/x"),
        ("RatedSource", "0/1", "a/a", "x/y"),
        ("RoundRobinSched", "1-/1", "l/l", "x/x"),
        ("Shaper", "1/1", "l/l", "x/x"),
        ("StaticIPLookup", "1/-", "h/h", "x/x"),
        ("Strip", "1/1", "a/a", "x/x"),
        ("Switch", "1/-", "h/h", "x/x"),
        ("Tee", "1/1-", "h/h", "x/x"),
        ("ToDevice", "1/0-2", "l/h", "x/y"),
        ("ToHost", "1/0-1", "a/ah", "x/y"),
        ("TimedSink", "1/0", "l/l", "x/y"),
        ("TimedSource", "0/1", "h/h", "x/y"),
        ("Unqueue", "1/1", "l/h", "x/x"),
        ("Wide", "-/=", "a/a", "#/#"),
    ] {
        table.insert(name, Shape::new(ports, processing, flow));
    }
    table
}
