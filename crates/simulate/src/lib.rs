//! A simulated machine for control: random histories in virtual time, with faults at every kind of
//! effect.
//!
//! The engine of `europa-control` and the plans of `europa-plan` run here as in a node. The machine
//! below them is simulated: devices, ports, hosts, slow paths, routers, a switch and a store. A
//! history is a list of operations that follows from a seed; about every tenth effect meets a
//! fault. After each operation, the running objects must equal the accepted documents or the former
//! ones, a dry run must have listed all changes, and no object may leak. A node that is killed at
//! any time must arrive at the same state.
//!
//! | file        | concern                                                   |
//! |-------------|-----------------------------------------------------------|
//! | `contract`  | the same documents and faults as on a real machine        |
//! | `documents` | random documents                                          |
//! | `world`     | the state that outlives a node                            |
//! | `notes`     | records of objects, and objects without one               |
//! | `effects`   | steps, as the simulated kernel carries them out           |
//! | `machine`   | a node's side of it: its memory, and later results        |
//! | `faults`    | possible faults, and how often each occurred              |
//! | `history`   | one history, and its properties                           |
//! | `search`    | many histories; the first that fails is made small        |
//! | `plant`     | faults of control that are planted                        |

mod contract;
mod documents;
mod effects;
mod faults;
mod history;
mod machine;
mod notes;
mod plant;
mod search;
#[cfg(test)]
mod tests;
mod world;

pub use contract::{Simulated, knows};
pub use faults::{Coverage, EFFECTS, FAULTS, Fault};
pub use history::{Operation, Report, operations, run};
pub use plant::{PLANTS, Plant};
pub use search::{Failing, search};
