//! Queueing disciplines of `tc`: whether a device has another one than the kernel's default.

use std::collections::HashMap;

use europa_port::netlink::{attribute, number, text};

const TCA_KIND: u16 = 1;
/// The kernel's qdisc for devices without a queue.
const USUAL: &str = "noqueue";

/// The disciplines of all devices: device and handle, and the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Qdiscs {
    kinds: HashMap<(u32, u32), String>,
}

impl Qdiscs {
    /// Takes in a message.
    pub(crate) fn hear(&mut self, message: &[u8], is_gone: bool) {
        let (Some(device), Some(handle)) = (number(message, 4), number(message, 8)) else { return };
        if is_gone {
            self.kinds.remove(&(device, handle));
        } else if let Some(kind) = attribute(message, 20, TCA_KIND) {
            self.kinds.insert((device, handle), text(kind));
        }
    }

    /// A device was removed, with its disciplines.
    pub(crate) fn forget(&mut self, device: u32) {
        self.kinds.retain(|(of, _), _| *of != device);
    }

    fn of(&self, device: u32) -> impl Iterator<Item = &str> {
        let all = self.kinds.iter().filter(move |((of, _), _)| *of == device);
        all.map(|(_, kind)| kind.as_str())
    }

    /// Whether a classifier or program handles the packets that a device receives.
    pub(crate) fn has_ingress(&self, device: u32) -> bool {
        self.of(device).any(|kind| matches!(kind, "ingress" | "clsact"))
    }

    /// Whether a qdisc or program handles the packets that a device sends.
    pub(crate) fn has_egress(&self, device: u32) -> bool {
        self.of(device).any(|kind| !matches!(kind, "ingress" | USUAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(device: u32, handle: u32, kind: &str) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        for number in [device, handle, 0, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend((kind.len() as u16 + 5).to_ne_bytes());
        bytes.extend(TCA_KIND.to_ne_bytes());
        bytes.extend(kind.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn directions() {
        for (kind, ingress, egress) in [
            ("noqueue", false, false),
            ("tbf", false, true),
            ("htb", false, true),
            ("ingress", true, false),
            ("clsact", true, true),
        ] {
            let mut qdiscs = Qdiscs::default();
            qdiscs.hear(&message(7, 0x8001_0000, kind), false);
            assert_eq!((qdiscs.has_ingress(7), qdiscs.has_egress(7)), (ingress, egress), "{kind}");
            assert!(!qdiscs.has_ingress(8) && !qdiscs.has_egress(8), "{kind}");
            qdiscs.hear(&message(7, 0x8001_0000, kind), true);
            assert_eq!(qdiscs, Qdiscs::default());
        }
    }
}
