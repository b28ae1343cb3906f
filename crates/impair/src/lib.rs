//! The effects of one direction of a link on packets, as a state machine without clock and packets:
//! the caller passes the time in nanoseconds and a token for each packet.
//!
//! ```text
//!                 loss?      limit, share?     rate              delay ± jitter
//!  submit ──────▶ ─────────▶ ───────────────▶ transmitter ─────▶ on the way ──────▶ pop
//!                                              (one by one)  └──▶ reordered: at once
//! ```
//!
//! | file       | concern                                               |
//! |------------|-------------------------------------------------------|
//! | `settings` | what can be set                                       |
//! | `random`   | numbers that are the same for the same seed           |
//! | `jitter`   | distributions of the delay                            |
//! | `loss`     | independent losses and bursts                         |
//! | `queue`    | the packets between submission and arrival            |
//!
//! A packet's fate is decided when it is submitted; nothing is computed while it waits. Packets
//! keep their order with any jitter, as on a real line, except those that `reorder` selects. The
//! cost is one random number for each configured impairment, two queues without look-up, and no
//! allocation after [`Impairment::new`].

mod jitter;
mod loss;
mod queue;
mod random;
mod settings;

pub use queue::{Cause, Due, Impairment, Statistics};
pub use random::Random;
pub use settings::{Distribution, Limit, Loss, Settings};
