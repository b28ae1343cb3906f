//! `describe`: all data about one object.

use std::net::{IpAddr, Ipv6Addr};
use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::{Event, Object};
use europa_api::stats::{InterfaceStats, NodeStats};
use europa_client::Client;
use europa_node::Instance;
use serde_json::Value;

use crate::complete;
use crate::exit::Failure;
use crate::get::{one, yaml};
use crate::handler;
use crate::kinds::Reference;
use crate::table::{Colours, Table, line, plain, plain_lines};
use crate::up::client;

/// Arguments of `describe`.
#[derive(Args)]
pub(crate) struct DescribeArgs {
    /// port, slice, link, host, router, filters or user; or KIND/NAME.
    #[arg(add = ArgValueCompleter::new(complete::kinds))]
    kind: String,
    /// The object's name: SLICE/NAME for a router.
    #[arg(add = ArgValueCompleter::new(complete::objects))]
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn describe(instance: &Instance, args: &DescribeArgs) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let object = one(&client, &Reference::of(&args.kind, args.name.as_deref())?)?;
    if args.json {
        line!("{}", serde_json::to_string_pretty(&object)?);
        return Ok(ExitCode::SUCCESS);
    }
    let colours = Colours::stdout();
    line!("{} {}", object.kind, colours.bold(&object.name));
    line!("  state:      {}", colours.state(&object.status.state));
    if let Some(message) = &object.status.message {
        line!("  message:    {}", plain_lines(message));
    }
    line!("  generation: {}, changed {}", object.generation, object.changed);
    for (name, value) in &object.status.details {
        match value {
            // A table below has them.
            Value::Array(_) if name == "interfaces" => {}
            Value::Object(map) => {
                line!("  {name}:");
                for (name, value) in map {
                    line!("    {name}: {}", flat(value));
                }
            }
            value => line!("  {name}: {}", flat(value)),
        }
    }
    if object.kind == "router"
        && let Ok(text) = handler::read(instance, &object.name, "super_packets")
    {
        line!("  super-packets: {}", plain(&text));
    }
    if matches!(object.kind.as_str(), "router" | "host") {
        let stats: NodeStats = client.get("/v1/stats")?;
        addresses(&stats, &object);
        counters(&stats, &object);
    }
    line!("\ndocument:");
    for text in yaml(std::slice::from_ref(&object))?.lines() {
        line!("  {text}");
    }
    events(&client, &object)?;
    Ok(ExitCode::SUCCESS)
}

/// A value in one line, without braces.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(name, value)| format!("{name} {}", flat(value))).collect();
            pairs.join(", ")
        }
        other => other.to_string(),
    }
}

/// The interfaces of a router or host with all addresses: configured and automatic ones.
fn addresses(stats: &NodeStats, object: &Object) {
    let mut table = Table::new(&["INTERFACE", "ATTACHED TO", "MAC", "ADDRESSES"]);
    let mut row = |name: &str, to: String, mac: &str, addresses: Vec<String>| {
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        table.row([
            name.to_owned(),
            or_none(to),
            or_none(mac.to_owned()),
            or_none(addresses.join(" ")),
        ]);
    };
    if object.kind == "router" {
        let Some(router) = stats.routers.iter().find(|one| one.name == object.name) else { return };
        for interface in &router.interfaces {
            let text = interface.addresses.iter().map(ToString::to_string);
            let all = text.chain(link_local(object, interface)).collect();
            row(&interface.name, attached(object, &interface.name), &interface.mac, all);
        }
    } else {
        let Some(host) = stats.hosts.iter().find(|one| one.name == object.name) else { return };
        for interface in &host.interfaces {
            let all = interface.addresses.iter().map(ToString::to_string).collect();
            row(&interface.name, interface.to.clone(), &interface.mac, all);
        }
    }
    line!("\naddresses:");
    for text in table.text(Colours::stdout()).lines() {
        line!("  {text}");
    }
}

