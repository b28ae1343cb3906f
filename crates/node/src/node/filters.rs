//! Filters: the switch's rules, interfaces and ways, and its counters.

mod own;

pub use self::own::OwnChanges;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use europa_api::filters::Rule;
use europa_channel::{Channel, ChannelError, pair};
use europa_plan::{InterfacePlan, SliceId, To};
use europa_switch::orders::{FilteredBy, Order, Way};
use europa_switch::{Batch, FilterAnswer, FilterOrder};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::Node;
use crate::filters::{Filters, FiltersRecord, Told, WayTo};
use crate::router::Router;
use crate::store::NumberedRules;
use crate::switch::{Switch, unless_gone};
use crate::{Doing, NodeError};

/// How long the switch may take for a change of rules.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of the numbers' record.
const RECORD: &str = "filters";

/// A connection to the thread of the switch that changes rules.
type Orders = Channel<FilterOrder, FilterAnswer>;

/// Rules, and their receivers.
#[derive(Default)]
pub(super) struct Filtering {
    filters: Filters,
    /// Documents whose rules are in force.
    documents: Vec<europa_api::Filters>,
    orders: Option<Orders>,
    /// Numbered rules of slices that are about to go: they come back if the change is taken back.
    parked: BTreeMap<String, Vec<(u32, Rule)>>,
}

/// Memory with these bytes, to be handed over.
fn memory(bytes: &[u8]) -> Result<File, NodeError> {
    let file =
        memfd_create(c"filters", MFdFlags::MFD_CLOEXEC).doing("making memory for filters")?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(|error| NodeError::Refused(format!("filters: {error}")))?;
    Ok(file)
}

fn ask(orders: &mut Orders, order: FilterOrder, memory: Option<&File>) -> Result<u32, NodeError> {
    let failed = |error| NodeError::Channel { who: "the switch's filters".into(), error };
    let descriptors: Vec<_> = memory.iter().map(|memory| memory.as_fd()).collect();
    orders.send(&order, &descriptors).map_err(failed)?;
    match orders.receive_within(PATIENCE).map_err(failed)? {
        Some((FilterAnswer::Done(count), _)) => Ok(count),
        Some((FilterAnswer::Refused(why), _)) => {
            Err(NodeError::Refused(format!("the switch refuses filters: {why}")))
        }
        // A late answer would be taken for that to another order.
        None => Err(failed(ChannelError::Closed)),
    }
}

impl Filtering {
    /// Documents whose rules are in force.
    pub(super) fn in_force(&self) -> &[europa_api::Filters] {
        &self.documents
    }

    /// Slices that have numbered rules in force.
    pub(super) fn numbered(&self) -> BTreeSet<SliceId> {
        let all = self.filters.slices().map(|(name, _)| name);
        all.filter(|name| self.filters.own(name).next().is_some()).map(SliceId::new).collect()
    }

    /// Slices whose numbered rules wait for their result.
    pub(super) fn parked(&self) -> BTreeSet<SliceId> {
        self.parked.keys().map(SliceId::new).collect()
    }

    /// The slices have gone for good.
    pub(super) fn forget_parked(&mut self) {
        self.parked.clear();
    }

    fn park(&mut self, slice: &str) {
        let rules: Vec<_> =
            self.filters.own(slice).map(|(number, one)| (number, one.rule.clone())).collect();
        if !rules.is_empty() {
            self.parked.insert(slice.to_owned(), rules);
        }
    }

    /// The slice whose rules hold for an interface's packets.
    fn by(&self, router: &Router, interface: &InterfacePlan) -> Option<FilteredBy> {
        let name = &router.plan.name;
        let (slice, number) = self.filters.of(name.slice(), name.name(), &interface.name)?;
        let linux = router.number_of(&format!("{}@host", interface.name));
        Some(FilteredBy { slice, interface: number, linux })
    }

