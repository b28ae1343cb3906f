//! The switch process: its parts at the start, and its threads, one for each worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use europa_channel::{Channel, ChannelError, Served};
use europa_pool::Mapping;
use europa_substrate::layout::{MAX_INTERFACES, MAX_POOLS, MAX_WORKERS, TRANSMIT_LIST};
use europa_substrate::tap::MemoryTaps;
use europa_substrate::{Fence, Kicker, Table};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::STATUS_BYTES;
use crate::crew::Crew;
use crate::guests::Guests;
use crate::held::{HELD_BYTES, Held};
use crate::live::Live;
use crate::losses::Reader;
use crate::orders::{Answer, Order, START_DESCRIPTORS, WORKER_DESCRIPTORS};
use crate::peer::Peer;
use crate::sleeper::Sleeper;
use crate::tables::Shared;
use crate::turning::{Orders, Turning};
use crate::worker::{Common, Worker};

/// Why a switch process ends.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The node's end of the channel.
    #[error("orders: {0}")]
    Channel(#[from] ChannelError),
    /// The first message is not [`Order::Start`], or lacks descriptors.
    #[error(
        "the first order must be to start, with {} descriptors and {} for each worker",
        START_DESCRIPTORS.len(),
        WORKER_DESCRIPTORS.len()
    )]
    Start,
    /// A thread for a worker, or for the devices' losses.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
    /// The kernel.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        error: nix::Error,
    },
}

/// Runs a switch that receives its orders from `control`, and after that node's end from the next
/// one. It runs until it is killed.
///
/// # Errors
/// The reason for its end. If the node closes before it has sent the switch's identity, the switch
/// ends silently.
pub fn run(control: OwnedFd) -> Result<(), SwitchError> {
    let mut orders: Channel<Answer, Order> = Channel::new(control);
    let (first, mut descriptors) = match orders.receive() {
        Err(ChannelError::Closed) => return Ok(()),
        other => other?,
    };
    let listener = descriptors.pop().ok_or(SwitchError::Start)?;
    let (mut first, crew) = start(first, descriptors)?;
    let mut orders = Served::new(orders, listener);
    orders.send(&Answer::Done, &[])?;
    first.serve(Orders::Node(orders, crew))
}

/// Starts all workers but the first, which the caller is.
fn start(order: Order, mut descriptors: Vec<OwnedFd>) -> Result<(Turning, Crew), SwitchError> {
    let Order::Start { workers, cpus, counter_rows, cores } = order else {
        return Err(SwitchError::Start);
    };
    let of_workers = descriptors.split_off((START_DESCRIPTORS.len() - 1).min(descriptors.len()));
    let Ok(
        [
            interfaces,
            encap,
            pool_state,
            counters,
            list,
            rows,
            tap_state,
            fence,
            status,
            held,
            tap_memory,
        ],
    ) = <[OwnedFd; START_DESCRIPTORS.len() - 1]>::try_from(descriptors)
    else {
        return Err(SwitchError::Start);
    };
    let all = 1..=MAX_WORKERS;
    let is_complete = of_workers.len() == workers as usize * WORKER_DESCRIPTORS.len();
    if !all.contains(&workers) || cpus.len() != workers as usize || !is_complete {
        return Err(SwitchError::Start);
    }
    let several = workers > 1;
    // The cores of the workers after the first are not for routers.
    let cores = cores.saturating_sub(workers - 1).max(1);
    let mapping = |error| SwitchError::System { what: "mapping a table", error };
    let shared = Arc::new(Shared::new(
        Table::new(interfaces, MAX_INTERFACES).map_err(mapping)?,
        Table::new(encap, MAX_INTERFACES).map_err(mapping)?,
        Table::new(pool_state, MAX_POOLS).map_err(mapping)?,
        Table::new(counters, MAX_INTERFACES * counter_rows).map_err(mapping)?,
        counter_rows,
        Held::new(Mapping::new(held, HELD_BYTES).map_err(mapping)?, several),
        MemoryTaps::new(tap_state, tap_memory).map_err(mapping)?,
        Fence::new(fence).map_err(mapping)?,
    ));
    let status = Arc::new(Mapping::new(status, STATUS_BYTES).map_err(mapping)?);
    let (mut posts, mut peers) = (Vec::<(Live, Sleeper)>::new(), Vec::new());
    let mut of_workers = of_workers.into_iter();
    for worker in 0..workers {
        let mut next = || of_workers.next().ok_or(SwitchError::Start);
        let (program, doorbell, rope) = (next()?, next()?, next()?);
        let list = Table::new(&list, TRANSMIT_LIST * MAX_WORKERS).map_err(mapping)?;
        let rows = Table::new(&rows, MAX_WORKERS).map_err(mapping)?;
        let live = Live::new(worker, Kicker::new(program), list, rows, &shared);
        let sleeper = Sleeper::new(doorbell)
            .map_err(|error| SwitchError::System { what: "preparing to sleep", error })?;
        posts.push((live, sleeper));
        peers.push(Arc::new(Peer::new(rope)));
    }
    let published = posts.iter().flat_map(|(live, _)| live.waiting());
    shared.close_accounts(published.map(|(interface, _, _)| interface));
    let peers: Arc<[Arc<Peer>]> = peers.into();
    let reader = Reader::start().map_err(SwitchError::Thread)?;
    let common = Common { shared, peers: peers.clone(), reader };
    let turning = move |number: u32, (live, sleeper)| {
        let guests = Guests::new()
            .map_err(|error| SwitchError::System { what: "preparing for routers", error })?;
        let worker = Worker::new(number, common.clone(), live, sleeper, guests);
        let (peers, status) = (common.peers.clone(), status.clone());
        Ok::<_, SwitchError>(Turning { worker, number, peers, cores, status })
    };
    let mut posts = (0..).zip(posts);
    let (number, post) = posts.next().ok_or(SwitchError::Start)?;
    let first = turning(number, post)?;
    let mut crew = Crew::of(peers.iter().take(1).cloned().collect());
    for (((number, post), peer), cpu) in posts.zip(peers.iter().skip(1)).zip(&cpus[1..]) {
        let desk = crew.hire(peer.clone());
        let (turning, cpu) = (turning.clone(), *cpu);
        let run = move || {
            // The process ends with each of its workers, and is started again as a whole.
            let _ends = Ends;
            move_to(cpu);
            let ended = turning(number, post).and_then(|mut it| it.serve(Orders::Desk(desk)));
            tracing::error!("worker {number} has ended: {ended:?}");
        };
        let thread = std::thread::Builder::new().name(format!("worker {number}"));
        thread.spawn(run).map_err(SwitchError::Thread)?;
    }
    Ok((first, crew))
}

/// Ends the process when it is dropped.
pub(crate) struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Moves this thread to one core. If the kernel refuses, it stays on its core.
fn move_to(cpu: u32) {
    let mut only = CpuSet::new();
    if only.set(cpu as usize).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &only);
    }
}
