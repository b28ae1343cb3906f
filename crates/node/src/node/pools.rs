//! Packet pools, made ahead of need: each map entered into a table waits for RCU, 8 ms.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use europa_control::Stop;
use europa_plan::Step;
use europa_pool::Geometry;
use europa_sandbox::only_when_idle;
use europa_substrate::{Error, PoolHandle, PoolMemory};

use super::Node;
use super::beside::not_yet;
use crate::control::Control;
use crate::{Doing, NodeError};

/// Most pools that are made at once.
const MOST: usize = 128;
/// Bytes of spare pools of one geometry, if they are not too many.
const SPARE_BYTES: u64 = 8 << 20;
const SPARE: u64 = 8;
/// Until spare pools are tried again that could not be made.
const PAUSE: Duration = Duration::from_secs(10);

impl Node {
    pub(super) fn take_pool(&mut self, geometry: Geometry) -> Result<PoolHandle, NodeError> {
        match self.stock.iter().position(|pool| pool.layout.geometry == geometry) {
            Some(place) => Ok(self.stock.swap_remove(place)),
            None => Ok(self.substrate()?.create_pool(geometry)?),
        }
    }

    /// Frees a pool. A pool that an ended switch still had is in its lists: it keeps its number
    /// until the next switch has emptied them.
    pub(super) fn free_pool(&mut self, pool: PoolHandle, forgotten: bool) -> Result<(), NodeError> {
        if !forgotten {
            self.orphans.push(pool);
            return Ok(());
        }
        let substrate = self.substrate()?;
        substrate.retire_pool(&pool)?;
        substrate.delete_pool(pool)?;
        Ok(())
    }

    /// Frees pools that a new switch does not have, except those in its lists.
    pub(super) fn free_orphans(&mut self) {
        for pool in std::mem::take(&mut self.orphans) {
            let forgotten = self.switch.as_mut().is_some_and(|s| s.forget_pool(pool.id));
            if let Err(error) = self.free_pool(pool, forgotten) {
                tracing::error!("{error}");
            }
        }
    }

    /// Makes all pools of a geometry that the steps `ahead` need, and one more, if there is no
    /// spare one: the kernel clears their memory.
    pub(super) fn stock_up(
        &mut self,
        geometry: Geometry,
        ahead: &VecDeque<Step>,
    ) -> Result<(), Stop> {
        if self.stock.iter().any(|pool| pool.layout.geometry == geometry) {
            return Ok(());
        }
        if let Some(error) = self.spares.failed.take() {
            return Err(NodeError::from(error).into());
        }
        if self.spares.needed {
            return Err(not_yet());
        }
        let alike = ahead
            .iter()
            .filter(|step| matches!(step, Step::AddRouter(plan) if plan.geometry == geometry));
        let count = 1 + alike.take(MOST - 1).count();
        self.substrate_opened()?;
        let work = move || (0..count).map(|_| PoolMemory::new(geometry)).collect();
        self.beside("pools", work, |node, made: Result<Vec<PoolMemory>, Error>| {
            node.spares.needed = false;
            let Some(substrate) = &node.substrate else { return };
            match made.and_then(|memory| substrate.enter_pools(memory)) {
                Ok(mut pools) => node.stock.append(&mut pools),
                Err(error) => node.spares.failed = Some(error),
            }
        })?;
        self.spares.needed = true;
        Err(not_yet())
    }

    /// Makes spare pools for each geometry in use, when there is no other work.
    pub(super) fn refill_stock(&mut self) {
        let busy = !self.engine.is_settled() || self.starting() > 0;
        if busy || self.spares.asked || self.substrate.is_none() || self.spares.pauses() {
            return;
        }
        let wanting = self.routers.iter().map(|router| router.plan.geometry).find_map(|geometry| {
            let there = self.stock.iter().filter(|pool| pool.layout.geometry == geometry).count();
            let bytes = u64::from(geometry.slots) * u64::from(geometry.slot_bytes);
            let wanted = (SPARE_BYTES / bytes.max(1)).clamp(1, SPARE) as usize;
            (there * 2 <= wanted).then_some((geometry, wanted - there))
        });
        if let Some((geometry, count)) = wanting {
            self.spares.ask(geometry, count);
        }
    }

    /// Spare pools have been made, or not.
    fn store(&mut self, geometry: Geometry, made: Result<Vec<PoolMemory>, Error>) {
        self.spares.asked = false;
        let Some(substrate) = &self.substrate else { return };
        if !self.routers.iter().any(|router| router.plan.geometry == geometry) {
            return;
        }
        match made.and_then(|memory| substrate.enter_pools(memory)) {
            Ok(mut pools) => self.stock.append(&mut pools),
            Err(error) => {
                tracing::warn!("no spare pool: {error}");
                self.spares.refused = Some(Instant::now());
            }
        }
    }
}

/// Makes spare pools in a thread that runs only on an idle core: the kernel clears 16 MiB for each,
/// and a router that waited for its core meanwhile would lose packets.
pub(super) struct Spares {
    orders: Sender<(Geometry, usize)>,
    /// The thread has not answered yet.
    asked: bool,
    /// When it could not, the last time.
    refused: Option<Instant>,
    /// Pools that a step waits for are being made by another thread.
    needed: bool,
    /// The reason why pools could not be made.
    failed: Option<Error>,
}

impl Spares {
    pub(super) fn start(control: Control) -> Result<Self, NodeError> {
        let (orders, heard) = channel::<(Geometry, usize)>();
        let work = move || {
            if let Err(error) = only_when_idle() {
                tracing::warn!("making spare pools: {error}");
            }
            for (geometry, count) in heard {
                let made = (0..count).map(|_| PoolMemory::new(geometry)).collect();
                control.tell(move |node| node.store(geometry, made));
            }
        };
        let thread = std::thread::Builder::new().name("spares".into());
        thread.spawn(work).doing("starting a thread for spare pools")?;
        Ok(Self { orders, asked: false, refused: None, needed: false, failed: None })
    }

    fn pauses(&self) -> bool {
        self.refused.is_some_and(|at| at.elapsed() < PAUSE)
    }

    fn ask(&mut self, geometry: Geometry, count: usize) {
        self.asked = self.orders.send((geometry, count)).is_ok();
    }
}