    /// Sends a change to a switch; without one, the next switch gets all changes at its start.
    fn tell(
        &mut self,
        order: impl Fn(&Batch) -> FilterOrder,
        batch: &Batch,
    ) -> Result<(), NodeError> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        let bytes = batch.bytes();
        let memory = if bytes.is_empty() { None } else { Some(memory(&bytes)?) };
        let told = ask(orders, order(batch), memory.as_ref());
        if matches!(told, Err(NodeError::Channel { .. })) {
            // It has ended, and the next one gets the order.
            self.orders = None;
            return Ok(());
        }
        told.map(drop)
    }
}

impl Node {
    /// The slice whose rules hold for an interface's packets.
    pub(super) fn filtered_by(
        &self,
        router: &Router,
        interface: &InterfacePlan,
    ) -> Option<FilteredBy> {
        self.filtering.by(router, interface)
    }

    /// Finds the rules again that were kept; and, if another node has `left` something, the
    /// numbers that it had given.
    pub(super) fn restore_filters(
        &mut self,
        kept: BTreeMap<String, NumberedRules>,
        left: bool,
    ) -> Result<(), NodeError> {
        if left {
            let records = self.kept.records::<FiltersRecord>(RECORD);
            let record = records.into_iter().find_map(|found| found.record).unwrap_or_default();
            self.filtering.filters = Filters::with(record);
        }
        for (slice, rules) in kept {
            let mut all = Vec::with_capacity(rules.len());
            for (number, text) in rules {
                match serde_json::from_str::<Rule>(&text) {
                    Ok(rule) => all.push((number, rule)),
                    Err(error) => {
                        let message = format!("filter {number} is forgotten: {error}");
                        self.events.warn("slice", &slice, "Forgotten", message);
                    }
                }
            }
            let changed = self.filtering.filters.change_own(&slice, &[], all);
            changed.map_err(|error| NodeError::Refused(error.to_string()))?;
        }
        self.change_filters()
    }

    /// Whether the rules of documents fit.
    pub(super) fn check_filters(&self, documents: &europa_api::Documents) -> Result<(), NodeError> {
        self.filtering.filters.check(documents)
    }

    /// Puts the rules of documents in force.
    pub(super) fn change_filters(&mut self) -> Result<(), NodeError> {
        let documents = self.documents.clone();
        for slice in self.filtering.filters.names(&documents) {
            if !documents.slices.iter().any(|other| **other.name == *slice) {
                self.filtering.park(&slice);
            }
            let told = self.filtering.filters.set_documents(&slice, &documents);
            if let Some(told) = told? {
                self.tell_filters(&slice, &told)?;
            }
        }
        // A slice that has come back, as a change was taken back, has its numbered rules again.
        let there = |slice: &String| documents.slices.iter().any(|other| **other.name == **slice);
        let back: Vec<_> =
            self.filtering.parked.keys().filter(|slice| there(slice)).cloned().collect();
        for slice in back {
            let rules = self.filtering.parked.remove(&slice).unwrap_or_default();
            let told = self.filtering.filters.change_own(&slice, &[], rules);
            let told = told.map_err(|error| NodeError::Refused(error.to_string()))?;
            self.tell_filters(&slice, &told)?;
        }
        self.filtering.documents.clone_from(&documents.filters);
        Ok(())
    }

    /// Has the switch hear of a change.
    fn tell_filters(&mut self, slice: &str, told: &Told) -> Result<(), NodeError> {
        let mut switch = self.switch.take();
        let done = self.tell_change(switch.as_mut(), slice, told);
        self.switch = switch;
        self.filtering.filters.tidy();
        unless_gone(done)
    }

