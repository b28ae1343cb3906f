//! Packet pools, made ahead of need: each map entered into a table waits for RCU, 8 ms.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use europa_control::Stop;
use europa_pool::Geometry;
use europa_sandbox::only_when_idle;
use europa_substrate::{Error, PoolHandle, PoolMemory, Substrate};

use crate::beside::not_yet;
use crate::context::Context;
use crate::control::Control;
use crate::switch::Switch;
use crate::{Doing, NodeError};

/// Most pools that are made at once.
const MOST: usize = 128;
/// Bytes of spare pools of one geometry, if they are not too many.
const SPARE_BYTES: u64 = 8 << 20;
const SPARE: u64 = 8;
/// Until spare pools are tried again that could not be made.
const PAUSE: Duration = Duration::from_secs(10);

/// Pools that no router has.
///
/// A thread that runs only on an idle core makes spare ones: the kernel clears 16 MiB for each, and a
/// router that waited for its core meanwhile would lose packets.
pub(crate) struct Pools {
    /// Those made ahead of need: a restarted router has one at once.
    stock: Vec<PoolHandle>,
    /// Unused ones that the switch had not forgotten when it ended.
    orphans: Vec<PoolHandle>,
    /// To the thread.
    orders: Sender<(Geometry, usize)>,
    /// The thread has not answered yet.
    asked: bool,
    /// When it could not, the last time.
    refused: Option<Instant>,
    /// Pools that a step waits for are being made by another thread.
    needed: bool,
    /// Why those could not be made.
    failed: Option<Error>,
}

impl Pools {
    /// Starts the thread.
    pub(crate) fn start(control: Control) -> Result<Self, NodeError> {
        let (orders, heard) = channel::<(Geometry, usize)>();
        let work = move || {
            if let Err(error) = only_when_idle() {
                tracing::warn!("making spare pools: {error}");
            }
            for (geometry, count) in heard {
                let made = (0..count).map(|_| PoolMemory::new(geometry)).collect();
                control.tell(move |node| {
                    let in_use = node.routers.iter().any(|one| one.plan.geometry == geometry);
                    node.pools.have_spare(node.kernel.substrate(), in_use, made);
                });
            }
        };
        let thread = std::thread::Builder::new().name("spares".into());
        thread.spawn(work).doing("starting a thread for spare pools")?;
        Ok(Self {
            stock: Vec::new(),
            orphans: Vec::new(),
            orders,
            asked: false,
            refused: None,
            needed: false,
            failed: None,
        })
    }

    /// A pool of this geometry, made at once if there is none to spare: see [`Self::stock_up`].
    pub(crate) fn take(
        &mut self,
        substrate: &Substrate,
        geometry: Geometry,
    ) -> Result<PoolHandle, NodeError> {
        match self.stock.iter().position(|pool| pool.layout.geometry == geometry) {
            Some(place) => Ok(self.stock.swap_remove(place)),
            None => Ok(substrate.create_pool(geometry)?),
        }
    }

    /// Frees a pool. A pool that an ended switch had not forgotten is in its lists: it keeps its
    /// number until the next switch has emptied them.
    pub(crate) fn free(
        &mut self,
        substrate: &Substrate,
        pool: PoolHandle,
        forgotten: bool,
    ) -> Result<(), NodeError> {
        if !forgotten {
            self.orphans.push(pool);
            return Ok(());
        }
        substrate.retire_pool(&pool)?;
        substrate.delete_pool(pool)?;
        Ok(())
    }

    /// Frees pools that a newly started switch does not know, except those in its lists.
    pub(crate) fn free_orphans(&mut self, substrate: &Substrate, switch: &mut Switch) {
        for pool in std::mem::take(&mut self.orphans) {
            let forgotten = switch.forget_pool(pool.id);
            if let Err(error) = self.free(substrate, pool, forgotten) {
                tracing::error!("{error}");
            }
        }
    }

    /// Has a pool of a geometry be there. If there is none to spare, a thread makes one, and those
    /// that `ahead` later steps are going to want: the kernel clears their memory.
    pub(crate) fn stock_up(
        &mut self,
        context: &Context,
        geometry: Geometry,
        ahead: usize,
    ) -> Result<(), Stop> {
        if self.stock.iter().any(|pool| pool.layout.geometry == geometry) {
            return Ok(());
        }
        if let Some(error) = self.failed.take() {
            return Err(NodeError::from(error).into());
        }
        if self.needed {
            return Err(not_yet());
        }
        let count = 1 + ahead.min(MOST - 1);
        let work = move || (0..count).map(|_| PoolMemory::new(geometry)).collect();
        context.beside("pools", work, |node, made: Result<Vec<PoolMemory>, Error>| {
            let substrate = node.kernel.substrate();
            node.pools.have_needed(substrate, made);
            let (routers, mut around) = node.with_routers();
            routers.go_on_with_pools(&mut around);
        })?;
        self.needed = true;
        Err(not_yet())
    }

