//! Runs an element graph: batches, scheduling, timers, handlers.
//!
//! # How packets move
//! A *push* never calls the receiver. [`Context::push_batch`] adds the batch to a work list. When
//! the element returns, the engine takes the oldest entry and calls its element: one virtual call
//! for up to 256 packets. So an element never runs inside another's push. Loops in a graph (an ICMP
//! error back to the look-up) need neither recursion nor shared mutability, and packets on one path
//! keep their order. Packets for an input where a batch already waits join that batch. So packets
//! that a classifier has separated can share a batch again. If a batch is the only pending work, it
//! skips the list and passes from element to element directly ([`Context::forward`]).
//!
//! A *pull* does call: the element at the pulling end (a `ToDevice`, an `Unqueue`) needs the
//! packets at once. The engine takes an element out of its place while it runs (16 bytes out, 16
//! back) and makes all others available through [`Context`]. So the chain up to the queue consists
//! of ordinary nested calls without aliasing. A pull path that leads back to a running element gets
//! nothing.
//!
//! If successive elements match a [`Pass`] of the library, the engine gives the batch to the pass:
//! one loop that does the work of all of them, packet by packet. Elements, handlers and counts are
//! the same; see [`Pass`].
//!
//! # In Click's order
//! If a graph shows the order of packets (printing behind a `Tee`, simulated time), it runs one by
//! one ([`Graph::one_by_one`]): each batch has one packet, and an element's packets precede all
//! that were sent earlier, as if each push were a call.
//!
//! # Beside packets
//! Elements can find the elements with packets or room ([`Signal`]), wait for descriptors
//! ([`Context::watch`]), for timers, and for signals of the operating system, and call handlers of
//! others ([`Context::read_handler`]).
//!
//! An element that panics is removed; unwinding frees its packets.
//!
//! # Cost
//! A hop costs 10 to 20 ns a batch, mostly for mispredicted ends of loops: 0.1 ns a packet in
//! batches of 128. Passing a batch moves 8 bytes. Batches come from a stock and are never allocated
//! on the packet path. The caller reads the clock once a round. A round ends after a fixed number
//! of batches even if packets circulate in a graph; the next round continues.

mod argument;
mod argument_table;
mod arguments;
mod call;
mod config_error;
mod context;
mod devices;
mod element;
mod graph;
mod handler;
mod handlers;
mod init_context;
mod keep;
mod ledger;
mod lines;
mod names;
mod pass;
mod registry;
mod room;
mod router;
mod select;
mod signal;
mod state;
mod timers;
pub mod trace;
mod turns;
mod value;
mod work;

pub use argument::{Argument, ArgumentSet, Given};
pub use arguments::Arguments;
pub use call::{Answer, Request, Target};
pub use config_error::ConfigError;
pub use context::{Context, DROP};
pub use devices::{Devices, Interface, MemoryDevices, NoDevices, Refused};
pub use element::{Class, ClassInfo, Element, Phase};
pub use europa_pool::{Arena, BATCH, Batch, Packet, PacketType};
pub use europa_resource::Resource;
pub use graph::{Connection, ConnectionView, Graph, GraphElement, GraphElementView, GraphView};
pub use handler::{Flags, Handler, HandlerError};
pub use init_context::InitContext;
pub use ledger::Ends;
pub use names::{Named, Names};
pub use pass::{Each, Fused, Main, Members, Pass, STAGES, Stop, Verdict};
pub use registry::Registry;
pub use room::{Purpose, Share};
pub use router::{BuildError, Limit, Router};
pub use select::{Interest, Watched};
pub use signal::{Notifies, Signal};
pub use state::Account;
pub use value::{Ipv4Prefix, Ipv6Prefix, Value, parse, unquote};
pub use work::Stock;
