use europa_api::lsp::FlowPath;

use super::*;

#[test]
fn counters_are_named_and_labelled() {
    let interface = InterfaceStats {
        name: "in".into(),
        rx_packets: 7,
        drops: vec![("no \"free\" slot".into(), 3)],
        ..InterfaceStats::default()
    };
    let router = RouterStats {
        name: "red/r1".into(),
        state: "running".into(),
        cpu_ns: Some(1_500_000_000),
        interfaces: vec![interface],
        ..RouterStats::default()
    };
    let stats = NodeStats { routers: vec![router], ..NodeStats::default() };
    let flow = FlowPath {
        name: "voice".into(),
        slice: "red".into(),
        state: "up".into(),
        ..FlowPath::default()
    };
    let interface = Reservable { name: "red/r1.in".into(), bandwidth: 8000, left: 1600 };
    let flows = LspList { flows: vec![flow], interfaces: vec![interface], ..LspList::default() };
    let text = text("default", stats, flows);
    for line in [
        "# TYPE europa_interface_receive_packets counter",
        "europa_router_up{slice=\"red\",router=\"r1\"} 1",
        "europa_router_cpu_seconds_total{slice=\"red\",router=\"r1\"} 1.5",
        "europa_interface_receive_packets_total{slice=\"red\",router=\"r1\",interface=\"in\"} 7",
        "europa_interface_drops_total{slice=\"red\",router=\"r1\",interface=\"in\",\
         cause=\"no \\\"free\\\" slot\"} 3",
        "europa_flow_up{slice=\"red\",flow=\"voice\"} 1",
        "europa_interface_unreserved_bytes_per_second{slice=\"red\",router=\"r1\",\
         interface=\"in\"} 200",
        "europa_switch_restarts_total 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("europa_port"), "what there is none of is not told");
}
