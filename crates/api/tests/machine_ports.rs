//! Ports of the machine and routers with a slow path alone: what is read, and what is refused.

use europa_api::{Documents, PortNumber, Run, Source, parse};

fn read(text: &str) -> Result<Documents, Vec<String>> {
    let text = text.to_owned();
    parse(&[Source { path: "t.yaml".into(), text }]).map_err(|problems| {
        let told = |problem: &europa_api::Problem| {
            let (line, column) = problem.line_column();
            format!("{line}:{column} {problem}")
        };
        problems.iter().map(told).collect()
    })
}

fn slices(red: &str, blue: &str, slow_path: &str) -> String {
    format!(
        "kind: slice\nname: red\nreservation: {{machine_ports: [{red}]}}\n---\n\
         kind: slice\nname: blue\nreservation: {{machine_ports: [{blue}]}}\n---\n\
         kind: router\nname: r\nslice: red\nslow_path: {slow_path}\n"
    )
}

const WEB: &str = "{protocol: tcp, port: 80}";
const ANY: &str = "{protocol: udp, port: any}";

#[test]
fn mistakes() {
    let at = |address: &str| format!("{{protocol: tcp, port: 80, addresses: [\"{address}\"]}}");
    let inside = |port: &str| {
        format!("{{uplink: true, machine_ports: [{{protocol: tcp, port: {port}, inside: 8}}]}}")
    };
    for (red, blue, slow_path, wanted) in [
        (WEB, WEB, "{}", &["7:53 tcp port 80 is reserved twice"] as &[&str]),
        (WEB, "{protocol: udp, port: 80}", "{}", &[]),
        (&at("192.0.2.1"), &at("192.0.2.2"), "{}", &[]),
        (&at("192.0.2.1"), &at("192.0.2.1"), "{}", &["7:53 tcp port 80 is reserved twice"]),
        (&at("192.0.2.1"), WEB, "{}", &["7:53 tcp port 80 is reserved twice"]),
        (&at("127.0.0.1"), "", "{}", &["3:69 127.0.0.1 is no address that others reach"]),
        ("{protocol: tcp, port: 0}", "", "{}", &["3:53 a port is `any` or 1 to 65535, not 0"]),
        (
            "{protocol: tcp, port: 65536}",
            "",
            "{}",
            &["3:53 a port is `any` or 1 to 65535, not 65536"],
        ),
        ("{protocol: sctp, port: 1}", "", "{}", &["3:42 \"sctp\" is not a protocol with ports"]),
        (ANY, ANY, &inside("80"), &["12:65 slice red does not reserve tcp port 80"]),
        (WEB, "", &inside("80"), &[]),
        (WEB, "", &inside("any"), &["12:65 slice red does not reserve tcp port any"]),
        (
            WEB,
            "",
            "{machine_ports: [{protocol: tcp, port: 80, inside: 8}]}",
            &["12:29 ports of the machine come in by the uplink"],
        ),
        (
            WEB,
            "",
            "{uplink: true, machine_ports: [{protocol: tcp, port: 80, inside: 0}]}",
            &["12:77 there is no port 0"],
        ),
    ] {
        let found = read(&slices(red, blue, slow_path)).err().unwrap_or_default();
        assert_eq!(found, wanted, "{red} {blue} {slow_path}");
    }
    let many = vec![ANY; 65].join(", ");
    let found = read(&slices(&many, "", "{}")).err().unwrap_or_default();
    assert!(found.len() == 1 && found[0].contains("at most 64 ports"), "{found:?}");
}

#[test]
fn a_slow_path_alone() {
    let documents = read(&slices(&format!("{WEB}, {ANY}"), "", "{uplink: true}")).expect("right");
    let router = &documents.routers[0];
    assert!(router.fast_path.is_absent() && router.interfaces.0.is_empty());
    assert_eq!(router.run, Run::Inline);
    let reserved = documents.slices[0].reservation.as_ref().expect("a reservation");
    assert_eq!(reserved.machine_ports[1].port.value, PortNumber::Any);
    // Its stored form is read as the same.
    for document in documents.iter() {
        let kept = europa_api::Kept::of(&document).expect("a text");
        assert!(!kept.document.contains("fast_path"), "{}", kept.document);
    }
    // Without a slow path, or with interfaces, it needs a fast path.
    for (text, wanted) in [
        ("kind: router\nname: r\nslice: red\n", "a router needs `interfaces`"),
        (
            "kind: router\nname: r\nslice: red\nslow_path: {}\ninterfaces: {a: {link: l}}\n",
            "a router needs `fast_path`",
        ),
    ] {
        let found = read(&format!("kind: slice\nname: red\n---\n{text}")).err();
        let found = found.unwrap_or_default();
        assert!(found.iter().any(|one| one.contains(wanted)), "{found:?}");
    }
}
