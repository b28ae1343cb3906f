//! Tenants' XDP programs: read, link, check and run them.
//!
//! Nothing here trusts an object file: what is read is bounded, what runs is checked at every
//! access. There is no `unsafe`, no system call, and no library beneath but the ELF reader.
//!
//! | file          | concern                                                      |
//! |---------------|--------------------------------------------------------------|
//! | `elf`         | sections, symbols, relocations                               |
//! | `btf`         | types                                                        |
//! | `leak`        | no address of the kernel becomes a number                    |
//! | `lines`       | source lines                                                 |
//! | `definition`  | maps as sources declare them                                 |
//! | `object`      | an object file as a whole                                    |
//! | `link`        | the functions that a program needs, in one piece             |
//! | `check`       | helpers and maps by allow-list                               |
//! | `image`       | what `BPF_PROG_LOAD` takes                                   |
//! | `cage`        | Europa's functions around a program                           |
//! | `kernel`      | a program as `run: kernel` has it: checks, stages, maps       |
//! | `helper`      | the kernel's helpers                                         |
//! | `instruction` | one instruction                                              |
//! | `problem`     | mistakes, with the author's line and a remedy                |
//! | `values`      | keys, values and constants as text                           |
//! | `verifier`    | the kernel's answers in plain words                         |
//! | `user`        | the interpreter                                              |

mod btf;
mod bytes;
pub mod cage;
pub mod check;
mod definition;
mod elf;
pub mod helper;
mod image;
pub mod instruction;
pub mod kernel;
pub mod leak;
mod lines;
mod link;
mod object;
mod problem;
pub mod user;
pub mod values;
pub mod verifier;

pub use btf::{Btf, Kind, Member, TypeId};
pub use definition::{MapDefinition, MapKind};
pub use image::Image;
pub use link::{Linked, LinkedFunction, MAX_INSTRUCTIONS, link, link_with_stages};
pub use object::{Function, Object};
pub use problem::{Place, Problem, Problems};
