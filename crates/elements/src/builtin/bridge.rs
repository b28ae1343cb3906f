//! `builtin: bridge`.

use std::fmt::Write as _;

use super::Interface;

/// Bytes of an Ethernet header with a VLAN tag.
const HEADER: u32 = 18;

/// The configuration of a learning bridge between these interfaces.
///
/// Frames for an interface with a smaller MTU than others are dropped if they are too long for it:
/// a bridge cannot inform their sender.
pub fn bridge(interfaces: &[Interface]) -> String {
    let mut text = String::from("// A learning bridge. Groups reserved for bridges stay here.\n");
    text += "bridge :: EtherSwitch(RESERVED false);\n";
    let largest = interfaces.iter().map(|interface| interface.mtu).max().unwrap_or(0);
    for (index, Interface { name, mtu, .. }) in interfaces.iter().enumerate() {
        let check = match *mtu < largest {
            true => format!("CheckLength({}) -> ", mtu.saturating_add(HEADER)),
            false => String::new(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\nFromDevice({name}, PROMISC true) -> [{index}]bridge;\n\
             bridge[{index}] -> {check}ToDevice({name});"
        );
    }
    text
}
