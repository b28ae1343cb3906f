//! Computes desired state from documents and facts, and steps from differences. Every function is
//! pure.
//!
//! | file         | concern                                                        |
//! |--------------|----------------------------------------------------------------|
//! | `ids`        | names of objects, each kind a type of its own                  |
//! | `facts`      | the machine's facts, and why a change is refused               |
//! | `actual`     | the actual state                                               |
//! | `desired`    | the desired state of documents                                 |
//! | `steps`      | one step: its subjects, its needs and its inverse              |
//! | `differ`     | all steps from the actual to the desired state, in order       |
//! | `told`       | the same for users: the output of a dry run                    |
//! | `routers`    | routers as documents want them                                 |
//! | `router`     | one router, and how a running one becomes another              |
//! | `interface`  | one interface                                                  |
//! | `outside`    | the parts that cannot change in a running process              |
//! | `builtin`    | texts of `builtin: ipv4` and `builtin: bridge`                 |
//! | `links`      | effects of links on packets                                    |
//! | `far`        | ends of links on other machines                                |
//! | `relays`     | hosts' packets over links with effects                         |
//! | `hosts`      | the ports that hosts make, and their parts that do not stay    |
//! | `slow_paths` | hidden ports and interfaces of slow paths                      |
//! | `slow_path_change` | what a change of a slow path does to its programs        |
//! | `queued`     | what kernel routers send that has to pass the switch           |
//! | `wires`      | links of kernel routers: hidden ports                          |
//! | `needs`      | what interfaces need of a port's device                        |
//! | `cage`       | XDP programs of kernel routers                                 |
//! | `difference` | differences between two sets of documents                      |

mod actual;
mod builtin;
mod cage;
mod desired;
mod differ;
mod difference;
mod facts;
mod far;
pub mod hosts;
mod ids;
mod interface;
mod links;
mod needs;
mod outside;
mod queued;
mod relays;
mod router;
mod routers;
pub mod slow_path_change;
pub mod slow_paths;
mod steps;
#[cfg(test)]
mod tests;
mod told;
pub mod wires;

pub use actual::{Actual, ActualPort, ActualRouter, same_device};
pub use cage::CagePlan;
pub use desired::{Desired, Namespaces, ports};
pub use differ::diff;
pub use difference::difference;
pub use facts::{Facts, Failure, PortFacts};
pub use far::FarEnd;
pub use ids::{HostId, InterfaceId, LinkId, PortId, RouterId, SliceId};
pub use interface::{InterfacePlan, To, Tunnel, vxlan_header};
pub use needs::Needs;
pub use relays::{RelayPlan, relays};
pub use router::{Place, RouterChange, RouterPlan, text};
pub use routers::routers;
pub use steps::{Step, Subject};
pub use told::{changes, list};
