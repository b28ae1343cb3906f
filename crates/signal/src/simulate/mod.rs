//! A network of signallers in virtual time: loss, duplicates, reordering, partitions, restarts and
//! clocks that drift, all from a seed. Some time after the faults end, every node has exactly the
//! state that the existing heads request.

mod check;
mod network;
mod node;
mod plan;
mod scenarios;
mod tests;
mod topology;

use network::Network;
use plan::Plan;
