//! Admission control: one calculation for documents and for signalling. It has no clock, no queue
//! and no socket. The caller states the machine's resources, and [`Budget`] decides which flows
//! fit.
//!
//! | file       | concern                                                          |
//! |------------|------------------------------------------------------------------|
//! | `unit`     | rates, lengths and times are types                               |
//! | `flow`     | a flow's token bucket and service, checked                       |
//! | `machine`  | what a port and its worker have                                  |
//! | `need`     | what a flow takes of it                                          |
//! | `bound`    | how late a packet can be: C and D of RFC 2212, with derivation   |
//! | `budget`   | the sum of all flows; the first resource that is lacking         |

mod bound;
mod budget;
mod flow;
mod machine;
mod need;
mod unit;

pub use bound::{Shared, Terms};
pub use budget::{Budget, FlowId, Lack, Left, Resource};
pub use flow::{BadFlow, Flow, Service};
pub use machine::{Class, Machine, Timing};
pub use need::Need;
pub use unit::{Bytes, BytesPerSecond, Seconds};
