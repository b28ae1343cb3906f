//! Distribution over outputs and inputs.

pub(crate) mod bypass;
pub(crate) mod clipboard;
pub(crate) mod hash_switch;
pub(crate) mod hub;
pub(crate) mod input_switch;
pub(crate) mod paint_switch;
pub(crate) mod paint_tee;
pub(crate) mod pull_switch;
pub(crate) mod pull_tee;
pub(crate) mod random_sample;
pub(crate) mod random_switch;
pub(crate) mod round_robin_switch;
pub(crate) mod simple_pull_switch;
pub(crate) mod static_pull_switch;
pub(crate) mod static_switch;
pub(crate) mod stride_switch;
pub(crate) mod suppressor;
pub(crate) mod switch;
pub(crate) mod tee;

use europa_engine::{Context, Packet};

/// Sends a packet out of several outputs: copies, and the packet itself out of the last.
fn push_to_all(packet: Packet, outputs: impl Iterator<Item = usize>, context: &mut Context<'_>) {
    let mut outputs = outputs.peekable();
    let mut packet = Some(packet);
    while let Some(output) = outputs.next() {
        let sent = match outputs.peek() {
            Some(_) => packet.as_ref().and_then(Packet::try_clone),
            None => packet.take(),
        };
        if let Some(sent) = sent {
            context.push(output, sent);
        }
    }
}

/// Whether a port exists; negative numbers mean none.
fn check_port(name: &str, port: i32, count: usize) -> Result<(), String> {
    match usize::try_from(port) {
        Ok(port) if port >= count => Err(format!("{name} must be < {count}")),
        _ => Ok(()),
    }
}
