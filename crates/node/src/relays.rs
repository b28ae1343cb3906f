//! Packets that hosts send over lines with a rate, delay or losses.
//!
//! A router's packets pass the switch, which delays and loses them. A host's packets go straight
//! from its line into the router's pool. Where the link has an effect on them, they go into a pool
//! of the switch's own instead, and from there over the link.

use std::os::fd::AsFd;
use std::time::Duration;

use europa_impair::Settings;
use europa_plan::RelayPlan;
use europa_pool::layout::{LARGE_SLOT_BYTES, SMALL_SLOT_BYTES};
use europa_pool::{Geometry, Layout};
use europa_substrate::{InterfaceSpec, PoolHandle, PortAttachment, Substrate};
use europa_switch::orders::{Order, PoolOf, Target};

use serde::{Deserialize, Serialize};

use crate::NodeError;
use crate::switch::Switch;

/// Packets that are on the way from one host at a time, twice.
const SLOTS: u32 = 4096;
/// How long a switch may take to empty a pool into which nothing comes any more.
const DRAIN: Duration = Duration::from_millis(3);

/// A relay of this node.
pub(crate) struct Relay {
    pub(crate) plan: RelayPlan,
    /// Its number in the substrate.
    pub(crate) interface: u32,
    pub(crate) spec: InterfaceSpec,
    pool: PoolHandle,
}

/// The facts that the next node needs of a relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RelayRecord {
    port: String,
    link: String,
    mtu: u32,
    interface: u32,
    pool: u32,
    slots: u32,
    slot_bytes: u32,
}

impl Relay {
    /// The name of its record.
    pub(crate) fn record_name(&self) -> String {
        format!("relay-{}", self.interface)
    }

    pub(crate) fn record(&self) -> RelayRecord {
        let Geometry { slots, slot_bytes, .. } = self.pool.layout.geometry;
        RelayRecord {
            port: self.plan.port.to_string(),
            link: self.plan.link.to_string(),
            mtu: self.plan.mtu,
            interface: self.interface,
            pool: self.pool.id,
            slots,
            slot_bytes,
        }
    }

    /// Takes over a relay that another node has made, if one of `plans` wants it.
    pub(crate) fn adopt(
        record: &RelayRecord,
        plans: &[RelayPlan],
        substrate: &Substrate,
    ) -> Option<Self> {
        let same = |plan: &&RelayPlan| {
            plan.port == record.port && plan.link == record.link && plan.mtu == record.mtu
        };
        let plan = plans.iter().find(same)?.clone();
        let RelayRecord { slots, slot_bytes, interface, .. } = *record;
        let geometry = Geometry { slots, slot_bytes, interfaces: 1 };
        let pool = substrate.adopt_pool(record.pool, geometry).ok()??;
        let there = substrate.has_interface(interface, pool.id);
        there.then(|| Self { spec: plan.spec(), plan, interface, pool })
    }

    /// Number of its pool.
    pub(crate) fn pool(&self) -> u32 {
        self.pool.id
    }

    /// The effects of its link on packets.
    pub(crate) fn impairment(&self) -> Settings {
        self.plan.impairment
    }

    /// Makes a relay's pool, and has everything that comes in by its port go there.
    pub(crate) fn make(
        plan: RelayPlan,
        substrate: &Substrate,
        port: Option<&PortAttachment>,
    ) -> Result<Self, NodeError> {
        let max_frame = plan.max_frame();
        let geometry = |slot_bytes| Geometry { slots: SLOTS, slot_bytes, interfaces: 1 };
        let small = geometry(SMALL_SLOT_BYTES);
        let fits = Layout::new(small).is_ok_and(|layout| max_frame <= layout.max_frame_bytes());
        let pool = substrate.create_pool(if fits { small } else { geometry(LARGE_SLOT_BYTES) })?;
        let spec = plan.spec();
        let interface = substrate.add_interface(&spec, port, &pool)?;
        Ok(Self { plan, interface, spec, pool })
    }

    /// Packets under way arrive at once, and later ones pass without the line.
    pub(crate) fn flush(&self, switch: Option<&mut Switch>) {
        if let Some(switch) = switch {
            let order = Order::Impair { interface: self.interface, impairment: None };
            // One that has just ended never learns of it.
            let _ = switch.order(&order, &[]);
        }
    }

    /// Another pool receives the port's frames now: the relay passes on the rest.
    pub(crate) fn lose_port(
        &mut self,
        switch: Option<&Switch>,
        substrate: &Substrate,
        port: &PortAttachment,
    ) -> Result<(), NodeError> {
        substrate.leave(self.interface, &self.spec, port)?;
        self.spec.matches.clear();
        if switch.is_some() {
            // A program that has read the tables before puts its frame into the pool, and the
            // switch takes it out.
            std::thread::sleep(DRAIN);
        }
        Ok(())
    }

    /// Sends the present effects of the link to a switch.
    pub(crate) fn impair(&self, switch: Option<&mut Switch>) {
        let impairment = Some(self.plan.impairment);
        if let Some(switch) = switch {
            // One that has just ended learns of it when it starts.
            let _ = switch.order(&Order::Impair { interface: self.interface, impairment }, &[]);
        }
    }

    /// Takes it out of the tables; a switch forgets it first. Its pool is left, and whether the
    /// switch has forgotten it.
    pub(crate) fn end(
        self,
        switch: Option<&mut Switch>,
        substrate: &Substrate,
        port: Option<&PortAttachment>,
    ) -> Result<(PoolHandle, bool), NodeError> {
        substrate.halt_interface(self.interface);
        let forgotten = switch.is_some_and(|switch| switch.forget_pool(self.pool.id));
        substrate.remove_interface(self.interface, &self.spec, port)?;
        Ok((self.pool, forgotten))
    }

    /// Tells a switch of the pool and of the way to interface `to`.
    pub(crate) fn tell(&self, switch: &mut Switch, to: u32) -> Result<(), NodeError> {
        let Geometry { slots, slot_bytes, interfaces } = self.pool.layout.geometry;
        let pool = self.pool.id;
        let (of, worker) = (PoolOf::Relay, switch.worker_of(pool));
        let busy = false;
        let order = Order::AddPool { pool, slots, slot_bytes, interfaces, of, worker, busy };
        let waker = self.pool.waker()?;
        switch.order(&order, &[self.pool.as_fd(), waker.as_fd()])?;
        let order = Order::AddInterface {
            interface: self.interface,
            pool,
            local: self.spec.local,
            to: Target::Link(to),
            bound: Vec::new(),
            impairment: Some(self.plan.impairment),
            filtered_by: None,
        };
        switch.order(&order, &[])?;
        Ok(())
    }
}
