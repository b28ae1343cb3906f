//! RSVP-TE: the wire format and the state machine of a router's signaller.
//!
//! No code here reads a clock, opens a socket or changes a data plane. [`Signaller::handle`] takes
//! the time and one [`Input`], asks its [`World`] for routes and admission, and returns
//! [`Output`]s. So a session can be recorded and replayed, and a network of signallers runs in
//! virtual time.
//!
//! | file            | concern                                                              |
//! |-----------------|----------------------------------------------------------------------|
//! | `wire/`         | bytes to values and back; a file for each object                     |
//! | `signaller`     | the state, and what happens to it                                    |
//! | `receive`       | authentication, ids, which handler a message is for                  |
//! | `transmit`      | ids, acknowledgements, retransmissions, bundles, authentication      |
//! | `path`, `tell_path`, `route` | path state (RFC 2205, RFC 3209), and which way it goes  |
//! | `resv`, `tell_resv` | reservation state, blockade                                      |
//! | `preempt`       | LSPs that make room for others (RFC 5711, RFC 5712)                  |
//! | `errors`        | PathErr, ResvErr, ResvConf                                           |
//! | `head`          | LSPs that begin here                                                 |
//! | `program`       | the data plane: it is ready before the Resv goes upstream            |
//! | `ledger`        | reservations by interface and holder; sharing, preemption            |
//! | `hello`, `peer` | Hello (RFC 3209, RFC 4558), helping a neighbour that restarts, RFC 8370 |
//! | `restart`       | restarting oneself (RFC 3473, RFC 5063)                              |
//! | `neighbour`     | message ids (RFC 2961)                                               |
//! | `auth`          | RFC 2747                                                             |
//! | `labels`, `timers`, `demand`, `fields`, `lsp` | their names                            |
//!
//! # Missing parts
//!
//! Wildcard filters are refused. A separate Resv is sent for each LSP, even with the shared
//! explicit style. A received Resv may name several LSPs. Facility backup (RFC 4090) is not
//! supported.

mod adspec;
mod auth;
mod config;
mod demand;
mod errors;
mod fields;
mod head;
mod hello;
mod id;
mod input;
mod labels;
mod ledger;
mod lsp;
mod neighbour;
mod output;
mod path;
mod peer;
mod preempt;
mod program;
mod receive;
mod restart;
mod resv;
mod route;
mod rule;
mod signaller;
#[cfg(test)]
mod simulate;
mod tell_path;
mod tell_resv;
mod timers;
mod transmit;
pub mod wire;
mod world;

pub use auth::{Algorithm, Key};
pub use config::{Config, EgressLabel, HelloSettings, Interface, Limits, Restart, Retransmit};
pub use demand::{BadFlowspec, Demand, GuaranteedDemand};
pub use id::{Adjacency, InterfaceId, Label, LspKey, Ticket, Time};
pub use input::{Input, Tunnel};
pub use output::{Datagram, Entry, Event, NextHop, Output, Program};
pub use signaller::{Counters, Signaller};
pub use world::{Admit, Holder, Lack, Offer, Resource, Route, World};
