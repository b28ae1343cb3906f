//! Running asynchronous work for callers that wait.

use crate::error::{ClusterError, Result};

/// Waits for `work`.
///
/// # Errors
/// Its error, or a lack of resources.
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ClusterError::Refused(error.to_string()))?;
    let done = runtime.block_on(work);
    // A request to a node that does not answer is not waited for.
    runtime.shutdown_background();
    done
}
