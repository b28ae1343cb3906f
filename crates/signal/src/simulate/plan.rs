//! The decisions of a seed.

use std::time::Duration;

use crate::auth::{Algorithm, Key};
use crate::config::{Config, EgressLabel, HelloSettings, Interface, Restart};
use crate::rule::Rule;
use europa_impair::Random;

use super::topology::{Topology, router};

/// Which parts of the protocol a seed uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Soft state and refresh reduction alone.
    Soft,
    /// Hellos by interface.
    Hello,
    /// Refresh-interval independence, Hellos by node.
    Independent,
    /// Restarts keep the data plane.
    Graceful,
}

/// All that is drawn once.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    pub(crate) nodes: usize,
    pub(crate) lsps_per_head: usize,
    pub(crate) faults_for: Duration,
    pub(crate) has_keys: bool,
    pub(crate) egress: EgressLabel,
    pub(crate) refresh: Duration,
    pub(crate) broken: Option<Rule>,
}

impl Plan {
    pub(crate) fn new(seed: u64, nodes: usize, lsps_per_head: usize, faults_for: Duration) -> Self {
        let mode = match seed % 4 {
            0 => Mode::Soft,
            1 => Mode::Hello,
            2 => Mode::Independent,
            _ => Mode::Graceful,
        };
        let egress = match seed / 4 % 3 {
            0 => EgressLabel::ImplicitNull,
            1 => EgressLabel::Allocated,
            _ => EgressLabel::ExplicitNull,
        };
        let refresh = Duration::from_secs(10);
        let has_keys = seed % 5 == 3;
        Self {
            seed,
            mode,
            nodes,
            lsps_per_head,
            faults_for,
            has_keys,
            egress,
            refresh,
            broken: None,
        }
    }

    /// Time until all state has settled, by a node's own clock.
    pub(crate) fn settles_within(&self) -> Duration {
        // Lifetimes add up along a path only if teardowns are lost; clocks differ by half.
        self.refresh * 40
    }

    /// A node's settings at its `incarnation`-th start.
    pub(crate) fn config(
        &self,
        topology: &Topology,
        node: usize,
        incarnation: u64,
        random: &mut Random,
    ) -> Config {
        let mut config = Config::new(router(node), random.bits());
        let key = self.has_keys.then(|| Key {
            id: 42,
            algorithm: Algorithm::Sha256,
            secret: b"of the whole network".to_vec(),
            has_handshake: self.seed.is_multiple_of(2),
        });
        let interfaces = topology.ends[node].iter().enumerate().map(|(index, end)| Interface {
            id: crate::InterfaceId(index as u32 + 1),
            addresses: vec![end.own],
            mtu: 1500,
            colours: 0,
            key: key.clone(),
        });
        config.interfaces = interfaces.collect();
        config.refresh = self.refresh;
        config.egress = self.egress;
        config.retransmit.slow = Duration::from_secs(5);
        config.soft_preemption = Duration::from_secs(8);
        config.epoch = 1 + incarnation as u32;
        config.instance = 1000 * (1 + incarnation as u32);
        let interval = Duration::from_secs(3);
        config.hello = match self.mode {
            Mode::Soft => None,
            Mode::Hello | Mode::Graceful => Some(HelloSettings { interval, by_node: false }),
            Mode::Independent => Some(HelloSettings { interval, by_node: true }),
        };
        if self.mode == Mode::Independent {
            config.independent_refresh = Some(Duration::from_secs(1200));
        }
        if self.mode == Mode::Graceful {
            let (restart, recovery) = (Duration::from_secs(20), Duration::from_secs(30));
            let resumes = incarnation > 1;
            config.restart = Restart { restart, recovery, resumes, kept: Vec::new() };
        }
        config
    }
}
