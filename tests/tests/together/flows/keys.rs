//! Authenticated messages (RFC 2747).

use std::time::Duration;

use europa_tests::{skip_without, tshark};

use super::net::{Net, Watch, example};

/// The example with a key on all interfaces that signal.
fn keyed(digest: &str) -> String {
    let key = format!("refresh: 1s, key: {{secret: of the whole lab, digest: {digest}, id: 77}}");
    example().replace("refresh: 1s", &key)
}

#[test]
fn messages_are_authentic_and_a_restart_repeats_no_number() {
    skip_without!("ping", "tshark");
    let net = Net::new(&keyed("sha256"));
    let watch = Watch::begin(&net.node, "lab/north.south");
    assert!(net.ann.ping_exactly("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
    let before = net.node.kill("signaller");
    let is_new = |pid: i32| net.node.processes().iter().all(|one| one.cast_signed() != pid);
    net.wait("the signaller is gone", || is_new(before));
    net.wait("it is up again", || {
        net.node.attempt(&["lsp", "show", "voice"]).status.success()
            && net.is_up("voice")
            && net.hops("voice").len() == 4
    });
    // State that neighbours had refused to refresh would have ended by then.
    std::thread::sleep(Duration::from_secs(8));
    assert!(net.is_up("voice") && net.hops("voice").len() == 4);
    assert!(net.ann.ping_exactly("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
    let fields = [
        "rsvp.msg",
        "ip.src",
        "rsvp.integrity.key_identifier",
        "rsvp.integrity.sequence_number",
        "_ws.malformed",
    ];
    let all = tshark(&watch.end(), "rsvp", &fields).expect("a capture");
    assert!(all.len() > 20, "{} messages", all.len());
    let mut last = std::collections::BTreeMap::new();
    for line in &all {
        assert!(line[4].is_empty(), "{line:?}");
        // A challenge has no digest: its sender does not trust the receiver yet.
        if line[0] == "25" {
            continue;
        }
        assert!(!line[2].is_empty(), "without a key: {line:?}");
        let sequence: u64 = line[3].parse().unwrap_or_else(|_| panic!("a number: {line:?}"));
        // Messages of one interface leave in order, before and after the restart. A message of the
        // head has the head's address.
        let former = last.insert(line[1].clone(), sequence);
        assert!(former.is_none_or(|former| former < sequence), "{former:?} before {line:?}");
    }
    let challenges = all.iter().filter(|line| line[0] == "25").count();
    assert!(challenges > 0, "the new signaller challenges its neighbours");
}

#[test]
fn neighbours_with_different_keys_do_not_talk() {
    skip_without!("ping");
    let text = keyed("md5");
    let net = Net::new(&text);
    let foreign = text.replacen("secret: of the whole lab", "secret: of somebody else", 1);
    // The first interface is head's to the north.
    net.apply(&foreign);
    net.wait("the path ends", || !net.is_up("voice"));
    std::thread::sleep(Duration::from_secs(3));
    assert!(!net.is_up("voice"));
    net.apply(&text);
    net.wait("with the same key it is up", || net.is_up("voice") && net.hops("voice").len() == 4);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}
