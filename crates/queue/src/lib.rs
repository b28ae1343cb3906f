//! A port's queues and their scheduling, as a state machine without clock and packets: the caller
//! passes the time in nanoseconds and a token for each packet.
//!
//! ```text
//!                 port            rate of the port
//!                  │
//!          ┌───────┴──────┐
//!      scheduler      scheduler   rates of their own, adjusted at run time
//!       ┌──┴───┐
//!     slice  slice
//!    ┌──┴──┐
//!  router router
//!  ┌──┴──┐
//! queue queue                     packets wait here; numbers are local to the slice
//! ```
//!
//! | file         | concern                                                     |
//! |--------------|-------------------------------------------------------------|
//! | `settings`   | what can be set                                             |
//! | `tree`       | adds and removes nodes while packets wait                       |
//! | `change`     | rates, weights, limits and policies change meanwhile        |
//! | `enqueue`    | a packet comes: limits, policies                            |
//! | `dequeue`    | packets leave                                               |
//! | `serve`      | whose turn it is, level by level                            |
//! | `standing`   | lists of nodes with work, and of nodes that wait for a rate |
//! | `account`    | the counts of queues' packets in their classes              |
//! | `node`       | one cache line for each node, cyclic lists                  |
//! | `order`      | whose turns come, so that they can be fetched ahead         |
//! | `entries`    | waiting packets                                             |
//! | `bucket`     | token buckets                                               |
//! | `wheel`      | times at which caps and guarantees are checked again        |
//! | `red`, `codel` | drop policies                                             |
//! | `statistics` | counters, in memory that others may map                     |
//!
//! # Order of sending
//!
//! At each level, from the port down:
//!
//! 1. A child without *cap* left (a token bucket) is skipped until the bucket refills.
//! 2. Children with *guarantee* left (another token bucket) send first, packet by packet in a
//!    circle. This is charged to the guarantee alone.
//! 3. Then the children with work share by *weight*: deficit round robin (Shreedhar and Varghese,
//!    SIGCOMM 1995) in bytes. The last packet of a turn may overdraw and is charged to the next
//!    turn (surplus round robin; Floyd's and Jacobson's link-sharing used this form). So no level
//!    needs the next packet's length before it is taken.
//!
//! So a child gets its guarantee, and its share by weight of the rest. Other children use unused
//! shares. Guarantees of siblings must fit into their parent's assured rate; the caller that admits
//! them checks this. A policy may mark a packet instead of dropping it: then [`Due::mark`] is set,
//! and the caller marks the packet.
//!
//! # Bounds
//!
//! - Of two children that always have work, compare the bytes sent per weight: the difference is
//!   never more than a turn and a packet of each. The lightest child's turn is one quantum to two.
//! - A cap is kept to within the burst, a turn, a packet, and 4 µs of the rate.
//! - A packet of a guaranteed child waits for at most the following. One packet of each guaranteed
//!   sibling, for itself and for each packet of the child before it; and the packet that is being
//!   sent.
//! - The cost is constant in the number of queues. A packet k times as long as the quantum takes k
//!   turns.
//! - Nothing is allocated after a queue has been made; the caller's `Vec` is never grown.
//!
//! # Memory
//!
//! A node (queue, router, slice, scheduler) takes 64 bytes that packets touch, and 320 bytes of
//! statistics; packets touch 64 of the latter. Nodes with cap, guarantee, RED or CoDel, and
//! changes, touch some 320 bytes more. A waiting packet takes 36 bytes if `T` is a `u64`. All
//! memory is reserved at the start. Unused pages cost only address space, except for the statistics
//! of [`Tree::new`]. In a tree with more than 512 nodes, each node has 32 bytes more. There a class
//! of 64 children or more has 4 to 8 bytes for each child, reserved when the child is added.
//!
//! With very many queues, memory accesses dominate. The caller can announce the queues of its next
//! packets ([`Tree::prefetch`]). The tree itself prefetches the queues whose turns come next. In a
//! linked list, the next child is known only after the former one has been read from memory. So
//! large classes also record the order in which their children joined the list. This order is a
//! hint; the lists decide whose turn it is.

mod account;
mod bucket;
mod change;
mod codel;
mod dequeue;
mod enqueue;
mod entries;
mod node;
mod order;
mod red;
mod serve;
mod settings;
mod standing;
mod statistics;
mod tree;
mod wheel;

pub use dequeue::Due;
pub use node::Level;
pub use settings::{Codel, Limit, PORT_NODES, Policy, QueueSettings, Rate, Red, Settings, Share};
pub use statistics::{BUCKETS, Cause, LAYOUT, Statistics, WORDS, bucket_ns};
pub use tree::{Error, Id, Tree};
