//! End systems: namespaces that Europa makes, and others that it attaches.
//!
//! A host's interface is one end of a veth pair. The other ends are in one namespace of the node,
//! `europa.INSTANCE`, away from other programs; each is a port. Hosts that Europa makes are
//! namespaces `europa.INSTANCE.HOST`. Names contain the owner, so the next node finds everything
//! after a kill; only moved devices are recorded.
//!
//! | file        | concern                                          |
//! |-------------|--------------------------------------------------|
//! | `record`    | where hosts are, and what is written down        |
//! | `place`     | the namespace that a document means              |
//! | `container` | Docker's answer to where a container is          |
//! | `make`      | hosts that come, and their interfaces            |
//! | `configure` | addresses, parameters and routes                 |
//! | `run`       | a host's commands                                |
//! | `change`    | commands that change, and those that have ended  |
//! | `survey`    | the actual state of hosts                        |
//! | `drift`     | changes by other programs                        |
//! | `adopt`     | takes over the hosts of a killed node            |
//! | `remove`    | hosts that go, also those of a killed node       |
//! | `show`      | descriptions of hosts                            |

mod adopt;
mod change;
mod configure;
mod container;
mod drift;
mod make;
mod place;
mod record;
mod remove;
mod run;
mod show;
mod survey;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use europa_api::Host;
use europa_api::stats::HostStats;
use europa_control::Stop;

use self::change::Making;
use self::drift::DriftThread;
pub(crate) use self::drift::Made;
pub use self::record::group;
pub(crate) use self::record::outside;
pub(crate) use self::remove::remove;
use self::run::Commands;
pub use self::run::note_code;
pub(crate) use self::show::exist;
pub use self::show::{inside_of, namespace_of};
pub(crate) use self::survey::{HostDrift, look};
use crate::beside::{Purpose, Work};
use crate::change::Change;
use crate::context::Context;
use crate::{Doing, Instance, NodeError};

/// The record of all hosts.
const HOSTS: &str = "hosts";

/// The hosts of a node. Threads work on their namespaces: each costs the kernel milliseconds.
pub(crate) struct Hosts {
    /// Their description.
    stats: Vec<HostStats>,
    /// The documents of the present hosts, as far as they are made.
    made: Arc<Vec<Host>>,
    /// Shells that run hosts' commands, by host.
    running: Vec<(String, Commands)>,
    /// Hosts whose commands have failed, and how.
    failed: HashMap<String, String>,
    /// Hosts that do not stay are taken away: those whose programs have ended.
    trimming: Work<Vec<String>>,
    /// Hosts are made, and their commands started.
    making: Work<Making>,
    drift: DriftThread,
}

impl Hosts {
    /// None yet.
    pub(crate) fn start(context: &Context) -> Result<Self, NodeError> {
        Ok(Self {
            stats: Vec::new(),
            made: Arc::default(),
            running: Vec::new(),
            failed: HashMap::new(),
            trimming: Work::default(),
            making: Work::default(),
            drift: DriftThread::start(context.instance.clone(), context.control.clone())?,
        })
    }

    /// Hosts as documents describe them, for the comparison with the actual ones.
    pub(crate) fn made(&self) -> &Arc<Vec<Host>> {
        &self.made
    }

    /// Whether a thread works on hosts.
    pub(crate) fn is_under_way(&self) -> bool {
        self.trimming.is_under_way() || self.making.is_under_way()
    }

    /// Waits until no thread works any more.
    pub(crate) fn wait(&mut self) {
        self.trimming.wait();
        self.making.wait();
    }

    /// Work on the hosts that are made.
    fn work<T, U: FnOnce(&Instance, &mut Vec<Host>, &[Host]) -> Result<T, NodeError>>(
        &self,
        context: &Context,
        purpose: &Purpose,
        work: U,
    ) -> impl FnOnce() -> Result<T, NodeError> + use<T, U> {
        let (instance, documents) = (context.instance.clone(), purpose.documents().clone());
        let (before, control) = (self.made.clone(), context.control.clone());
        move || {
            let mut made = before.to_vec();
            let result = work(&instance, &mut made, &documents.hosts);
            // True also when it has failed half-way; it comes before the result.
            control.tell(move |node| node.hosts.have(&node.change, made));
            result
        }
    }

    /// These hosts are made.
    fn have(&mut self, change: &Change, made: Vec<Host>) {
        change.free(std::mem::replace(&mut self.made, Arc::new(made)));
    }

    /// Takes away the hosts, their interfaces and commands that do not stay.
    pub(crate) fn trim(&mut self, context: &Context, purpose: Purpose) -> Result<(), Stop> {
        let Some(ended) = self.trimming.result(&purpose, drop)? else {
            context.kept.forget(HOSTS);
            let work = self.work(context, &purpose, remove::trim);
            return Err(self.trimming.begin(
                context,
                purpose,
                |node| &mut node.hosts.trimming,
                work,
            ));
        };
        let gone = |name: &String| ended.contains(name);
        for (_, mut shell) in self.running.extract_if(.., |(name, _)| gone(name)) {
            shell.wait().doing("waiting for a host's commands")?;
        }
        self.failed.retain(|name, _| !gone(name));
        let made: HashSet<&str> = self.made.iter().map(|host| &**host.name).collect();
        self.stats.retain(|host| made.contains(&*host.name));
        Ok(())
    }

    /// Makes the missing hosts, and starts their commands.
    pub(crate) fn make(
        &mut self,
        context: &Context,
        change: &Change,
        purpose: Purpose,
    ) -> Result<(), Stop> {
        // Commands that were started for a change that has failed are still to be waited for.
        let running = &mut self.running;
        let unused = |unused: Making| running.extend(unused.started);
        let Some(making) = self.making.result(&purpose, unused)? else {
            let there = self.stats.iter().map(|host| host.name.clone()).collect();
            let (kept, events) = (context.kept.clone(), context.events.clone());
            let make = move |instance: &Instance, made: &mut Vec<Host>, wanted: &[Host]| {
                Making::make(instance, &kept, &events, &there, made, wanted)
            };
            let work = self.work(context, &purpose, make);
            return Err(self.making.begin(context, purpose, |node| &mut node.hosts.making, work));
        };
        let Making { stats, hosts, started, failed } = making;
        self.running.extend(started);
        change.free(std::mem::replace(&mut self.stats, stats));
        match failed {
            Some(error) => Err(error.into()),
            None => {
                self.have(change, hosts);
                Ok(())
            }
        }
    }

    /// Looks for changes by other programs, if it is time and nothing is being changed.
    pub(crate) fn look(&mut self, of_slow_paths: impl FnOnce(Arc<Vec<Host>>) -> Made) {
        if !self.is_under_way() {
            let made = self.made.clone();
            self.drift.look(|| of_slow_paths(made));
        }
    }

    /// Takes all away. Their processes have been ended, or are now.
    pub(crate) fn take_down(&mut self, context: &Context) -> Result<(), NodeError> {
        self.forget();
        remove(&context.instance)?;
        for (_, mut shell) in self.running.drain(..) {
            shell.wait().doing("waiting for a host's commands")?;
        }
        Ok(())
    }

    /// Forgets them.
    pub(crate) fn forget(&mut self) {
        self.stats.clear();
        self.made = Arc::default();
        self.failed.clear();
    }
}
