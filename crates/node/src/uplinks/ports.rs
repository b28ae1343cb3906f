//! Ports of the machine lead to slow paths: after changes of documents, requests, and binds.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use europa_api::Documents;
use europa_port::Namespace;
use europa_substrate::Binds;

use super::table::{self, Found};
use super::{Uplink, Uplinks, inside_name, nft, table_name};
use crate::context::Context;
use crate::machine_ports::{Inside, MachinePorts};
use crate::{Doing, Instance, NodeError};

/// How often sockets are looked at; with a hook, how often its changes are read at least.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Uplinks {
    /// The ports of the machine that lead to slow paths.
    pub(crate) fn ports(&self) -> &MachinePorts {
        &self.ports
    }

    /// Has ports of the machine be as documents say that changed no slow path. A thread does it.
    pub(crate) fn follow_ports(&self, context: &Context, documents: &Arc<Documents>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.as_ref().is_some_and(|known| Arc::ptr_eq(known, documents)) {
            return;
        }
        *followed = Some(documents.clone());
        drop(followed);
        let has = documents.slices.iter().filter_map(|slice| slice.reservation.as_ref());
        let wanted = has.map(|one| one.machine_ports.len()).sum::<usize>() > 0;
        if !wanted && !self.ports.is_in_use() {
            return;
        }
        let (uplinks, documents) = (self.clone(), documents.clone());
        let (instance, events) = (context.instance.clone(), context.events.clone());
        let work = move || {
            if let Err(error) = uplinks.converge_ports(&instance, &documents) {
                events.warn("node", "", "Failed", format!("ports of the machine: {error}"));
            }
        };
        let thread = std::thread::Builder::new().name("machine-ports".into()).spawn(work);
        if let Err(error) = thread {
            context.events.warn("node", "", "Failed", format!("ports of the machine: {error}"));
        }
    }

    /// Has the ports of the machine that documents say, with the present uplinks.
    fn converge_ports(&self, instance: &Instance, documents: &Documents) -> Result<(), NodeError> {
        let table_lock = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = self.lock().clone();
        let mut insides = BTreeMap::new();
        for (name, one) in &whole.uplinks {
            let namespace = Namespace::named(&inside_name(instance, name));
            let namespace = namespace.doing(format!("the uplink of {name}"))?;
            insides.insert(name.clone(), inside(one, namespace, &whole.slices));
        }
        self.ports.converge(documents, insides)?;
        self.write_table(instance)?;
        drop(table_lock);
        self.follow_binds(instance)
    }

    /// Writes the table for the present uplinks and ports. The caller has the lock of the table.
    fn write_table(&self, instance: &Instance) -> Result<(), NodeError> {
        let whole = self.lock().clone();
        if whole.uplinks.is_empty() {
            return Ok(());
        }
        let table = table_name(instance);
        let found = nft::list(&table)?.map(|text| Found::parse(&text)).unwrap_or_default();
        let uplinks: Vec<Uplink> = whole.uplinks.into_values().collect();
        let forwards = self.ports.forwards();
        nft::run(&table::script(&table, &uplinks, &whole.slices, &forwards, &found))
    }

    /// Makes the rules for a place that a request has changed.
    pub(crate) fn lead_ports(&self, instance: &Instance) -> Result<(), NodeError> {
        let _lock = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_table(instance)
    }

    /// Starts the thread that follows what programs of slow paths bind, unless it runs.
    pub(super) fn follow_binds(&self, instance: &Instance) -> Result<(), NodeError> {
        if !self.ports.is_in_use() || self.is_followed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let (uplinks, instance) = (self.clone(), instance.clone());
        let work = move || {
            let notice = || {
                uplinks.notice(&instance);
                uplinks.ports.is_in_use()
            };
            match uplinks.ports.hook() {
                Some(pins) => {
                    if let Err(error) = Binds::follow(&pins, LOOK_EVERY, notice) {
                        tracing::warn!("ports of the machine: {error}");
                    }
                }
                None => {
                    while notice() {
                        std::thread::sleep(LOOK_EVERY);
                    }
                }
            }
            uplinks.is_followed.store(false, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("binds".into()).spawn(work);
        thread.map(drop).doing("starting a thread that follows binds")
    }

    /// Leads ports to what programs have bound since the last time.
    fn notice(&self, instance: &Instance) {
        let _lock = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ports.refresh()
            && let Err(error) = self.write_table(instance)
        {
            tracing::warn!("ports of the machine: {error}");
        }
    }
}

/// The slow path of an uplink, for ports of the machine.
pub(super) fn inside(one: &Uplink, namespace: Namespace, slices: &BTreeMap<String, u32>) -> Inside {
    let (first, last) = table::ports(slices.get(&one.slice).copied().unwrap_or_default());
    let number = |port| u16::try_from(port).unwrap_or(u16::MAX);
    Inside { number: one.number, namespace, range: number(first)..=number(last) }
}
