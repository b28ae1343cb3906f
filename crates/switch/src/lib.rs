//! The switch: moves descriptors from the routers' transmit rings through a queue for each port to
//! the devices.
//!
//! ```text
//!  tx rings ──▶ intake ──▶ port queues ──▶ live way   (transmit list, kick)
//!                  │                  └──▶ socket way (copy, check, sendmmsg)
//!                  └──▶ links: straight into another router's pool, or by UDP to another machine
//! ```
//!
//! | file         | concern                                                        |
//! |--------------|----------------------------------------------------------------|
//! | `orders`     | the node's orders and the switch's answers                     |
//! | `process`    | the process and its threads, one for each worker               |
//! | `turning`    | a worker's loop: rounds, orders, sleep                         |
//! | `crew`       | several workers: which of them an order is for                 |
//! | `peer`       | a worker as the others see it                                  |
//! | `handover`   | from the worker of a router to the worker of a port            |
//! | `sleeper`    | the events that wake a sleeping switch                         |
//! | `worker`     | one round: intake, ways out                                    |
//! | `intake`     | from transmit rings to queues: descriptors are stamped here    |
//! | `tables`     | pools, interfaces and ports that this worker serves            |
//! | `pools`, `ports` | pools and ports by their numbers                           |
//! | `slots`      | free slots: taken, given back, set aside                       |
//! | `filters`    | rules of slices and their actions                              |
//! | `queue`      | one port's queue: first in, first out, or the queue manager    |
//! | `managed`    | the queue manager of a port: a tree of queues and their owners |
//! | `ecn`        | congestion marks in packets                                    |
//! | `batching`   | how many frames are sent at once, by kick or socket            |
//! | `live`       | the live way: transmit list and kicks                          |
//! | `losses`     | drop counters of devices, read by a thread of its own          |
//! | `socket`     | the socket way: small batches, frames too long for live, TCP   |
//! | `train`      | segments of TCP that leave as one packet                       |
//! | `onward`     | an interface's destination: a port's queue, or a link          |
//! | `impaired`   | links with a rate, a delay, losses: waiting and arriving packets |
//! | `link`       | delivery into another router's pool                            |
//! | `tunnels`    | links to other machines, by UDP sockets                        |
//! | `egress`     | checks on a private copy of each frame that leaves             |
//! | `tap`        | records for captures                                           |
//! | `guests`     | routers that run inside the worker                             |
//! | `accounts`   | what a switch before had taken and not sent                    |
//! | `held`       | which slots the switch holds, in memory that outlives it       |
//!
//! A switch process holds no capability. It reaches packets through descriptors from the node, and
//! trusts no value that a router wrote: it masks slots, and stamps a descriptor with the pool and
//! interface of its ring.
//!
//! # Workers
//!
//! Each router and each port belongs to one worker. All workers know all pools and interfaces. An
//! interface whose port belongs to another worker has a ring between the two (`handover`), so its
//! packets wait in its own transmit ring while the port is full. The first worker takes the node's
//! orders and passes them on (`crew`). Counters and held bits need locked instructions only with
//! several workers.
//!
//! # Measured decisions
//!
//! | decision | reason |
//! |---|---|
//! | a link is a copy in user space, not by the transmit program | no frame, no system call |
//! | up to 8 waiting frames, and frames over 3336 bytes, leave by `sendmmsg`; more by a kick | a kick costs 16 µs and 85 ns a frame, a frame by socket 1.4 µs |
//! | few of the free slots are in use | they stay in caches (`slots`) |
//! | `SCHED_BATCH` and naps of 30 µs after a burst, instead of yields | plain yields keep a shared core from the peer: 1.5 to 2.3 million packets/s |
//! | held slots are noted in a bitmap that outlives the switch | a killed switch costs no slot |

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
mod long;
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
mod tunnels;
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
