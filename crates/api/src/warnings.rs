//! Warnings: valid configurations that may be mistakes.

use crate::decode::nearest;
use crate::documents::Documents;
use crate::ends::{End, ends};
use crate::router::Run;

/// Longest packet that a kernel router sends over a link to another router: with its Ethernet
/// header it fits into one frame of the kernel (`EUROPA_MAX_LIVE_FRAME` in bpf/substrate.h).
const MOST_OF_A_WIRE: u32 = 3408 - 14;

impl Documents {
    /// Sentences about accepted settings that may be mistakes. For example a link with one end,
    /// together with the link whose name may be misspelt.
    pub fn warnings(&self) -> Vec<String> {
        let ends = ends(self);
        let single = |ends: &Vec<End<'_>>| matches!(ends.as_slice(), [_]);
        // The other end of a tunnel is on another machine.
        let elsewhere = |name: &str| {
            self.links.iter().any(|link| &**link.name == name && link.tunnel.is_some())
        };
        let open = ends.iter().filter(|(link, ends)| single(ends) && !elsewhere(link));
        let open: Vec<&str> = open.map(|(link, _)| *link).collect();
        let mut warnings = Vec::new();
        for (link, ends) in &ends {
            let [end] = ends.as_slice() else { continue };
            if !open.contains(link) {
                continue;
            }
            let others = open.iter().copied().filter(|other| other != link);
            let hint = match nearest(link, others) {
                Some(near) => format!("; link {near:?} has one end, too: is it the same?"),
                None => String::new(),
            };
            warnings.push(format!(
                "link {link:?} has one end, interface {:?} of {}: it leads nowhere until another \
                 interface names it{hint}",
                &***end.name, end.owner
            ));
        }
        warnings.extend(self.long_wires());
        warnings
    }

    /// Links over which a kernel router cannot send all packets that their MTU allows.
    fn long_wires(&self) -> impl Iterator<Item = String> {
        let lines = self.hosts.iter().flat_map(|host| &host.interfaces.0);
        let lines: Vec<_> = lines.filter_map(|(_, one)| one.link.as_ref()).collect();
        let kernel = self.routers.iter().filter(|router| router.run == Run::Kernel);
        let all =
            kernel.flat_map(|router| router.interfaces.0.iter().map(move |one| (router, one)));
        all.filter_map(move |(router, (name, interface))| {
            let link = interface.value.link.as_ref()?;
            let mtu = interface.value.mtu.as_ref()?.value;
            let fits = mtu <= MOST_OF_A_WIRE || lines.iter().any(|line| line.value == link.value);
            (!fits).then(|| {
                format!(
                    "interface {:?} of router {}: a kernel router sends packets of up to \
                     {MOST_OF_A_WIRE} bytes over link {:?}, whose MTU is {mtu}: longer ones are dropped",
                    &*name.value,
                    router.full_name(),
                    &***link
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Source, parse};

    fn warnings(text: &str) -> Vec<String> {
        let source = Source { path: "t.yaml".into(), text: text.to_owned() };
        parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false))).warnings()
    }

    #[test]
    fn links_too_long_for_kernel_routers_are_told() {
        let text = |mtu: u32| {
            let of = |name: &str, run: &str, fast_path: &str| {
                format!(
                    "---\nkind: router\nname: {name}\nslice: s\nrun: {run}\n\
                     interfaces: {{e: {{link: l, mtu: {mtu}}}}}\nfast_path: {{{fast_path}}}\n"
                )
            };
            let slice = "kind: slice\nname: s\nprograms: operator\n".to_owned();
            slice + &of("k", "kernel", "xdp: {object: x.o}") + &of("i", "isolated", "builtin: ipv4")
        };
        assert_eq!(warnings(&text(3394)), [""; 0]);
        let wanted = "interface \"e\" of router s/k: a kernel router sends packets of up to 3394 bytes \
                      over link \"l\", whose MTU is 9000: longer ones are dropped";
        assert_eq!(warnings(&text(9000)), [wanted]);
    }

    #[test]
    fn links_with_one_end_are_told() {
        let router = |name: &str, link: &str| {
            format!(
                "---\nkind: router\nname: {name}\nslice: s\ninterfaces: {{e: {{link: {link}}}}}\n\
                 fast_path: {{builtin: ipv4}}\n"
            )
        };
        let slice = "kind: slice\nname: s\n";
        let two = slice.to_owned() + &router("a", "core") + &router("b", "core");
        assert_eq!(warnings(&two), [""; 0]);
        let one = slice.to_owned() + &router("a", "core");
        let wanted = "link \"core\" has one end, interface \"e\" of router s/a: it leads nowhere \
                      until another interface names it";
        assert_eq!(warnings(&one), [wanted]);
        let host = "---\nkind: host\nname: h\ninterfaces: {eth0: {link: far}}\n";
        let misspelt = slice.to_owned() + &router("a", "core") + &router("b", "croe") + host;
        let found = warnings(&misspelt);
        assert_eq!(found.len(), 3, "{found:?}");
        for (warning, wanted) in found.iter().zip([
            "names it; link \"croe\" has one end, too: is it the same?",
            "names it; link \"core\" has one end, too: is it the same?",
            "interface \"eth0\" of host h: it leads nowhere until another interface names it",
        ]) {
            assert!(warning.ends_with(wanted), "{warning}");
        }
    }
}
