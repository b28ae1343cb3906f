//! A network of signallers in virtual time: loss, duplicates, reordering, partitions, restarts and
//! clocks that drift, all from a seed. When the faults end and time has passed, every node holds what
//! the living heads want, and nothing else.

mod check;
mod network;
mod node;
mod plan;
mod scenarios;
mod tests;
mod topology;

use network::Network;
use plan::Plan;
