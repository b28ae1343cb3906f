//! Why a change is carried out, how far it is, and its end.

use europa_api::rest::{Applied, ProblemDetails};
use europa_plan::PortId;

use crate::submission::Reply;

/// Why a job is done.
pub(crate) enum Purpose {
    /// A document wants it.
    Apply { reply: Reply },
    /// The accepted state is not all there: as much as possible is done.
    Restore,
    /// The error to return once the state of before is back.
    Rollback {
        reply: Reply,
        why: Box<ProblemDetails>,
        /// Ports that were open before.
        open: Vec<PortId>,
    },
}

/// Where a job stands after a turn.
pub(crate) enum Progress {
    /// There is more to do at once.
    More,
    /// It waits for something.
    Waits,
    /// It needs another plan.
    Again,
    /// It has ended well.
    Done,
    /// It cannot be done.
    Failed(Box<ProblemDetails>),
}

/// A job that has ended.
pub(crate) struct Ended {
    pub(crate) purpose: Purpose,
    pub(crate) applied: Applied,
    /// Something was changed.
    pub(crate) touched: bool,
    /// Ports that were open when it began.
    pub(crate) open: Vec<PortId>,
}