/// The other end of an interface, from a router's document.
fn attached(object: &Object, interface: &str) -> String {
    let fields = object.document.get("interfaces").and_then(|all| all.get(interface));
    let named = ["port", "link"].into_iter().find_map(|kind| {
        let name = fields?.get(kind)?.as_str()?;
        Some(format!("{kind} {name}"))
    });
    named.unwrap_or_default()
}

/// The link-local address that a built-in router gives each interface with an IPv6 address.
fn link_local(object: &Object, interface: &InterfaceStats) -> Option<String> {
    object.document.get("fast_path")?.get("builtin")?;
    interface.addresses.iter().find(|net| matches!(net.addr(), IpAddr::V6(_)))?;
    let bytes: Option<Vec<u8>> =
        interface.mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let mac: [u8; 6] = bytes?.try_into().ok()?;
    // RFC 4291, appendix A.
    let id = [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]];
    let address =
        Ipv6Addr::from(u128::from(0xfe80_u16) << 112 | u128::from(u64::from_be_bytes(id)));
    Some(format!("{address}/64"))
}

fn counters(stats: &NodeStats, object: &Object) {
    let Some(router) = stats.routers.iter().find(|router| router.name == object.name) else {
        return;
    };
    line!("\ncounters:");
    let mut table = Table::new(&["INTERFACE", "RX PACKETS", "RX BYTES", "TX PACKETS", "TX BYTES"])
        .right(&[1, 2, 3, 4]);
    for i in &router.interfaces {
        let numbers = [i.rx_packets, i.rx_bytes, i.tx_packets, i.tx_bytes];
        table.row(std::iter::once(i.name.clone()).chain(numbers.map(|n| n.to_string())));
    }
    for line in table.text(Colours::stdout()).lines() {
        line!("  {line}");
    }
    for interface in &router.interfaces {
        for (cause, count) in &interface.drops {
            line!("  {}: {count} dropped: {cause}", interface.name);
        }
    }
}

fn events(client: &Client, object: &Object) -> Result<(), Failure> {
    let text = client.get_bytes("/v1/events")?;
    let all = text.split(|byte| *byte == b'\n');
    let all: Vec<Event> = all.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let own: Vec<&Event> =
        all.iter().filter(|e| e.kind == object.kind && e.name == object.name).collect();
    if !own.is_empty() {
        line!("\nevents:");
    }
    for event in own.iter().rev().take(10).rev() {
        line!("  {}  {:<10} {}", event.time, event.reason, plain_lines(&event.message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::rest::Status;
    use serde_json::json;

    #[test]
    fn automatic_addresses_are_shown() {
        let document = |fast_path: Value| Object {
            kind: "router".into(),
            name: "red/r1".into(),
            generation: 1,
            changed: String::new(),
            document: json!({"interfaces": {"in": {"port": "left"}, "up": {"link": "l"}},
                "fast_path": fast_path}),
            status: Status::default(),
        };
        let interface = |address: &str| InterfaceStats {
            mac: "02:3f:14:b8:b8:4f".into(),
            addresses: vec![address.parse().expect("an address")],
            ..InterfaceStats::default()
        };
        let (builtin, click) = (json!({"builtin": "ipv4"}), json!({"click": "Idle -> Discard"}));
        for (fast_path, address, wanted) in [
            (&builtin, "2001:db8::1/64", Some("fe80::3f:14ff:feb8:b84f/64")),
            (&builtin, "10.0.0.1/24", None),
            (&click, "2001:db8::1/64", None),
        ] {
            let found = link_local(&document(fast_path.clone()), &interface(address));
            assert_eq!(found.as_deref(), wanted, "{fast_path} {address}");
        }
        let object = document(builtin);
        assert_eq!(attached(&object, "in"), "port left");
        assert_eq!(attached(&object, "up"), "link l");
        assert_eq!(attached(&object, "none"), "");
    }
}
