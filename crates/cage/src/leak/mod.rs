//! Refuses programs that could turn an address of the kernel into a number.
//!
//! With `CAP_PERFMON` the verifier lets a program store pointers, calculate with them and compare
//! them. A tenant's program is loaded with that capability only if this analysis finds nothing: it
//! follows all paths with a value for each register and each byte of the stack, and refuses every
//! instruction that could reveal a pointer.
//!
//! | refused | allowed |
//! |---|---|
//! | arithmetic with pointers | a pointer plus or minus a number; the distance of two places in the frame |
//! | comparisons of pointers | with NULL; of places in the frame with each other |
//! | stores of pointers | whole and aligned on the stack |
//! | reads of a part of a stored pointer | reads of the whole |
//! | pointers where a helper wants a number, or in memory that it reads | |
//! | a pointer as verdict | |
//!
//! It does not cover side channels, such as the time of an access.
//!
//! | file      | concern                                  |
//! |-----------|------------------------------------------|
//! | `value`   | the known facts about a register         |
//! | `state`   | registers and stacks at one place        |
//! | `walk`    | all paths, function by function          |
//! | `step`    | one instruction                          |
//! | `helpers` | arguments and results of helpers         |

mod helpers;
mod state;
mod step;
mod value;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use crate::link::Linked;
use crate::object::Object;
use crate::problem::Problem;

/// The findings.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Instructions that would reveal an address.
    pub problems: Vec<Problem>,
    /// Functions, by the place of their first instruction, that may read bytes of their stack before
    /// they write them. The cage clears their stack from this distance to its end on, which is
    /// negative.
    pub to_clear: BTreeMap<usize, i32>,
    /// Instructions that read the receiving device of a frame (`ctx->ingress_ifindex`).
    pub device_reads: BTreeSet<usize>,
}

/// Analyses linked code, each entry as a separate program.
pub fn analyse(object: &Object, linked: &Linked) -> Findings {
    walk::Walk::new(object, linked).run()
}
