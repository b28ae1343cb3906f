//! The routers: made, changed, restarted, adopted and removed.
//!
//! | file        | concern                                                      |
//! |-------------|--------------------------------------------------------------|
//! | `router`    | one router: pool, process, back-off                          |
//! | `process`   | its process: orders, answers, and its record                 |
//! | `around`    | the other parts, as far as work on routers needs them        |
//! | `make`      | a router that comes                                          |
//! | `change`    | another fast path, other ends of links                       |
//! | `restart`   | a new process takes over from the old one                    |
//! | `revive`    | processes that have ended: noted, and started again          |
//! | `hear`      | answers of routers                                           |
//! | `follow`    | next hops of tunnels, neighbours on a line                   |
//! | `placement` | keeps routers off CPUs that receive much                     |
//! | `adopt`     | takes over the routers of a killed node                      |
//! | `remove`    | a router that goes                                           |
//! | `show`      | states and counters                                          |
//!
//! Other parts read routers, and cannot change them: they get shared references only.

mod adopt;
mod around;
mod change;
mod follow;
mod hear;
mod make;
mod placement;
mod process;
mod remove;
mod restart;
mod revive;
mod router;
mod show;

use std::collections::HashSet;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use europa_plan::InterfacePlan;
use europa_sandbox::Child;

pub(crate) use self::around::Around;
pub(crate) use self::change::DRAIN;
use self::placement::Placement;
pub(crate) use self::placement::watch as watch_receivers;
pub(crate) use self::process::{Asked, Process};
pub(crate) use self::router::{ANOTHER_VERSION, Router};

/// See the file.
#[derive(Default)]
pub(crate) struct Routers {
    all: Vec<Router>,
    placement: Placement,
}

impl Deref for Routers {
    type Target = [Router];

    fn deref(&self) -> &[Router] {
        &self.all
    }
}

impl Routers {
    /// The place of a router.
    fn place_of(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|router| router.plan.name == name)
    }

    /// The process of a router, for orders to it.
    pub(crate) fn process_of(&mut self, name: &str) -> Option<&mut Process> {
        let router = self.all.iter_mut().find(|router| router.plan.name == name)?;
        router.process.as_mut()
    }

    /// Descriptors of all processes: readable when one says something, and when one ends.
    pub(crate) fn fds(&self) -> impl Iterator<Item = (Option<BorrowedFd<'_>>, BorrowedFd<'_>)> {
        let processes = self.all.iter().flat_map(Router::processes);
        processes.map(|process| (process.body.fd(), process.as_fd()))
    }

    /// Which of the processes may have said something, in the order of [`Self::fds`]. Asking a
    /// thousand routers without an answer would cost a system call each.
    pub(crate) fn note_said(&self, said: impl Iterator<Item = bool>) {
        let processes = self.all.iter().flat_map(Router::processes);
        processes.zip(said).for_each(|(process, said)| process.says.set(said));
    }

    /// The time of the next start, or at which an answer is too late.
    pub(crate) fn due(&self) -> Option<Instant> {
        let starts = self.all.iter().filter(|router| !router.wants_pool);
        let starts = starts.filter_map(|router| router.due);
        let processes = self.all.iter().flat_map(Router::processes);
        starts.chain(processes.filter_map(Process::next_due)).min()
    }

    /// Routers that have been started and are not ready yet.
    pub(crate) fn starting(&self) -> usize {
        let processes = self.all.iter().filter_map(|router| router.process.as_ref());
        processes.filter(|process| !process.ready).count()
    }

    /// The smallest number that no router has.
    pub(crate) fn free_number(&self) -> u32 {
        free_number(self.all.iter().map(|router| router.number))
    }

    /// Lets them go. Returns their processes, which are still to be waited for.
    pub(crate) fn take_down(&mut self) -> Vec<Child> {
        let processes = self.all.drain(..).flat_map(|router| {
            let successor = router.successor.map(|successor| successor.process);
            router.process.into_iter().chain(successor)
        });
        processes.filter_map(|process| process.body.into_child()).collect()
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}

/// The interface that has a port of a link, and its number.
fn interface_on<'a>(routers: &'a mut [Router], port: &str) -> Option<(&'a mut InterfacePlan, u32)> {
    routers.iter_mut().find_map(|router| {
        let mut all = router.plan.interfaces.iter_mut().zip(&router.interfaces);
        let found = all.find(|(planned, _)| planned.to.is_port(port));
        found.map(|(planned, id)| (planned, *id))
    })
}

/// The smallest number that is not taken.
fn free_number(taken: impl Iterator<Item = u32>) -> u32 {
    let taken: HashSet<u32> = taken.collect();
    (0..).find(|number| !taken.contains(number)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_number_is_given() {
        for (taken, free) in [(&[][..], 0), (&[0, 1, 2], 3), (&[1, 2], 0), (&[3, 0, 1, 5], 2)] {
            assert_eq!(free_number(taken.iter().copied()), free, "{taken:?}");
        }
    }
}
