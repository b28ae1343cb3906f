//! Types of Europa's YAML, shared by the command line, the node and the schema.
//!
//! A configuration is a set of small documents, separated by `---`, each with a `kind` and a
//! `name`. [`load`] reads files, and [`parse`] reads texts. Both return the [`Documents`], or every
//! mistake that was found, each with its place. [`schema`] is the JSON Schema.
//!
//! ```
//! use europa_api::{Source, parse};
//!
//! let text = "kind: port\nname: left\ndevise: eth1\n".to_owned();
//! let problems = parse(&[Source { path: "node.yaml".into(), text }]).unwrap_err();
//! let report = problems.render(false);
//! assert!(report.contains("node.yaml:3:1"));
//! assert!(report.contains("did you mean `device`?"));
//! ```

mod addressing;
mod allow;
pub mod balance;
mod bundle;
mod check;
mod cluster_node;
mod decode;
mod documents;
mod draft;
mod ends;
mod fast_path;
mod fault;
pub mod filters;
mod flow;
mod grant;
mod host;
mod host_bind;
mod interface;
mod link;
mod load;
pub mod lsp;
mod parse;
mod port;
mod problem;
mod quantity;
mod queues;
mod reservation;
pub mod rest;
mod rights;
mod router;
mod schema;
mod signalling;
mod slice;
mod slow_path;
mod source;
pub mod stats;
mod tree;
mod tunnel;
mod user;
mod users;
mod values;
mod warnings;
mod xdp;

pub use allow::Allow;
pub use bundle::{Bundle, Kept, Key, NamedFile, read};
pub use check::MOST_FILTERS;
pub use cluster_node::ClusterNode;
pub use documents::{Document, Documents};
pub use fast_path::{Builtin, Choice, Configuration, FastPath, Kernel, Neighbour, Route};
pub use fault::Fault;
pub use filters::Filters;
pub use flow::{Fallback, Flow};
pub use grant::Grant;
pub use host::{Host, HostAttachment, HostInterface, HostInterfaces, HostPlace, HostRoute, Texts};
pub use host_bind::HostBind;
pub use interface::{Attachment, Interface, MacChoice, Match, Selector, Vxlan};
pub use link::{Addressing, Bursts, Distribution, Line, Link, LinkAddresses, Loss};
pub use load::load;
pub use parse::parse;
pub use port::{Port, Receive};
pub use problem::{MOST_PROBLEMS, Problem, Problems};
pub use quantity::{Bytes, Cores, QueueLength, Share, Time};
pub use queues::{Queue, QueueNumber, QueuePolicy, Queues};
pub use reservation::{Part, Parts, Reservation};
pub use rights::{Rights, Verdict};
pub use router::{Inline, Interfaces, Poll, Pool, Router, Run, SlotBytes, WithoutLease};
pub use schema::schema;
pub use signalling::{Egress, RsvpTe, Signalling, TtlModel};
pub use slice::{Programs, Slice};
pub use slow_path::{Daemon, File, Reload, Restart, SlowPath};
pub use source::{At, Place, Source};
pub use tunnel::{LinkTunnel, TunnelKey};
pub use user::{ROOT, Role, Roles, SshKey, User};
pub use values::{InterfaceName, Mac, Name, Rate, hash};
pub use xdp::{Tables, Xdp};
