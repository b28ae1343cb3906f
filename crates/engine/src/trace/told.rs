//! Values of elements' own handlers for a packet: the cause of a drop, the destination.

use europa_pool::Packet;
use europa_pool::packet::annotation;

use crate::devices::Devices;
use crate::handler::Flags;
use crate::state::{Core, Slot, with_element};

/// Handlers of an element that count drops, and their values.
pub(super) fn drops(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    index: usize,
) -> Vec<(&'static str, String)> {
    let read = with_element(core, elements, devices, index, |element, context| {
        let of_drops = element.handlers().iter().filter(|handler| {
            handler.flags.has(Flags::READ)
                && !handler.flags.has(Flags::PARAMETER)
                && handler.name.contains("drop")
        });
        let names: Vec<&'static str> = of_drops.map(|handler| handler.name).collect();
        let texts = names
            .into_iter()
            .filter_map(|name| Some((name, element.read(name, "", context).ok()?)));
        texts.collect()
    });
    read.unwrap_or_default()
}

/// The element's table entry for the packet's destination.
pub(super) fn look_up(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    index: usize,
    packet: &Packet,
) -> Option<String> {
    let v4 = std::net::Ipv4Addr::from(packet.annotation::<4>(annotation::DST_IP));
    let v6 = std::net::Ipv6Addr::from(packet.annotation::<16>(annotation::DST_IP6));
    with_element(core, elements, devices, index, |element, context| {
        let has = |name| element.handlers().iter().any(|handler| handler.name == name);
        if has("lookup") {
            return [v4.to_string(), v6.to_string()].iter().find_map(|address| {
                let text = element.read("lookup", address, context).ok()?;
                let text = text.trim();
                Some(match text.split_once(' ') {
                    _ if text == "-1" => format!("no route to {address}"),
                    Some((output, gateway)) => {
                        format!("route to {address}: via {gateway}, output {output}")
                    }
                    None => format!("route to {address}: output {text}"),
                })
            });
        }
        // In a table of neighbours: the line that begins with the address.
        if has("table") && has("queries") {
            let table = element.read("table", "", context).ok()?;
            let line = [v4.to_string(), v6.to_string()].iter().find_map(|address| {
                let of = |line: &&str| line.split(' ').next() == Some(address.as_str());
                table.lines().find(of).map(str::to_owned)
            });
            return Some(match line {
                Some(line) => format!("neighbour {line}"),
                None => "neighbour not known".to_owned(),
            });
        }
        None
    })?
}

/// Compares the texts of an element's drop handlers before and after: the changes are causes.
pub(super) fn causes(
    before: &[(&'static str, String)],
    after: &[(&'static str, String)],
) -> Vec<String> {
    let changed = before.iter().zip(after).filter(|(before, after)| before.1 != after.1);
    let (mut causes, mut counts) = (Vec::new(), Vec::new());
    for ((name, before), (_, after)) in changed {
        let old: Vec<&str> = before.lines().collect();
        for line in after.lines().filter(|line| !old.contains(line)) {
            // Lines of details are a count and its cause.
            match line.trim().split_once(char::is_whitespace) {
                Some((count, cause)) if count.parse::<u64>().is_ok() => {
                    causes.push(cause.trim().to_owned());
                }
                _ => counts.push(format!("{name} is now {}", line.trim())),
            }
        }
    }
    // A cause contains more information than its count.
    if causes.is_empty() { counts } else { causes }
}
