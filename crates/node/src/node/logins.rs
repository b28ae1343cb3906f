//! Logins by SSH: permitted or not, by names alone.

use std::sync::Arc;

use europa_api::Documents;

use super::Node;
use crate::slow_path::Base;
use crate::ssh::{Target, admit};

/// A login that is permitted.
pub(crate) struct Admitted {
    /// SLICE/ROUTER.
    pub(crate) router: String,
    /// The namespaces and groups of its processes.
    pub(crate) base: Arc<Base>,
    /// The documents that permit it.
    pub(crate) documents: Arc<Documents>,
}

impl Node {
    /// Whether a user with this key may enter a router now.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn admit(&self, user: &str, key: &str, target: &Target) -> Result<Admitted, String> {
        let documents = self.change.accepted().documents.clone();
        let router = admit(&documents, user, key, target)?;
        match self.slow_paths.base(&router) {
            Some(base) => Ok(Admitted { router, base, documents }),
            None => Err(format!("router {router} is not ready yet")),
        }
    }
}
