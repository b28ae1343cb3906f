//! The process of a router with elements of the owner.
//!
//! The node starts its own binary, which enters the sandbox and executes the owner's program there.
//! The program contains Europa's router with more elements, and takes the node's orders from the
//! start. Node and program may have been built from different versions of Europa. So the node's
//! binary puts its version into the environment, and a program of another version refuses the first
//! order; the refusal names both versions.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use europa_channel::Channel;
use europa_pool::layout::ABI_VERSION;
use nix::fcntl::{F_SETFD, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::graph::More;
use crate::orders::{Answer, ORDERS_VERSION, Order};
use crate::process::{RouterError, run};

/// The first argument of a program that becomes a router's process.
pub const AS_ROUTER: &str = "--as-europa-router";
/// Milliseconds to wait for the first order.
const PATIENCE_MS: u16 = 10_000;
/// The environment variable with the version that the node expects.
const VERSION: &str = "EUROPA_ROUTER";

/// The versions of Europa, of the orders and of the pool in this binary. All except the first must
/// be equal in a node and its routers.
fn version() -> String {
    let package = env!("CARGO_PKG_VERSION");
    format!("{package} (orders {ORDERS_VERSION}, pool {ABI_VERSION})")
}

/// Executes the program at `path` as the process of a router. Returns only if it cannot be
/// executed.
///
/// # Errors
/// The program cannot be executed. The node has received the reason.
pub fn become_extended(control: OwnedFd, path: &str) -> Result<(), RouterError> {
    fcntl(&control, F_SETFD(FdFlag::empty()))
        .map_err(|error| RouterError::System { what: "handing over a descriptor", error })?;
    let mut program = Command::new(path);
    program.args([AS_ROUTER, &control.as_raw_fd().to_string()]).env_clear();
    let error = program.env(VERSION, version()).exec();
    let why = format!("elements: {path} cannot be executed: {error}");
    refuse(control, &why)?;
    Err(RouterError::Configuration(why))
}

/// Runs a router, like [`run`], in a program that the node has executed.
///
/// # Errors
/// The reason for its end.
pub fn run_extended(control: OwnedFd, more: More) -> Result<(), RouterError> {
    let wanted = std::env::var(VERSION).unwrap_or_default();
    match differs(&version(), &wanted) {
        None => run(control, more),
        Some(why) => {
            refuse(control, &why)?;
            Err(RouterError::Configuration(why))
        }
    }
}

/// The reason why a program with a router of version `own` does not fit a node that expects
/// `wanted`.
fn differs(own: &str, wanted: &str) -> Option<String> {
    let bound = |version: &str| version.split_once(' ').map(|(_, bound)| bound.to_owned());
    let fits = bound(own).is_some() && bound(own) == bound(wanted);
    let why = || {
        format!(
            "elements: the program was built with Europa {own}, the node has {wanted}: \
             build it again with the node's version"
        )
    };
    (!fits).then(why)
}

/// Refuses the first order.
fn refuse(control: OwnedFd, why: &str) -> Result<(), RouterError> {
    // The message is not parsed as an order: an order of another version may be unreadable.
    let mut first = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    poll(&mut first, PollTimeout::from(PATIENCE_MS))
        .map_err(|error| RouterError::System { what: "waiting for orders", error })?;
    let orders: Channel<Answer, Order> = Channel::new(control);
    Ok(orders.send(&Answer::Refused(why.to_owned()), &[])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_orders_and_pool_must_be_equal() {
        assert_eq!(differs("0.1.0 (orders 1, pool 2)", "0.2.0 (orders 1, pool 2)"), None);
        for wanted in ["0.1.0 (orders 2, pool 2)", "0.1.0 (orders 1, pool 3)", "0.1.0", ""] {
            let why = differs("0.1.0 (orders 1, pool 2)", wanted).expect("another version");
            assert!(why.contains("orders 1, pool 2") && why.contains(wanted), "{why}");
        }
        assert_eq!(differs(&version(), &version()), None);
    }

    /// An older program answers in a form that the node can still read.
    #[test]
    fn a_refusal_has_the_same_form_in_all_versions() {
        let refusal = serde_json::to_string(&Answer::Refused("why".into())).expect("text");
        assert_eq!(refusal, r#"{"Refused":"why"}"#);
    }
}
