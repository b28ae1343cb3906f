//! The process of a router with `run: kernel`: its XDP program runs in the kernel, and this process
//! takes the packets that the program passes or never sees.

use std::fmt::Write as _;

use super::Interface;

/// The configuration: everything goes to the slow path and back, or nowhere if there is none.
pub fn kernel(interfaces: &[Interface], has_slow_path: bool) -> String {
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
    for Interface { name, .. } in interfaces {
        // Writing to a string cannot fail.
        let _ = match has_slow_path {
            true => writeln!(
                text,
                "FromDevice({name}, true) -> police; FromHost({name}) -> ToDevice({name});"
            ),
            false => writeln!(text, "FromDevice({name}, true) -> passed;"),
        };
    }
    text
}
