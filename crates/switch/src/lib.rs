//! The switch: moves descriptors from the routers' transmit rings through a queue per
//! port to the ways out.
//!
//! ```text
//!  tx rings ──▶ intake ──▶ port queues ──▶ live way   (transmit list, kick)
//!                  │                  └──▶ socket way (copy, check, sendmmsg)
//!                  └──▶ links: straight into another router's pool
//! ```
//!
//! | file         | concern                                                        |
//! |--------------|----------------------------------------------------------------|
//! | `orders`     | what the node tells a switch, and its answers                  |
//! | `process`    | the process and its threads, one a worker                      |
//! | `turning`    | a worker's loop: rounds, orders, sleep                         |
//! | `crew`       | several workers: whom an order concerns                        |
//! | `peer`       | a worker as the others see it                                  |
//! | `handover`   | from the worker of a router to the one of a port               |
//! | `sleeper`    | what a sleeping switch waits for                               |
//! | `worker`     | one round: intake, ways out                                    |
//! | `intake`     | from transmit rings to queues: descriptors are stamped here    |
//! | `tables`     | pools, interfaces and ports that this worker serves            |
//! | `pools`, `ports` | pools and ports by their numbers                           |
//! | `slots`      | free slots: taken, given back, set aside                       |
//! | `filters`    | rules of slices, and what they do to packets                   |
//! | `queue`      | one port's queue: first in, first out, or the queue manager    |
//! | `managed`    | the queue manager of a port: a tree of queues, and whose       |
//! | `ecn`        | marks in packets                                               |
//! | `batching`   | how many frames leave at once, and which way                   |
//! | `live`       | the live way: transmit list and kicks                          |
//! | `losses`     | what devices have lost, read by a thread of its own            |
//! | `socket`     | the socket way: small batches, frames too long for live, TCP   |
//! | `train`      | segments of TCP that leave as one packet                       |
//! | `onward`     | where an interface's frames go: a port's queue, or a link      |
//! | `impaired`   | links with a rate, a delay, losses: what waits, and arrives    |
//! | `link`       | delivery into another router's pool                            |
//! | `egress`     | what may leave: checks on a private copy                       |
//! | `tap`        | records for captures                                           |
//! | `guests`     | routers that run inside the worker                             |
//! | `accounts`   | what a switch before had taken and not sent                    |
//! | `held`       | which slots the switch holds, in memory that outlives it       |
//!
//! A switch process holds no capability. It reaches packets through descriptors that
//! the node handed to it, and trusts nothing that a router wrote: slots are masked,
//! pool and interface of a descriptor are those of the ring it stood in.

mod accounts;
mod batching;
mod crew;
mod ecn;
mod egress;
mod filters;
mod guests;
mod handover;
mod held;
mod impaired;
mod intake;
mod link;
mod live;
mod losses;
mod managed;
mod onward;
pub mod orders;
mod peer;
mod pools;
mod ports;
mod process;
mod queue;
mod sleeper;
mod slots;
mod socket;
mod tables;
mod tap;
mod train;
mod turning;
mod worker;

pub use egress::{Policy, Refusal};
pub use filters::action::{Action, CONGESTION, DSCP, NOWHERE, Reply, Verdict};
pub use filters::changes::{Batch, CAPACITY as FILTER_CAPACITY, Counts, FilterAnswer, FilterOrder};
pub use filters::packet::words as key_words;
pub use held::HELD_BYTES;
pub use managed::{QUEUE_BYTES, QUEUE_SETTINGS};
pub use process::{SwitchError, run};
pub use queue::SHARE_PACKETS;

/// Bytes of the status page: one cache line a worker, its first word the sleep flag, its second
/// a [`Pace`](europa_pool::Pace) as a number.
pub const STATUS_BYTES: usize = 4096;
