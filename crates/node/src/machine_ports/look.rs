//! The sockets of a namespace, for machines on which no hook notices binds.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use europa_api::PortProtocol;
use europa_port::{Namespace, in_namespace};

/// States of `/proc/net`: TCP_LISTEN, and TCP_CLOSE for a UDP socket that is not connected.
const LISTEN: &str = "0A";
const UNCONNECTED: &str = "07";

/// Ports at which programs of a namespace wait for any address: protocol and number.
///
/// # Errors
/// The namespace cannot be entered.
pub(super) fn waiting(inside: &Namespace) -> io::Result<BTreeSet<(PortProtocol, u16)>> {
    let files = [
        ("tcp", PortProtocol::Tcp, LISTEN),
        ("tcp6", PortProtocol::Tcp, LISTEN),
        ("udp", PortProtocol::Udp, UNCONNECTED),
        ("udp6", PortProtocol::Udp, UNCONNECTED),
    ];
    in_namespace(inside, || {
        let mut all = BTreeSet::new();
        for (file, protocol, state) in files {
            // A machine without IPv6 has no such file.
            let text = fs::read_to_string(format!("/proc/thread-self/net/{file}"));
            all.extend(ports(&text.unwrap_or_default(), state).map(|port| (protocol, port)));
        }
        all
    })
}

/// Ports of the lines in a state that are bound to no address.
fn ports(text: &str, state: &str) -> impl Iterator<Item = u16> {
    let of = move |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, found) = (words.next()?, words.next()?, words.next()?);
        let (address, port) = local.split_once(':')?;
        let whole = address.bytes().all(|digit| digit == b'0');
        (whole && found == state).then(|| u16::from_str_radix(port, 16).ok())?
    };
    text.lines().skip(1).filter_map(of).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 00000000:1F90 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:0277 00000000:0000 0A 00000000:00000000\n   \
            2: 00000000:0016 0A00000A:C350 01 00000000:00000000\n";
        assert_eq!(ports(text, LISTEN).collect::<Vec<_>>(), [8080]);
        let six = "sl\n 0: 00000000000000000000000000000000:0035 \
            00000000000000000000000000000000:0000 07 0:0\n";
        assert_eq!(ports(six, UNCONNECTED).collect::<Vec<_>>(), [53]);
        assert_eq!(ports("", LISTEN).count(), 0);
    }
}
