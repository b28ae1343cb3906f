//! The process of a router with `run: kernel`: its XDP program runs in the kernel. This process
//! gets the packets that the program passes, and those that never reach the program.

use std::fmt::Write as _;

use super::Interface;

/// The configuration: all packets go to the slow path and back; without a slow path they are
/// discarded. Frames that the program sends by interfaces of `queued` arrive by a hidden interface,
/// and leave by the interface that the program chose.
pub fn kernel(interfaces: &[Interface], has_slow_path: bool, queued: &[&str]) -> String {
    let mut text = String::from("// The router's XDP program runs in the kernel.\n");
    text += match has_slow_path {
        true => {
            "// What it passes, and broadcasts of a shared port, are Linux's.\n\
             host :: ToHost(KEEP 256); urgent :: ToHost;\n\
             police :: HostPolice; police[0] -> host; police[1] -> urgent;\n\
             Idle -> [1]police; Idle -> [2]police;\n"
        }
        false => {
            "// There is no slow path for what it passes.\n\
             passed :: Counter -> Discard;\n"
        }
    };
    for (number, Interface { name, .. }) in interfaces.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = match has_slow_path {
            true => writeln!(
                text,
                "FromDevice({name}, true) -> police; FromHost({name}) -> to{number} :: ToDevice({name});"
            ),
            false => writeln!(text, "FromDevice({name}, true) -> passed;"),
        };
        if queued.contains(&name.as_str()) {
            let to = match has_slow_path {
                true => format!("to{number}"),
                false => format!("ToDevice({name})"),
            };
            let _ = writeln!(text, "FromDevice({name}@queue, true) -> {to};");
        }
    }
    text
}
