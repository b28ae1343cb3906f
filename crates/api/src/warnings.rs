//! Warnings: valid configurations that are perhaps not meant.

use crate::decode::nearest;
use crate::documents::Documents;
use crate::ends::{End, ends};

impl Documents {
    /// Sentences about accepted settings that are perhaps not meant: links with one end, each with
    /// the link that may have been misspelt.
    pub fn warnings(&self) -> Vec<String> {
        let ends = ends(self);
        let single = |ends: &Vec<End<'_>>| matches!(ends.as_slice(), [_]);
        let open: Vec<&str> =
            ends.iter().filter(|(_, ends)| single(ends)).map(|(link, _)| *link).collect();
        let mut warnings = Vec::new();
        for (link, ends) in &ends {
            let [end] = ends.as_slice() else { continue };
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
        warnings
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
