//! Runs asynchronous work for callers that block.

use crate::error::{ClusterError, Result};

/// Waits for `work`.
///
/// # Errors
/// The error of `work`, or a lack of resources.
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ClusterError::Refused(error.to_string()))?;
    let done = runtime.block_on(work);
    // If a node does not answer a request, the process does not wait for it.
    runtime.shutdown_background();
    done
}
