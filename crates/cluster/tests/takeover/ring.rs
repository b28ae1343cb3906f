//! The documents of the histories.

/// A ring of routers over nodes; one is tied to its node, and one has no takeover.
pub(crate) fn documents(nodes: usize) -> String {
    let mut text = "kind: slice\nname: s\n".to_owned();
    for node in 0..nodes {
        text += &format!("---\nkind: node\nname: n{node}\naddress: 10.0.0.{}\n", node + 1);
    }
    // A router on a LAN that the first two nodes have.
    text += "---\nkind: port\nname: left\nnode: n0\ndevice: p\n---\nkind: port\nname: right\nnode: n1\n\
             device: p\n---\nkind: router\nname: lan\nslice: s\ninterfaces: {a: {port: left, \
             standby: right}}\nfast_path: {click: Idle}\n";
    for router in 0..6 {
        let more = ["node: n0\n", "takeover: false\n"].get(router).copied().unwrap_or_default();
        text += &format!(
            "---\nkind: router\nname: r{router}\nslice: s\n{more}interfaces: \
             {{a: {{link: l{router}}}, b: {{link: l{}}}}}\nfast_path: {{click: Idle}}\n",
            (router + 1) % 6
        );
    }
    text
}
