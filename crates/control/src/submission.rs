//! Submissions of desired state, and their outcomes.

use europa_api::rest::{Applied, ProblemDetails};
use europa_api::{Documents, Kept};

/// Desired state that was read and checked as text.
pub struct Submission {
    /// The revision against which it was checked.
    pub base: u64,
    /// All documents.
    pub documents: Documents,
    /// The same documents in their stored form.
    pub kept: Vec<Kept>,
    /// Only list the changes.
    pub dry_run: bool,
    /// The time of its arrival, in the form of RFC 3339.
    pub at: String,
}

/// Why nothing was changed.
pub enum Refusal {
    /// Desired state has changed in the meantime: check again.
    Stale,
    /// The mistakes.
    Problem(Box<ProblemDetails>),
}

/// The result of a submission.
pub type Outcome = Result<Applied, Refusal>;

/// A function that gets the outcome of a submission.
pub type Reply = Box<dyn FnOnce(Outcome) + Send>;

/// A change that was not carried out.
pub(crate) fn refused(problem: ProblemDetails) -> Outcome {
    Err(Refusal::Problem(Box::new(problem)))
}
