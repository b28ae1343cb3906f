//! Label switching in `builtin: ipv4`: the additional elements of interfaces with signalling.

use super::ipv4::{Router, error4, words};
use super::routes::{ipv4, own6};
use super::{LABELS, Labels};

/// The bytes of a label.
const LABEL_BYTES: u32 = 4;

impl Router<'_> {
    fn switch(&self) -> Option<&Labels> {
        self.description.labels.as_ref().filter(|labels| !labels.interfaces.is_empty())
    }

    /// The position of an interface among those with signalling, and their number.
    fn place(&self, interface: usize) -> Option<(usize, usize)> {
        let all = &self.switch()?.interfaces;
        Some((all.iter().position(|other| *other == interface)?, all.len()))
    }

    /// Patterns of frames for the switch and its signaller, and their destinations.
    pub(super) fn labelled_ways(
        &self,
        interface: usize,
        has_v4: bool,
        has_v6: bool,
    ) -> Vec<(&'static str, String)> {
        let Some((place, count)) = self.place(interface) else { return Vec::new() };
        let message = format!("[{}]labels", count + place);
        let mut ways = vec![("12/8847", format!("[{place}]labels"))];
        if has_v4 {
            ways.push(("12/0800 23/2e", message.clone()));
        }
        if has_v6 {
            ways.push(("12/86dd 20/2e", message.clone()));
            ways.push(("12/86dd 20/00 54/2e", message));
        }
        ways
    }

    /// The destination of packets that may belong to a flow.
    pub(super) fn flows(&self, is_v4: bool) -> String {
        match (self.switch(), is_v4) {
            (None, true) => "route".to_owned(),
            (None, false) => "route6".to_owned(),
            (Some(labels), _) => {
                format!("[{}]labels", labels.interfaces.len() * 2 + usize::from(!is_v4))
            }
        }
    }

    /// The destinations of frames from an interface to its neighbours, and of packets for no
    /// neighbour.
    pub(super) fn behind_neighbours(&self, interface: usize, dead: &str) -> (String, String) {
        match self.place(interface) {
            None => (format!("out{interface}"), dead.to_owned()),
            // The error would quote the packet with labels that its sender has not sent.
            Some(_) => {
                let known = format!("{dead}_by{interface}");
                let dead = format!("{known} :: CheckPaint(255) -> Discard; {known}[1] -> {dead}");
                (format!("mpls{interface}"), dead)
            }
        }
    }

    /// The switch, once.
    pub(super) fn labels(&mut self) {
        let Some(labels) = self.switch().cloned() else { return };
        let (count, description) = (labels.interfaces.len(), self.description);
        let interfaces = labels.interfaces.iter();
        let interfaces: Vec<_> = interfaces
            .filter_map(|number| Some((*number, description.interfaces.get(*number)?)))
            .collect();
        let names = words(interfaces.iter().map(|(_, interface)| &interface.name));
        let model = if labels.is_pipe { "pipe" } else { "uniform" };
        let all = description.interfaces.iter().flat_map(|interface| &interface.addresses);
        let own = words(all.flat_map(|net| [net.trunc(), net.addr().into()]));
        self.declare("// Labels, as a signaller says.");
        self.declare(format_args!("{LABELS} :: LabelSwitch({names}, MODEL {model}, OWN {own});"));
        self.line("// Labels: to neighbours, to no LSP, too long, and the end of an LSP.");
        for (place, (number, interface)) in interfaces.iter().enumerate() {
            self.declare(format_args!("mpls{number} :: LabelEther;"));
            self.line(format_args!("mpls{number} -> out{number};"));
            let has_v4 = ipv4(&interface.addresses).next().is_some();
            let has_v6 = !own6(&interface.addresses, interface.mac.0).is_empty();
            let to = |has: bool, name: &str| match has {
                true => format!("{name}{number}"),
                false => "Discard".to_owned(),
            };
            self.line(format_args!("labels[{place}] -> {};", to(has_v4, "arp")));
            self.line(format_args!("labels[{}] -> {};", count + place, to(has_v6, "nd")));
        }
        let mtu = interfaces.iter().map(|(_, interface)| interface.mtu).min().unwrap_or(0);
        let mtu = mtu.saturating_sub(LABEL_BYTES);
        let [v4, v6] = [count * 2, count * 2 + 1];
        match self.source {
            Some(own) => {
                let broadcasts = self.broadcasts.clone();
                let error = format!("unreachable, needfrag, {broadcasts}, PMTU {mtu}");
                self.line(format_args!("labels[{v4}] -> route;"));
                self.line(format_args!(
                    "labels[{}] -> longer :: IPFragmenter({mtu}) -> [{v4}]labels;",
                    v4 + 2
                ));
                self.line(format_args!("longer[1] -> {} -> route;", error4(own, error)));
                self.line(format_args!("labels[{}] -> CheckIPHeader -> [{v4}]labels;", v4 + 4));
            }
            None => self.unused_labels(v4),
        }
        match self.source6 {
            Some(own) => {
                let sources = self.sources6();
                self.line(format_args!("labels[{v6}] -> route6;"));
                self.line(format_args!(
                    "labels[{}] -> ICMP6Error({own}, packettoobig, 0, PMTU {mtu}, SOURCES {sources}) \
                     -> reply6;",
                    v6 + 2
                ));
                self.line(format_args!(
                    "labels[{}] -> CheckIP6Header(::) -> [{v6}]labels;",
                    v6 + 4
                ));
            }
            None => self.unused_labels(v6),
        }
    }

    /// Outputs for an address family that the router does not have.
    fn unused_labels(&mut self, first: usize) {
        self.line(format_args!("Idle -> [{first}]labels;"));
        for output in [first, first + 2, first + 4] {
            self.line(format_args!("labels[{output}] -> Discard;"));
        }
    }
}
