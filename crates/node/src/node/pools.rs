//! Packet pools, made ahead of need: each map entered into a table waits for RCU, 8 ms.

use europa_pool::Geometry;
use europa_substrate::PoolHandle;

use super::Node;
use super::apply::Job;
use crate::NodeError;

/// Most pools that are made at once.
const MOST: usize = 128;
/// Bytes of spare pools of one geometry, if they are not too many.
const SPARE_BYTES: u64 = 8 << 20;
const SPARE: u64 = 8;

impl Node {
    pub(super) fn take_pool(&mut self, geometry: Geometry) -> Result<PoolHandle, NodeError> {
        match self.stock.iter().position(|pool| pool.layout.geometry == geometry) {
            Some(place) => Ok(self.stock.swap_remove(place)),
            None => Ok(self.substrate()?.create_pool(geometry)?),
        }
    }

    /// Makes all pools of a geometry that a job is going to want, if there is none to spare.
    pub(super) fn stock_up(&mut self, geometry: Geometry, job: &Job) -> Result<(), NodeError> {
        if self.stock.iter().any(|pool| pool.layout.geometry == geometry) {
            return Ok(());
        }
        let alike = job.additions().filter(|plan| plan.geometry == geometry);
        let count = 1 + alike.take(MOST - 1).count();
        let mut pools = self.substrate_opened()?.create_pools(geometry, count)?;
        self.stock.append(&mut pools);
        Ok(())
    }

    /// Some spare pools for each geometry in use, when there is nothing else to do.
    pub(super) fn refill_stock(&mut self) {
        if self.job.is_some() || !self.waiting.is_empty() || self.starting() > 0 {
            return;
        }
        let Some(substrate) = &self.substrate else { return };
        for router in &self.routers {
            let geometry = router.plan.geometry;
            let there = self.stock.iter().filter(|pool| pool.layout.geometry == geometry).count();
            let bytes = u64::from(geometry.slots) * u64::from(geometry.slot_bytes);
            let wanted = (SPARE_BYTES / bytes.max(1)).clamp(1, SPARE) as usize;
            if there * 2 > wanted {
                continue;
            }
            match substrate.create_pools(geometry, wanted - there) {
                Ok(mut pools) => self.stock.append(&mut pools),
                Err(error) => tracing::warn!("no spare pool: {error}"),
            }
            // Requests come between.
            return;
        }
    }
}
