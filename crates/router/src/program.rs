//! The process of a router whose data plane is a user's program.
//!
//! The process is already in the sandbox. It reads its settings from the node, and executes the
//! program, which finds the numbers of the pool's descriptors in its environment. After that no
//! code reads the control socket: a program takes no orders. The next node still adopts it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use europa_channel::Channel;
use nix::fcntl::{F_SETFD, FdFlag, fcntl};

use crate::orders::{Answer, Order, START_DESCRIPTORS};
use crate::process::RouterError;

/// Variables that contain the numbers of descriptors, in the order of [`START_DESCRIPTORS`]; the
/// listening socket is not for the program.
const VARIABLES: [&str; START_DESCRIPTORS.len() - 1] =
    ["EUROPA_POOL", "EUROPA_WAKER", "EUROPA_WAKE", "EUROPA_DOORBELL", "EUROPA_STATUS"];

/// Executes the program of `command`, whose first word is its path. Returns only if it cannot be
/// executed.
///
/// # Errors
/// The node did not send the settings, or the program cannot be executed. If the node closes the
/// socket before, the process ends without a message.
pub fn become_program(control: OwnedFd, command: &[String]) -> Result<(), RouterError> {
    let mut orders: Channel<Answer, Order> = Channel::new(control);
    let (start, descriptors) = match orders.receive() {
        Ok((Order::Start(start), descriptors)) => (start, descriptors),
        Ok(_) => return Err(RouterError::Start),
        Err(europa_channel::ChannelError::Closed) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (Some((path, arguments)), true) =
        (command.split_first(), descriptors.len() >= VARIABLES.len())
    else {
        return Err(RouterError::Start);
    };
    let mut program = Command::new(path);
    program.args(arguments).env_clear();
    for (name, descriptor) in VARIABLES.iter().zip(&descriptors) {
        // The listening socket after them is closed when the program starts.
        fcntl(descriptor, F_SETFD(FdFlag::empty()))
            .map_err(|error| RouterError::System { what: "handing over descriptors", error })?;
        program.env(name, descriptor.as_raw_fd().to_string());
    }
    for (name, value) in [
        ("EUROPA_SLOTS", start.slots),
        ("EUROPA_SLOT_BYTES", start.slot_bytes),
        ("EUROPA_INTERFACES", start.interfaces.len() as u32),
        ("EUROPA_WORKER", start.worker),
        ("EUROPA_BUSY", start.busy.into()),
    ] {
        program.env(name, value.to_string());
    }
    // A later failure could not be reported. The control socket stays open in the program: if that
    // end were closed, the node would get events all the time. A program that cannot be executed
    // ends, and is restarted.
    orders.send(&Answer::Done(String::new()), &[])?;
    let error = program.exec();
    Err(RouterError::Configuration(format!("{path}: {error}")))
}
