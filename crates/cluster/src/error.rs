//! Errors of a cluster.

/// The reason why a cluster does not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No member of etcd answers.
    #[error(
        "etcd at {at} has not answered within {seconds} s ({what}): routers go on, changes wait. \
         `etcdctl --endpoints={at} endpoint health` says more"
    )]
    Silent {
        /// Its addresses.
        at: String,
        /// The attempted operation.
        what: String,
        /// The deadline.
        seconds: u64,
    },
    /// No member of etcd can be reached.
    #[error("etcd at {at} cannot be reached: {why}: routers go on, changes wait")]
    Unreachable {
        /// Its addresses.
        at: String,
        /// Why not.
        why: String,
    },
    /// etcd refuses.
    #[error("etcd: {what}: {error}")]
    Etcd {
        /// The attempted operation.
        what: String,
        /// Its error.
        error: String,
    },
    /// etcd no longer has this revision: the reader must begin again.
    #[error("etcd has compacted revision {0}")]
    Compacted(i64),
    /// Another change came first.
    #[error("another change took effect meanwhile")]
    Conflict,
    /// A condition of a change no longer holds.
    #[error(
        "nothing was changed: meanwhile the node that was absent has a lease again, or another node leads"
    )]
    Outdated,
    /// The stage of a change has been removed because it had no effect for ten minutes.
    #[error("the stage of this change has been removed: apply it again")]
    Removed,
    /// It is unknown whether a change took effect.
    #[error(
        "etcd has not said whether request {request} took effect: {why}. `europa cluster status` \
         lists the requests that did"
    )]
    Unknown {
        /// The change's request.
        request: String,
        /// The reason of the uncertainty.
        why: String,
    },
    /// A value in etcd that this version cannot read.
    #[error("etcd's key {key} cannot be read: {error}")]
    Damaged {
        /// The key.
        key: String,
        /// The mistake.
        error: String,
    },
    /// Mistakes in documents, drawn.
    #[error("{0}")]
    Mistakes(String),
    /// A request that cannot be carried out, with a remedy.
    #[error("{0}")]
    Refused(String),
    /// The local node.
    #[error(transparent)]
    Node(#[from] europa_client::ClientError),
}

/// The result of most operations.
pub type Result<T> = std::result::Result<T, ClusterError>;
