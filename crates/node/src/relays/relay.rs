//! One relay: its pool, its interfaces, and orders to the switch about it.

use std::os::fd::AsFd;
use std::time::Duration;

use europa_plan::{FarEnd, RelayPlan};
use europa_pool::layout::{LARGE_SLOT_BYTES, SMALL_SLOT_BYTES};
use europa_pool::{Geometry, Layout};
use europa_substrate::{InterfaceSpec, PoolHandle, PortAttachment, Substrate};
use europa_switch::orders::{Order, PoolOf, Target};

use serde::{Deserialize, Serialize};

use crate::NodeError;
use crate::link_tunnels::Ends;
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
    /// The interface for frames from another machine, and its settings.
    back: Option<(u32, InterfaceSpec)>,
}

/// The facts that the next node needs of a relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RelayRecord {
    port: String,
    link: String,
    mtu: u32,
    interface: u32,
    pool: u32,
    slots: u32,
    slot_bytes: u32,
    back: Option<u32>,
}

impl Relay {
    /// The name of its record.
    pub(super) fn record_name(&self) -> String {
        format!("relay-{}", self.interface)
    }

    pub(super) fn record(&self) -> RelayRecord {
        let Geometry { slots, slot_bytes, .. } = self.pool.layout.geometry;
        RelayRecord {
            port: self.plan.port.to_string(),
            link: self.plan.link.to_string(),
            mtu: self.plan.mtu,
            interface: self.interface,
            pool: self.pool.id,
            slots,
            slot_bytes,
            back: self.back(),
        }
    }

    /// Takes over a relay that another node has made, if one of `plans` wants it.
    pub(super) fn adopt(
        record: &RelayRecord,
        plans: &[RelayPlan],
        substrate: &Substrate,
    ) -> Option<Self> {
        let same = |plan: &&RelayPlan| {
            plan.port == record.port
                && plan.link == record.link
                && plan.mtu == record.mtu
                && plan.far.is_some() == record.back.is_some()
        };
        let plan = plans.iter().find(same)?.clone();
        let RelayRecord { slots, slot_bytes, interface, .. } = *record;
        let interfaces = if record.back.is_some() { 2 } else { 1 };
        let geometry = Geometry { slots, slot_bytes, interfaces };
        let pool = substrate.adopt_pool(record.pool, geometry).ok()??;
        let mut all = record.back.iter().chain([&interface]);
        let there = all.all(|id| substrate.has_interface(*id, pool.id));
        let back = record.back.map(|id| (id, plan.back()));
        there.then(|| Self { spec: plan.spec(), plan, interface, pool, back })
    }

    /// Number of its pool.
    pub(crate) fn pool(&self) -> u32 {
        self.pool.id
    }

    /// The number of its interface for frames from another machine.
    pub(crate) fn back(&self) -> Option<u32> {
        self.back.as_ref().map(|(id, _)| *id)
    }

    /// The numbers of its interfaces.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.back().into_iter().chain([self.interface])
    }

    /// Its far end on another machine, and its interfaces.
    pub(crate) fn far(&self) -> Option<(FarEnd, Ends)> {
        let most_frame_bytes = self.plan.max_frame();
        let ends = Ends { from: self.interface, to: self.back()?, most_frame_bytes };
        Some((self.plan.far.clone()?, ends))
    }

    /// Makes a relay's pool, and has everything that comes in by its port go there.
    pub(crate) fn make(
        plan: RelayPlan,
        substrate: &Substrate,
        port: Option<&PortAttachment>,
    ) -> Result<Self, NodeError> {
        let max_frame = plan.max_frame();
        let interfaces = if plan.far.is_some() { 2 } else { 1 };
        let geometry = |slot_bytes| Geometry { slots: SLOTS, slot_bytes, interfaces };
        let small = geometry(SMALL_SLOT_BYTES);
        let fits = Layout::new(small).is_ok_and(|layout| max_frame <= layout.max_frame_bytes());
        let pool = substrate.create_pool(if fits { small } else { geometry(LARGE_SLOT_BYTES) })?;
        let spec = plan.spec();
        let interface = substrate.add_interface(&spec, port, &pool)?;
        let back = match &plan.far {
            Some(_) => {
                let spec = plan.back();
                Some((substrate.add_interface(&spec, port, &pool)?, spec))
            }
            None => None,
        };
        Ok(Self { plan, interface, spec, pool, back })
    }

    /// Packets under way arrive at once, and later ones pass without the line.
    pub(super) fn flush(&self, switch: Option<&mut Switch>) {
        if let Some(switch) = switch {
            let order = Order::Impair { interface: self.interface, impairment: None };
            // One that has just ended never learns of it.
            let _ = switch.order(&order, &[]);
        }
    }

    /// Another pool receives the port's frames now: the relay passes on the rest.
    pub(super) fn lose_port(
        &mut self,
        switch_runs: bool,
        substrate: &Substrate,
        port: &PortAttachment,
    ) -> Result<(), NodeError> {
        substrate.leave(self.interface, &self.spec, port)?;
        self.spec.matches.clear();
        if switch_runs {
            // A program that has read the tables before puts its frame into the pool, and the
            // switch takes it out.
            std::thread::sleep(DRAIN);
        }
        Ok(())
    }

    /// Sends the present effects of the link to a switch.
    pub(super) fn impair(&self, switch: Option<&mut Switch>) {
        let impairment = self.plan.impairment;
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
        self.interfaces().for_each(|id| substrate.halt_interface(id));
        let forgotten = switch.is_some_and(|switch| switch.forget_pool(self.pool.id));
        substrate.remove_interface(self.interface, &self.spec, port)?;
        if let Some((id, spec)) = &self.back {
            substrate.remove_interface(*id, spec, port)?;
        }
        Ok((self.pool, forgotten))
    }

    /// Tells a switch of the pool and of the way to `to`.
    pub(crate) fn tell(&self, switch: &mut Switch, to: Target) -> Result<(), NodeError> {
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
            to,
            bound: Vec::new(),
            impairment: self.plan.impairment,
            filtered_by: None,
        };
        switch.order(&order, &[])?;
        Ok(())
    }

    /// Tells a switch of the way from another machine to the host's port.
    pub(crate) fn tell_back(&self, switch: &mut Switch, port: u32) -> Result<(), NodeError> {
        let Some((interface, spec)) = &self.back else { return Ok(()) };
        let order = Order::AddInterface {
            interface: *interface,
            pool: self.pool.id,
            local: spec.local,
            to: Target::Port(port),
            bound: Vec::new(),
            impairment: None,
            filtered_by: None,
        };
        switch.order(&order, &[]).map(drop)
    }
}
