//! The purpose, progress and end of a change.

use europa_api::rest::{Applied, ProblemDetails};
use europa_plan::PortId;

use crate::submission::Reply;

/// The purpose of a job.
pub(crate) enum Purpose {
    /// A request to apply documents.
    Apply { reply: Reply },
    /// Parts of the accepted state are missing: the job does as much as possible.
    Restore,
    /// The machine is being returned to its former state; after that, this error is returned.
    Rollback {
        reply: Reply,
        why: Box<ProblemDetails>,
        /// Ports that were open at the job's start.
        open: Vec<PortId>,
    },
}

/// The state of a job after a turn.
pub(crate) enum Progress {
    /// It can continue at once.
    More,
    /// It waits for an event.
    Waits,
    /// It needs another plan.
    Again,
    /// It has succeeded.
    Done,
    /// It has failed.
    Failed(Box<ProblemDetails>),
}

/// A job that has ended.
pub(crate) struct Ended {
    pub(crate) purpose: Purpose,
    pub(crate) applied: Applied,
    /// Something was changed.
    pub(crate) touched: bool,
    /// Ports that were open when the job began.
    pub(crate) open: Vec<PortId>,
}
