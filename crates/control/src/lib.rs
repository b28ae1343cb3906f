//! Carries out plans on a machine: accepts documents, takes steps, undoes them.
//!
//! The [`Engine`] decides, and has no effects of its own. All effects are behind the trait
//! [`Machine`], so the same engine runs on a real host and on a simulated one. Its methods get the
//! time as an argument, and events.
//!
//! | file      | concern                                                      |
//! |-----------|--------------------------------------------------------------|
//! | `engine`  | one job after the other, each by a plan; restoring           |
//! | `submission` | desired state that was submitted, and its outcome         |
//! | `question`| questions for plans, and the answers                         |
//! | `job`     | one change: checks, steps, waiting, commit, taking back      |
//! | `purpose` | why a job is done, and how far it is                         |
//! | `machine` | everything that the engine has done to the world             |
//! | `accepted`| desired state at hand, and its next revision                 |
//! | `store`   | where desired state is kept                                  |
//! | `witness` | records each effect, for the contract test                   |

mod accepted;
mod engine;
mod job;
mod machine;
mod purpose;
mod question;
pub mod store;
mod submission;
pub mod witness;

pub use accepted::{Accepted, Commit};
pub use engine::Engine;
pub use machine::{Machine, Note, Stop, Taken, Ticket, Time, Verdict};
pub use question::{Plan, Question};
pub use submission::{Outcome, Refusal, Reply, Submission};
