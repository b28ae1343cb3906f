//! Loads, pins and attaches the eBPF programs, and fills their tables.
//!
//! | file        | concern                                                           |
//! |-------------|-------------------------------------------------------------------|
//! | `programs`  | the compiled programs, their types and loaders, generated from `bpf/` |
//! | `substrate` | one node's maps and programs: create, find again, remove          |
//! | `table`     | a map of structs, mapped into this process                        |
//! | `pool`      | packet pools: the map of one router, and its place in the tables  |
//! | `ports`     | ports: attach, look-up tables, way out                            |
//! | `matches`   | which frames are whose                                            |
//! | `meters`    | the received rates of slices from ports                           |
//! | `fence`     | until when ports of routers that may be taken over carry frames   |
//! | `adopt`     | the entries of a killed node: found again, or removed             |
//! | `tap`       | captures: taps on interfaces, their rings and records             |
//! | `loading`   | programs that other threads load                                  |
//! | `drained`   | whether live frames have arrived behind a veth                     |
//! | `keep`      | devices of `europa click`: frames kept from Linux or given to it  |
//! | `verify`    | asking the kernel's verifier about a tenant's program             |
//! | `cages`     | programs of routers with `run: kernel`: entered, found, taken out   |
//! | `kick`      | running the transmit program over a batch of descriptors          |
//!
//! Everything here except [`Kicker`], [`Drained`] and [`Table`] needs privileges and is used by the
//! node. A switch gets descriptors: with them it can run the transmit program and write the tables,
//! and nothing else.
#![allow(unsafe_code)] // Maps are shared memory, and libbpf lacks some calls.

mod adopt;
mod cages;
mod drained;
mod fence;
mod keep;
mod kick;
mod loading;
mod matches;
mod meters;
mod pool;
mod ports;
mod programs;
mod substrate;
mod table;
pub mod tap;
pub mod verify;

pub use adopt::Claims;
pub use cages::{CAGE, HeldMap, Judge, JudgeSource};
pub use drained::Drained;
pub use fence::{Fence, boot_ns};
pub use keep::{Given, Kept};
pub use kick::{KickError, Kicker};
pub use loading::{Loaded, Loader, Program};
pub use matches::{InterfaceSpec, Match, MatchKind};
pub use pool::{PoolHandle, PoolMemory, USUAL_SLOTS, Waker};
pub use ports::{Attacher, PortAttachment, PortMode};
pub use programs::layout;
pub use substrate::{Error, Parking, Substrate, has_tc};
pub use table::Table;
