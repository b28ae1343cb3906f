//! Refuses documents of a cluster in a node without one.

use europa_api::{Documents, Problem, Problems, Source};
use europa_node::Instance;

/// The names by which documents may name this node: its instance's and its machine's.
pub(crate) fn own_names(instance: &Instance) -> Vec<String> {
    let machine = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    std::iter::once(instance.name().to_owned()).chain(machine).collect()
}

/// The mistakes of new documents that name another node, or describe one. `sources` are the texts
/// of the request: places of stored documents follow them.
pub(crate) fn refused(
    documents: &Documents,
    own: &[String],
    sources: &[Source],
) -> Option<Problems> {
    let is_new = |problem: &Problem| (problem.place.source as usize) < sources.len();
    let elsewhere = documents.pins().filter(|pin| !own.iter().any(|own| **own == *pin.value));
    let elsewhere = elsewhere.map(|pin| {
        let message = format!("this node is {}, not {pin}", own.join(" or "));
        Problem::new(pin.place, message).label("another node").help(
            "leave `node` out, or apply the file to a cluster: `europa cluster apply FILE`, see \
             docs/cluster.md",
        )
    });
    let nodes = documents.nodes.iter().map(|node| {
        Problem::new(node.name.place, "`kind: node` is a document of a cluster")
            .label("this node is in none, or not asked as one")
            .help("`europa cluster apply FILE` applies the file to a cluster, see docs/cluster.md")
    });
    let problems: Vec<Problem> = elsewhere.chain(nodes).filter(is_new).collect();
    (!problems.is_empty()).then(|| Problems::new(problems, sources))
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::parse;

    #[test]
    fn objects_of_other_nodes_are_refused_with_a_remedy() {
        let text = |node: &str| {
            format!(
                "kind: port\nname: p\nnode: {node}\ndevice: eth0\n---\n\
                 kind: host\nname: h\nnode: here\ninterfaces: {{}}\n"
            )
        };
        let report = |text: String| {
            let sources = [Source { path: "t.yaml".into(), text }];
            let documents = parse(&sources).unwrap_or_else(|p| panic!("{}", p.render(false)));
            let refused = refused(&documents, &["here".to_owned()], &sources);
            // Stored ones are not checked.
            assert!(super::refused(&documents, &[], &[]).is_none());
            refused.map(|problems| problems.render(false))
        };
        assert_eq!(report(text("here")), None);
        let there = report(text("there")).expect("another node");
        for part in ["this node is here, not there", "t.yaml:3:7", "europa cluster apply"] {
            assert!(there.contains(part), "{part} is not in\n{there}");
        }
        let node = report("kind: node\nname: a\naddress: 10.0.0.1\n".into()).expect("a node");
        assert!(node.contains("document of a cluster"), "{node}");
    }
}
