//! # PortInfo
//!
//! ## Synopsis
//! `PortInfo(NAME PORT[/PROTOCOL] [ALIAS ...], ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Gives names to TCP and UDP ports. Inside a compound element the names are known there and
//! in the compounds inside it.
//!
//! ## Arguments
//! - NAME PORT: the port's number, for one protocol, `tcp` or `udp`, or for both, and further names
//!   of it. Text behind a `#` is a comment.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `AddressInfo`

use europa_engine::{Class, ClassInfo, ConfigError, Element, Phase, arguments};

use crate::control::script::shift_word;

/// Gives names to ports.
#[derive(Default)]
pub(crate) struct PortInfo;

impl Class for PortInfo {
    const INFO: ClassInfo =
        ClassInfo::new("PortInfo", "0/0").phase(Phase::Info).inline().keeps_long();
}

impl Element for PortInfo {
    arguments! { this, given;
        let texts = rest "NAME": "'NAME PORT[/PROTOCOL]'";
        then {
            for (index, argument) in texts {
                let mut rest = argument.split('#').next().unwrap_or_default();
                let name = shift_word(&mut rest);
                if name.is_empty() {
                    continue;
                }
                let word = shift_word(&mut rest);
                let (port, protocol) = word.split_once('/').unwrap_or((word, ""));
                let (tcp, udp) = match protocol.to_ascii_lowercase().as_str() {
                    "" => (true, true),
                    "tcp" => (true, false),
                    "udp" => (false, true),
                    _ => (false, false),
                };
                match given.value::<u16>(name, index, port) {
                    Ok(port) if tcp || udp => {
                        for name in std::iter::once(name).chain(rest.split_whitespace()) {
                            let entry = given.names().entry(name);
                            entry.tcp = tcp.then_some(port).or(entry.tcp);
                            entry.udp = udp.then_some(port).or(entry.udp);
                        }
                    }
                    _ => {
                        let message = "expected 'NAME PORT[/PROTOCOL]', the protocol tcp or udp";
                        given.error(ConfigError::at(index, message));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn mistakes_are_named() {
        for bad in ["a", "a x", "a 1/icmp", "a 70000", "a # 1"] {
            assert_eq!(
                Bench::error("PortInfo", &[bad]),
                "expected 'NAME PORT[/PROTOCOL]', the protocol tcp or udp"
            );
        }
    }
}
