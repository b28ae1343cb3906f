//! Programs of routers with `run: kernel`: loaded beside the loop, then entered.

mod fib;
mod follow;
mod load;
mod maps;
mod shape;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use europa_cage::Problems;
use europa_channel::{Channel, pair};
use europa_plan::CagePlan;
use europa_router::orders::{Answer, Order};
use europa_substrate::Substrate;

use self::fib::Filler;
pub(crate) use self::fib::Tables;
pub use self::load::try_in_kernel;
use self::load::{Loaded, Means, prepare};
use crate::{Doing, NodeError};

/// Longest run of a receive program.
const AT_WORK: Duration = Duration::from_secs(1);

/// Programs that run, and programs that are about to.
#[derive(Default)]
pub(crate) struct Cages {
    /// By router: the program, and its interfaces.
    in_force: HashMap<String, (Loaded, Vec<u32>)>,
    ready: HashMap<String, Loaded>,
    failed: HashMap<String, (CagePlan, String)>,
    under_way: HashMap<String, CagePlan>,
    judged: bool,
    /// By router: the mirror that fills its tables of routes, and its namespace.
    fillers: HashMap<String, Follower>,
    /// Replaced programs, and when: receive programs may still run them, and their stages exist
    /// only while there is a descriptor.
    left: Vec<(Loaded, Instant)>,
}

/// A thread that fills tables from a mirror.
struct Follower {
    tables: Arc<Tables>,
    namespace: u64,
    stop: Arc<AtomicBool>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The state of a router's program.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It is loaded.
    Loaded,
    /// A thread loads it, or an older version.
    UnderWay,
    /// It cannot be loaded, with the reason.
    Failed(String),
    /// There is no program.
    None,
}

impl Cages {
    /// The state of a router's program.
    fn state(&self, router: &str, plan: &CagePlan) -> State {
        let is = |loaded: &Loaded| loaded.plan == *plan;
        if self.in_force.get(router).is_some_and(|(loaded, _)| is(loaded))
            || self.ready.get(router).is_some_and(is)
        {
            return State::Loaded;
        }
        if self.under_way.contains_key(router) {
            return State::UnderWay;
        }
        match self.failed.get(router).filter(|(failed, _)| failed == plan) {
            Some((_, why)) => State::Failed(why.clone()),
            None => State::None,
        }
    }

    /// A thread has come to its end.
    fn done(&mut self, router: &str, outcome: Result<Loaded, Problems>) {
        let plan = self.under_way.remove(router);
        match (outcome, plan) {
            (Ok(loaded), _) => drop(self.ready.insert(router.to_owned(), loaded)),
            (Err(problems), Some(plan)) => {
                let why = format!("{}: {problems}", plan.file);
                self.failed.insert(router.to_owned(), (plan, why));
            }
            (Err(_), None) => {}
        }
    }

    /// Has a router's program stand for its interfaces; whether something was done.
    fn enter(
        &mut self,
        substrate: &Substrate,
        router: &str,
        plan: &CagePlan,
        interfaces: &[u32],
    ) -> Result<bool, NodeError> {
        if let Some((loaded, entered)) = self.in_force.get(router)
            && loaded.plan == *plan
            && entered == interfaces
        {
            return Ok(false);
        }
        let new = self.ready.get(router).is_some_and(|loaded| loaded.plan == *plan);
        let loaded = match new {
            true => self.ready.remove(router),
            false => self.in_force.remove(router).map(|(loaded, _)| loaded),
        };
        let Some(mut loaded) = loaded else { return Ok(false) };
        if let Some(judge) = loaded.judge.take().filter(|_| !self.judged) {
            substrate.seat_judge(&judge)?;
            self.judged = true;
        }
        Substrate::set_targets(&loaded.targets, interfaces)?;
        for (interface, program) in interfaces.iter().zip(&loaded.programs) {
            substrate.set_cage(*interface, program.as_fd())?;
        }
        self.in_force.insert(router.to_owned(), (loaded, interfaces.to_vec()));
        Ok(true)
    }

    /// Tables of routes of the router's program, if it asks for routes.
    fn tables(&self, router: &str) -> Option<Arc<Tables>> {
        self.running(router)?.tables.clone()
    }

    /// The receiving end of a mirror that fills a router's tables from Linux in the namespace of
    /// this inode; `None` if there is one already, or the program reads no routes.
    pub(crate) fn fill(
        &mut self,
        router: &str,
        namespace: u64,
    ) -> Result<Option<Channel<Order, Answer>>, NodeError> {
        let Some(running) = self.running(router) else { return Ok(None) };
        let Some(tables) = running.tables.clone() else { return Ok(None) };
        let interfaces = running.plan.interfaces;
        let is_filled = self.fillers.get(router).is_some_and(|follower| {
            Arc::ptr_eq(&follower.tables, &tables) && follower.namespace == namespace
        });
        if is_filled {
            return Ok(None);
        }
        let failed = |error| NodeError::Channel { who: format!("routes of {router}"), error };
        let (feed, theirs) = pair().map_err(failed)?;
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        let filler = Filler::new(Arc::clone(&tables), interfaces);
        let run = move || filler.run(Channel::new(theirs), &stopped);
        let thread = thread::Builder::new().name("routes".into());
        thread.spawn(run).doing(format!("following the routes of {router}"))?;
        self.fillers.insert(router.to_owned(), Follower { tables, namespace, stop });
        Ok(Some(feed))
    }

    /// The program of a router that runs.
    pub(crate) fn running(&self, router: &str) -> Option<&Loaded> {
        self.in_force.get(router).map(|(loaded, _)| loaded)
    }

    /// Forgets programs of routers that are not there any more.
    fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone = self.in_force.extract_if(|router, _| !is_there(router));
        let now = Instant::now();
        self.left.extend(gone.map(|(_, (loaded, _))| (loaded, now)));
        self.left.retain(|(_, since)| since.elapsed() < AT_WORK);
        self.fillers.retain(|router, _| is_there(router));
    }
}
