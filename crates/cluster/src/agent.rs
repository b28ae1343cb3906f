//! The agent of a node: reads changes from etcd, and makes its node run its part of them.
//!
//! A session has one connection and one lease. It ends at the first error, and then the next
//! session begins. The node continues to run its part. If etcd does not answer, the agent removes
//! no objects from its node.

mod deadline;
mod follow;
mod guard;
mod hold;
mod lease;
mod session;

use std::path::PathBuf;
use std::time::Duration;

use europa_client::Client;
use tokio::time::{Instant, sleep};

use self::follow::Follower;
use crate::error::{ClusterError, Result};
use crate::etcd::Access;

/// Time after which the same error is logged again.
const REPEATED: Duration = Duration::from_secs(60);
/// Time between the end of a session and the next.
const AGAIN: Duration = Duration::from_millis(500);

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster's etcd.
    pub access: Access,
    /// The node's name in the cluster.
    pub name: String,
    /// Where the node takes requests.
    pub socket: PathBuf,
    /// The file by which the agent marks the node's documents as the cluster's.
    pub note: PathBuf,
    /// Whether to replace the node's own documents.
    pub replace: bool,
}

/// Runs an agent until it is dropped.
///
/// # Errors
/// Its node has documents of its own, or another node has its name.
pub async fn run(settings: Settings) -> Result<()> {
    let mut follower = Follower::new(&settings);
    follower.join().await?;
    let deadlines = deadline::report(Client::new(&settings.socket));
    let mut told: Option<(String, Instant)> = None;
    loop {
        match session::run(&settings, &mut follower, &deadlines).await {
            Err(error @ ClusterError::Refused(_)) => return Err(error),
            Err(error) => {
                let text = error.to_string();
                let again = |(old, at): &(String, Instant)| *old == text && at.elapsed() < REPEATED;
                if !told.as_ref().is_some_and(again) {
                    tracing::warn!("{text}");
                    told = Some((text, Instant::now()));
                }
            }
            Ok(()) => {}
        }
        sleep(AGAIN).await;
    }
}
