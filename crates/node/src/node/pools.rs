//! Packet pools, made ahead of need.

use europa_pool::Geometry;
use europa_substrate::PoolHandle;

use super::Node;
use crate::NodeError;

impl Node {
    pub(super) fn take_pool(&mut self, geometry: Geometry) -> Result<PoolHandle, NodeError> {
        match self.stock.iter().position(|pool| pool.layout.geometry == geometry) {
            Some(place) => Ok(self.stock.swap_remove(place)),
            None => Ok(self.substrate()?.create_pool(geometry)?),
        }
    }

    /// One spare pool for each geometry in use.
    pub(super) fn refill_stock(&mut self) {
        let Some(substrate) = &self.substrate else { return };
        for router in &self.routers {
            let geometry = router.plan.geometry;
            if self.stock.iter().any(|pool| pool.layout.geometry == geometry) {
                continue;
            }
            match substrate.create_pool(geometry) {
                Ok(pool) => self.stock.push(pool),
                Err(error) => tracing::warn!("no spare pool: {error}"),
            }
        }
    }
}
