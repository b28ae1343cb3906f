//! Tenants' XDP programs: read, link, check and run them.
//!
//! Nothing here trusts an object file: sizes are bounded, and the interpreter checks every access. There is
//! no `unsafe` and no system call; the only library below is the ELF reader.
//!
//! | file          | concern                                                      |
//! |---------------|--------------------------------------------------------------|
//! | `elf`         | sections, symbols, relocations                               |
//! | `btf`         | types                                                        |
//! | `leak`        | refuses instructions that turn a kernel address into a number |
//! | `lines`       | source lines                                                 |
//! | `definition`  | maps as sources declare them                                 |
//! | `object`      | an object file as a whole                                    |
//! | `link`        | the functions that a program needs, in one piece             |
//! | `check`       | helpers and maps by allow-list                               |
//! | `image`       | the arguments of `BPF_PROG_LOAD`                             |
//! | `cage`        | Europa's functions around a program                          |
//! | `kernel`      | a program of a kernel router: checks, stages, maps           |
//! | `helper`      | the kernel's helpers                                         |
//! | `instruction` | one instruction                                              |
//! | `problem`     | mistakes, with the author's line and a remedy                |
//! | `values`      | keys, values and constants as text                           |
//! | `verifier`    | the kernel's messages in plain words                         |
//! | `user`        | the interpreter                                              |
//!
//! # The cage of a kernel router
//!
//! The receive program finds the interface and tail-calls its entry in the map `cages` (`bpf/enter.h`). The
//! entry's main function is Europa's (`bpf/cage.bpf.c`). The tenant's program is linked in as a static function,
//! and its calls of `redirect`, `fib_lookup`, `adjust_head` and others call Europa's functions. The cage stores the verdict in
//! a word of the CPU and tail-calls the *judge* (`bpf/judge.h`), the only way out. The judge is one trusted
//! program for all cages, so it takes nothing from the verifier's budget of a tenant, and captures and delivery
//! need no code in cages. A tenant's own stages return to the cage.
//!
//! - One program is loaded for each interface, with `ctx->ingress_ifindex` as a constant: only one
//!   instruction fits there. The interfaces share maps, but not program arrays.
//! - The router has a process and a pool like others. They take the packets that the program passes, and
//!   broadcasts of a port that several interfaces share.
//! - `bpf_fib_lookup` reads four tables, which a mirror of the slow path fills. The tables of an interface
//!   and family are open only while no other setting of Linux affects forwarding.

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
