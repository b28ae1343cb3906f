//! A platform of several nodes, whose documents are in etcd.
//!
//! | file      | concern                                                       |
//! |-----------|---------------------------------------------------------------|
//! | `etcd`    | etcd's keys below a prefix, with a deadline on every call     |
//! | `store`   | documents in etcd: staged, made effective by one head key     |
//! | `whole`   | all documents of a state, with places and tunnels             |
//! | `place`   | which node has which router, host and port; pure              |
//! | `tunnels` | numbers, epochs and keys of links between nodes; pure         |
//! | `part`    | the documents of one node; pure                               |
//! | `moves`   | which routers may leave a node, and what that loses; pure     |
//! | `takeover` | when the routers of a node start elsewhere; pure             |
//! | `change`  | from a user's wish to a change of the store; pure             |
//! | `apply`   | a wish staged, agreed to by nodes, committed, waited for      |
//! | `relocate` | nodes cordoned, drained and taken over                       |
//! | `member`  | nodes with a lease, the leader, questions to nodes            |
//! | `run`     | waits for asynchronous work                                   |
//! | `agent`   | the process beside a node that has it run its part            |
//!
//! Each node stores its documents itself, like a node without a cluster. So it continues while etcd
//! does not answer, even after a restart.

mod agent;
mod apply;
mod change;
mod error;
mod etcd;
mod member;
mod moves;
mod part;
mod place;
mod relocate;
mod run;
mod store;
mod takeover;
mod tunnels;
mod whole;

pub use agent::{Settings, run as run_agent};
pub use apply::{Options, Outcome, apply};
pub use change::{Planned, Wish, plan};
pub use error::{ClusterError, Result};
pub use etcd::{Access, Etcd, Service, TlsFiles};
pub use member::{Member, leader, members};
pub use moves::{Cause, Leaving, Move, Moving, leaving, losses};
pub use part::{Part, part};
pub use place::{Moved, Place, Places};
pub use relocate::{Fate, Scope, Told, cordon, drain, take_over};
pub use run::wait;
pub use store::{Change, Cleaned, Cleaner, Entry, Head, Item, Located, State, Writer, outcome};
pub use takeover::{Guard, LEASE, Verdict};
pub use tunnels::Tunnel;
pub use whole::{Cordon, Whole};
