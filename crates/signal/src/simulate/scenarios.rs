//! Histories with a single fault.

use std::time::Duration;

use super::network::{Network, SECOND};
use super::plan::{Mode, Plan};
use super::topology::router;
use crate::id::LspKey;
use crate::input::{Input, Tunnel};
use crate::wire::{
    ExplicitHop, ExplicitRoute, LabelRequest, Sender, Session, SessionAttribute, TokenBucket, Tspec,
};

/// A ring of routers in which nothing is lost.
fn quiet(mode: Mode, nodes: usize) -> Network {
    let mut plan = Plan::new(0, nodes, 0, Duration::ZERO);
    plan.mode = mode;
    let mut network = Network::new(plan);
    network.calm();
    network.run_until(SECOND);
    network
}

fn tunnel(head: usize, through: &[usize], tail: usize, lsp: u16, rate: f32) -> Tunnel {
    let session = Session::new(router(tail), 1, router(head));
    let bucket = TokenBucket {
        rate: rate.into(),
        depth: 3000.0.into(),
        peak: f32::INFINITY.into(),
        smallest: 64,
        largest: 1400,
    };
    let hops = through.iter().map(|node| ExplicitHop::strict(router(*node))).collect();
    let flags = SessionAttribute::LABELS | SessionAttribute::SHARED_EXPLICIT;
    Tunnel {
        lsp: LspKey { session, sender: Sender { address: router(head), lsp } },
        tspec: Tspec(bucket),
        attribute: SessionAttribute { affinity: None, setup: 4, hold: 4, flags, name: Vec::new() },
        route: ExplicitRoute(hops),
        is_recorded: true,
        protocol: LabelRequest::IPV4,
    }
}

fn pass(network: &mut Network, seconds: u64) {
    network.run_until(network.now_ns + seconds * SECOND);
    assert_eq!(network.violation, None);
}

#[test]
fn an_lsp_comes_up_along_its_explicit_route() {
    for mode in [Mode::Soft, Mode::Hello, Mode::Independent, Mode::Graceful] {
        let mut network = quiet(mode, 6);
        let wanted = tunnel(0, &[1, 2, 3], 3, 1, 500.0);
        let lsp = wanted.lsp;
        network.want(0, wanted);
        // Three hops of at most 6 ms in each direction, and three changes of a data plane of at
        // most 21 ms.
        network.run_until(network.now_ns + 130_000_000);
        assert!(network.nodes[0].wanted[&lsp].is_up, "{mode:?}");
        network.check().unwrap();
        let holders = (0..6).filter(|node| network.nodes[*node].table.contains_key(&lsp));
        // The tail has no entry that pops: its label is implicit null.
        assert_eq!(holders.collect::<Vec<_>>(), [0, 1, 2]);
    }
}

#[test]
fn make_before_break_shares_and_never_lacks_an_entry() {
    let mut network = quiet(Mode::Hello, 6);
    let first = tunnel(0, &[1, 2, 3], 3, 1, 600.0);
    let second = tunnel(0, &[1, 2, 3], 3, 2, 700.0);
    let (old, new) = (first.lsp, second.lsp);
    network.want(0, first);
    pass(&mut network, 1);
    network.want(0, second);
    pass(&mut network, 1);
    // Both LSPs fit into 1,000 because they share.
    assert!(network.nodes[0].wanted[&old].is_up && network.nodes[0].wanted[&new].is_up);
    network.check().unwrap();
    network.nodes[0].wanted.remove(&old);
    network.hand(0, Input::Delete(old));
    pass(&mut network, 1);
    network.check().unwrap();
    assert!(network.nodes[0].wanted[&new].is_up);
}

#[test]
fn what_a_dead_head_wanted_times_out_everywhere() {
    for mode in [Mode::Soft, Mode::Hello, Mode::Independent] {
        let mut network = quiet(mode, 6);
        network.want(0, tunnel(0, &[1, 2, 3], 3, 1, 500.0));
        pass(&mut network, 30);
        network.nodes[0].signaller = None;
        network.nodes[0].wanted.clear();
        // With soft state, a lifetime of 52.5 s by clocks that may be slow; with Hellos, 10.5 s.
        pass(&mut network, if mode == Mode::Soft { 70 } else { 15 });
        for (number, node) in network.nodes.iter().enumerate().skip(1) {
            let signaller = node.signaller.as_ref().unwrap();
            assert_eq!(signaller.lsps().count(), 0, "{mode:?}, node {number}");
            assert!(node.table.is_empty(), "{mode:?}, node {number}");
            assert!(node.surroundings.held.values().all(|held| held.abs() < 1e-6));
        }
    }
}

#[test]
fn a_restart_leaves_the_data_plane_as_it_is() {
    for restarting in 0..4 {
        let mut network = quiet(Mode::Graceful, 6);
        let wanted = tunnel(0, &[1, 2, 3], 3, 1, 500.0);
        let lsp = wanted.lsp;
        network.want(0, wanted);
        pass(&mut network, 30);
        let before: Vec<_> =
            network.nodes.iter().map(|node| node.table.get(&lsp).cloned()).collect();
        network.nodes[restarting].signaller = None;
        pass(&mut network, 15);
        network.start(restarting);
        for step in 0..90 {
            pass(&mut network, 1);
            let now: Vec<_> =
                network.nodes.iter().map(|node| node.table.get(&lsp).cloned()).collect();
            assert_eq!(now, before, "node {restarting}, {step} s after its restart");
        }
        assert!(network.nodes[0].wanted[&lsp].is_up, "node {restarting}");
        network.check().unwrap();
    }
}
