//! The main loop: rounds of the engine, sleep, signals, hot swap.

use std::cell::Cell;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use europa_engine::{Interest, Router};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SIGINT, SIGTERM};
use nix::sys::time::TimeSpec;
use signal_hook::{flag, low_level};

use crate::clock::Clock;
use crate::devices::PacketDevices;
use crate::globals::Pending;

/// A busy router checks for ready descriptors once in this many rounds.
const ROUNDS: u32 = 64;
/// Time to wait for a device whose queue is full.
const FULL: Duration = Duration::from_micros(100);
/// Most rounds that a graph gets to finish its packets before another graph replaces it.
const MOST_ROUNDS: usize = 64;

/// A router with its surroundings.
pub(crate) struct Running {
    pub(crate) router: Router,
    pub(crate) devices: PacketDevices,
}

/// Signals of the operating system: flags, and a pipe that wakes the loop.
struct Signals {
    wake: UnixStream,
    far: UnixStream,
    /// By signal: whether it has arrived.
    caught: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let (wake, far) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(Signals { wake, far, caught: Vec::new() })
    }

    fn catch(&mut self, signal: i32) -> std::io::Result<()> {
        if self.caught.iter().any(|(known, _)| *known == signal) {
            return Ok(());
        }
        let caught = Arc::new(AtomicBool::new(false));
        flag::register(signal, caught.clone())?;
        low_level::pipe::register(signal, self.far.try_clone()?)?;
        self.caught.push((signal, caught));
        Ok(())
    }

    /// Signals that have arrived since the last call.
    fn take(&mut self) -> Vec<i32> {
        let caught = self.caught.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        caught.map(|(signal, _)| *signal).collect()
    }
}

/// Runs until the router stops. A graph that `hotconfig` leaves in `pending` takes over.
pub(crate) fn run(
    running: &mut Running,
    clock: &Rc<Cell<Clock>>,
    pending: &Pending<Running>,
) -> std::io::Result<()> {
    let mut signals = Signals::new()?;
    let mut rounds = 0u32;
    catch(&mut signals, &running.router)?;
    while !running.router.is_stopped() {
        let now_ns = clock.get().now_ns();
        let worked = running.router.run_once(now_ns, &mut running.devices);
        if let Some(new) = pending.borrow_mut().take() {
            swap(running, new, clock);
            catch(&mut signals, &running.router)?;
            continue;
        }
        for signal in signals.take() {
            if running.router.signals().any(|wanted| wanted == signal) {
                running.router.caught_signal(signal, &mut running.devices);
            } else if [SIGINT as i32, SIGTERM as i32].contains(&signal) {
                let now_ns = clock.get().now_ns();
                running.router.end(now_ns, &mut running.devices);
                return Ok(());
            } else {
                // No element handles this signal any more.
                low_level::emulate_default_handler(signal)?;
            }
        }
        rounds = rounds.wrapping_add(1);
        if running.router.is_stopped() {
            break;
        }
        if worked || running.router.is_busy() || running.devices.is_waiting() {
            with(clock, Clock::worked);
            if rounds.is_multiple_of(ROUNDS) {
                look(running, &mut signals, Some(Duration::ZERO))?;
            }
            continue;
        }
        // Simulated time advances only when there is no other work.
        let timer = running.router.next_timer_ns();
        let nobody = running.router.watched().is_empty();
        if !nobody && look(running, &mut signals, Some(Duration::ZERO))? {
            continue;
        }
        if running.devices.was_full() {
            look(running, &mut signals, Some(FULL))?;
            continue;
        }
        let wait = timer.map(|at_ns| with(clock, |clock| clock.wait(at_ns)));
        match wait {
            // Time has jumped to the timer.
            Some(None) => {}
            Some(Some(left)) => sleep(running, &mut signals, Some(left))?,
            None => sleep(running, &mut signals, None)?,
        }
    }
    Ok(())
}

/// Sleeps, unless an element has work already.
fn sleep(
    running: &mut Running,
    signals: &mut Signals,
    timeout: Option<Duration>,
) -> std::io::Result<()> {
    let due = running.router.fall_asleep();
    let looked = look(running, signals, if due { Some(Duration::ZERO) } else { timeout });
    running.router.wake_up();
    looked.map(drop)
}

fn with<R>(clock: &Rc<Cell<Clock>>, change: impl FnOnce(&mut Clock) -> R) -> R {
    let mut changed = clock.get();
    let result = change(&mut changed);
    clock.set(changed);
    result
}

/// Catches the signals that end the loop, and those that elements handle.
fn catch(signals: &mut Signals, router: &Router) -> std::io::Result<()> {
    for signal in [SIGINT as i32, SIGTERM as i32].into_iter().chain(router.signals()) {
        signals.catch(signal)?;
    }
    Ok(())
}

/// Replaces the running router by another one.
fn swap(running: &mut Running, mut new: Running, clock: &Rc<Cell<Clock>>) {
    // The old graph finishes its packets first.
    for _ in 0..MOST_ROUNDS {
        if !running.router.is_busy() {
            break;
        }
        running.router.run_once(clock.get().now_ns(), &mut running.devices);
    }
    new.devices.take_sockets(&mut running.devices);
    new.router.take_state(&mut running.router);
    *running = new;
}

/// Waits for descriptors and reports ready ones to elements. Returns whether any was ready.
fn look(
    running: &mut Running,
    signals: &mut Signals,
    timeout: Option<Duration>,
) -> std::io::Result<bool> {
    let mut wait = vec![PollFd::new(signals.wake.as_fd(), PollFlags::POLLIN)];
    wait.extend(running.devices.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    let own = wait.len();
    wait.extend(running.router.watched().iter().map(|watched| {
        let events = match watched.interest {
            Interest::Read => PollFlags::POLLIN,
            Interest::Write => PollFlags::POLLOUT,
        };
        PollFd::new(watched.as_fd(), events)
    }));
    match ppoll(&mut wait, timeout.map(TimeSpec::from_duration), None) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |poll: &PollFd<'_>| poll.any() == Some(true);
    let woken = wait.first().is_some_and(ready);
    let frames = wait.iter().take(own).skip(1).any(ready);
    let watched = running.router.watched().iter().zip(wait.iter().skip(own));
    let found: Vec<(usize, u32, Interest)> = watched
        .filter(|(_, poll)| ready(poll))
        .map(|(watched, _)| (watched.element, watched.token, watched.interest))
        .collect();
    if woken {
        let _ = signals.wake.read(&mut [0; 64]);
    }
    for (element, token, interest) in &found {
        running.router.descriptor_ready(*element, *token, *interest, &mut running.devices);
    }
    Ok(woken || frames || !found.is_empty())
}