    /// Pools that a step waits for have been made, or not.
    fn have_needed(&mut self, substrate: Option<&Substrate>, made: Result<Vec<PoolMemory>, Error>) {
        self.needed = false;
        let Some(substrate) = substrate else { return };
        match made.and_then(|memory| substrate.enter_pools(memory)) {
            Ok(mut pools) => self.stock.append(&mut pools),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Has some spare pools made for each of the geometries in use. Costs little if they are there.
    pub(crate) fn refill(&mut self, in_use: impl Iterator<Item = Geometry>) {
        if self.asked || self.refused.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        let there = || self.stock.iter().map(|pool| pool.layout.geometry);
        if let Some((geometry, count)) = wanting(there, in_use) {
            self.asked = self.orders.send((geometry, count)).is_ok();
        }
    }

    /// Spare pools have been made, or not. `in_use`: there are routers with such pools.
    fn have_spare(
        &mut self,
        substrate: Option<&Substrate>,
        in_use: bool,
        made: Result<Vec<PoolMemory>, Error>,
    ) {
        self.asked = false;
        let Some(substrate) = substrate.filter(|_| in_use) else { return };
        match made.and_then(|memory| substrate.enter_pools(memory)) {
            Ok(mut pools) => self.stock.append(&mut pools),
            Err(error) => {
                tracing::warn!("no spare pool: {error}");
                self.refused = Some(Instant::now());
            }
        }
    }

    /// Frees the spare pools of a geometry that no router has any more.
    pub(crate) fn drop_spare(
        &mut self,
        substrate: &Substrate,
        geometry: Geometry,
    ) -> Result<(), NodeError> {
        for pool in self.stock.extract_if(.., |pool| pool.layout.geometry == geometry) {
            substrate.retire_pool(&pool)?;
            substrate.delete_pool(pool)?;
        }
        Ok(())
    }

    /// Lets all go: the tables go with the node.
    pub(crate) fn clear(&mut self) {
        self.stock.clear();
        self.orphans.clear();
    }
}

/// The wanted number of spare pools of a geometry.
fn wanted(geometry: Geometry) -> usize {
    let bytes = u64::from(geometry.slots) * u64::from(geometry.slot_bytes);
    (SPARE_BYTES / bytes.max(1)).clamp(1, SPARE) as usize
}

/// The first geometry in use that has too few spare pools, and how many are missing.
fn wanting<There: Iterator<Item = Geometry>>(
    there: impl Fn() -> There,
    mut in_use: impl Iterator<Item = Geometry>,
) -> Option<(Geometry, usize)> {
    in_use.find_map(|geometry| {
        let count = there().filter(|other| *other == geometry).count();
        let wanted = wanted(geometry);
        (count * 2 <= wanted).then_some((geometry, wanted - count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { slots: 256, slot_bytes: 2048, interfaces: 2 };
    const MIDDLE: Geometry = Geometry { slots: 1024, slot_bytes: 2048, interfaces: 2 };
    const LARGE: Geometry = Geometry { slots: 8192, slot_bytes: 4096, interfaces: 2 };

    #[test]
    fn small_pools_are_kept_in_number_and_large_ones_alone() {
        assert_eq!([SMALL, MIDDLE, LARGE].map(wanted), [8, 4, 1]);
        let nothing = Geometry { slots: 0, slot_bytes: 0, interfaces: 0 };
        assert_eq!(wanted(nothing), 8);
    }

    #[test]
    fn pools_are_made_again_when_half_of_them_are_gone() {
        let of = |all: &[Geometry], in_use: &[Geometry]| {
            wanting(|| all.iter().copied(), in_use.iter().copied())
        };
        assert_eq!(of(&[], &[]), None);
        assert_eq!(of(&[], &[LARGE]), Some((LARGE, 1)));
        assert_eq!(of(&[LARGE], &[LARGE]), None);
        assert_eq!(of(&[MIDDLE; 3], &[MIDDLE]), None);
        assert_eq!(of(&[MIDDLE; 2], &[MIDDLE]), Some((MIDDLE, 2)));
        // Pools of another geometry are of no use.
        assert_eq!(of(&[SMALL, LARGE], &[LARGE, MIDDLE]), Some((MIDDLE, 4)));
        let others = Geometry { interfaces: 3, ..LARGE };
        assert_eq!(of(&[LARGE], &[others]), Some((others, 1)));
    }
}
