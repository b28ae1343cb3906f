//! User mode: runs a linked program on frames, in this process, in safe Rust.
//!
//! Nothing of the program is trusted. Every register is a number of 64 bits; a pointer is a
//! number whose top bits name a region (frame, context, stack, map values), and every access is
//! compared with the region's bounds. Time is bounded by fuel, memory by a limit on maps.
//!
//! | file       | concern                                                  |
//! |------------|----------------------------------------------------------|
//! | `step`     | instructions, checked and decoded before anything runs   |
//! | `memory`   | regions and their bounds                                 |
//! | `machine`  | a program ready to run, and its verdict on a frame       |
//! | `execute`  | the loop over instructions                               |
//! | `helpers`  | helper calls                                             |
//! | `checksum` | Internet checksums as the kernel computes them           |
//! | `print`    | `bpf_trace_printk`                                       |
//! | `map`      | maps: arrays, redirections, program arrays               |
//! | `hash`     | hash tables and longest-prefix tries                     |
//! | `ring`     | ring buffers                                             |

mod checksum;
mod execute;
mod hash;
mod helpers;
mod machine;
mod map;
mod memory;
mod print;
mod ring;
mod step;

pub use machine::{Cause, Closed, Fault, Host, Input, Limits, Machine, Setup, Target, Verdict};
pub use map::Map;
pub use memory::Frame;
