//! Carries out plans over a machine: accepts documents, takes steps, takes them back.
//!
//! The [`Engine`] decides; it never touches anything itself. All its effects are behind the trait
//! [`Machine`], so that the same engine runs on a real host and on a simulated one. It takes the
//! time as an argument, and events by its methods.
//!
//! | file      | concern                                                      |
//! |-----------|--------------------------------------------------------------|
//! | `engine`  | submissions, one job after the other, restoring              |
//! | `job`     | one change: checks, steps, waiting, commit, taking back      |
//! | `machine` | everything that the engine has done to the world             |
//! | `accepted`| desired state at hand, and its next revision                 |
//! | `store`   | where desired state is kept                                  |
//! | `witness` | hears of each effect, for the contract test                  |

mod accepted;
mod engine;
mod job;
mod machine;
pub mod store;
pub mod witness;

pub use accepted::{Accepted, Commit};
pub use engine::{Engine, Outcome, Refusal, Reply, Submission};
pub use machine::{Machine, Note, Stop, Taken, Ticket, Time, Verdict};