    fn tell_change(
        &mut self,
        switch: Option<&mut Switch>,
        slice: &str,
        told: &Told,
    ) -> Result<(), NodeError> {
        if told.renamed {
            // Before a number is used: the next node must know it.
            self.kept.note(RECORD, None, self.filtering.filters.record())?;
        }
        let Some(switch) = switch else { return Ok(()) };
        if self.filtering.orders.is_none() {
            self.tell_all_filters(switch)?;
            return self.tell_filtered(switch, None);
        }
        let fresh = told.fresh.iter().map(|number| {
            let way = self.filtering.filters.way(*number).and_then(|way| self.way(way));
            Order::Way { number: *number, way }
        });
        switch.order_all(fresh)?;
        if told.renamed && !told.emptied {
            self.tell_filtered(switch, Some(slice))?;
        }
        let number = told.slice;
        let order = |batch: &Batch| FilterOrder::Change { slice: number, counts: batch.counts() };
        self.filtering.tell(order, &told.batch)?;
        if told.emptied {
            self.tell_filtered(switch, Some(slice))?;
        }
        Ok(())
    }

    /// Has a switch hear of all rules, if there are some. Orders for interfaces are separate.
    pub(super) fn tell_all_filters(&mut self, switch: &mut Switch) -> Result<(), NodeError> {
        self.filtering.orders = None;
        let filters = &self.filtering.filters;
        let orphans = filters.orphans();
        if orphans.is_empty() && filters.slices().all(|(_, filters)| filters.is_empty()) {
            return Ok(());
        }
        self.kept.note(RECORD, None, filters.record())?;
        let failed = |error| NodeError::Channel { who: "the switch's filters".into(), error };
        let (orders, theirs) = pair().map_err(failed)?;
        switch.order(&Order::Filters, &[theirs.as_fd()])?;
        self.filtering.orders = Some(orders);
        self.tell_ways(switch)?;
        let all = self.filtering.filters.slices();
        let mut batches: Vec<(u16, Batch)> = all
            .map(|(_, filters)| (filters.number(), self.filtering.filters.batch(filters)))
            .collect();
        batches.extend(orphans.into_iter().map(|number| (number, Batch::default())));
        for (slice, batch) in batches {
            let order = |batch: &Batch| FilterOrder::Replace { slice, counts: batch.counts() };
            self.filtering.tell(order, &batch)?;
        }
        Ok(())
    }

    /// Sends the slice whose rules hold for the interfaces' packets, of a slice or of all.
    pub(super) fn tell_filtered(
        &self,
        switch: &mut Switch,
        slice: Option<&str>,
    ) -> Result<(), NodeError> {
        for router in &self.routers {
            if slice.is_some_and(|slice| router.plan.name.slice() != slice) {
                continue;
            }
            for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
                // One without a target yet is sent with its other settings.
                if self.leads_to(&interface.to).is_some() && router.pool.is_some() {
                    let filtered_by = self.filtered_by(router, interface);
                    let order = Order::Filter { interface: *id, filtered_by };
                    switch.order(&order, &[])?;
                }
            }
        }
        Ok(())
    }

    /// Tells where all ways lead.
    fn tell_ways(&self, switch: &mut Switch) -> Result<(), NodeError> {
        let all = self.filtering.filters.ways();
        switch.order_all(all.map(|(number, way)| Order::Way { number, way: self.way(way) }))
    }

    /// Sends the ways that lead to a new interface.
    pub(super) fn tell_ways_to(
        &self,
        switch: &mut Switch,
        router: &Router,
        interface: &InterfacePlan,
    ) -> Result<(), NodeError> {
        if self.filtering.orders.is_none() {
            return Ok(());
        }
        let ways = self.filtering.filters.ways();
        let leads = |way: &WayTo| way.router == router.plan.name && way.interface == interface.name;
        let ways = ways.filter(|(_, way)| leads(way));
        switch.order_all(ways.map(|(number, way)| Order::Way { number, way: self.way(way) }))
    }

    fn way(&self, to: &WayTo) -> Option<Way> {
        let router = self.routers.iter().find(|router| router.plan.name == to.router)?;
        let interface = router.plan.interfaces.iter().find(|one| one.name == to.interface)?;
        let interface_number = router.number_of(&to.interface)?;
        // On a port, an interface sends from its own Ethernet address only.
        let own_source = !to.mirror || matches!(interface.to, To::Port(_));
        Some(Way { interface: interface_number, destination: to.destination, own_source })
    }
}
