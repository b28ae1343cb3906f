//! Filters: what the switch is told of rules, interfaces and ways, and what it has counted.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use europa_api::filters::Rule;
use europa_api::rest::{FilterChanged, FilterList, FilterStatus, ProblemDetails};
use europa_channel::{Channel, pair};
use europa_pool::Mapping;
use europa_switch::orders::{FilteredBy, Order, Way};
use europa_switch::{Batch, FilterAnswer, FilterOrder};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::Node;
use crate::filters::{Filters, FiltersRecord, Origin, Told, WayTo, count};
use crate::plan::{InterfacePlan, To};
use crate::router::Router;
use crate::switch::Switch;
use crate::{Doing, NodeError};

/// What numbers are kept as.
const RECORD: &str = "filters";

/// A connection to the thread of the switch that changes rules.
type Orders = Channel<FilterOrder, FilterAnswer>;

/// Rules, and who is told of them.
#[derive(Default)]
pub(super) struct Filtering {
    filters: Filters,
    /// Documents whose rules are in force.
    documents: Vec<europa_api::Filters>,
    orders: Option<Orders>,
}

/// Changes of the rules with numbers, as asked for.
pub(crate) struct OwnChanges {
    pub(crate) slice: String,
    /// Remove all that there are.
    pub(crate) replace: bool,
    pub(crate) removed: Vec<u32>,
    /// Rules, with numbers or to get one.
    pub(crate) added: Vec<(Option<u32>, Rule)>,
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
    match orders.receive().map_err(failed)?.0 {
        FilterAnswer::Done(count) => Ok(count),
        FilterAnswer::Refused(why) => {
            Err(NodeError::Refused(format!("the switch refuses filters: {why}")))
        }
    }
}

impl Filtering {
    /// Whose rules hold for what an interface of a router sends.
    fn by(&self, router: &Router, interface: &InterfacePlan) -> Option<FilteredBy> {
        let (slice, name) = router.plan.name.split_once('/')?;
        let (slice, number) = self.filters.of(slice, name, &interface.name)?;
        let linux = router.number_of(&format!("{}@host", interface.name));
        Some(FilteredBy { slice, interface: number, linux })
    }

    /// Has a switch hear of a change; none runs: it hears of everything when it starts.
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
            // It has ended, and another one will be told.
            self.orders = None;
            return Ok(());
        }
        told.map(drop)
    }
}

impl Node {
    /// Whose rules hold for what an interface sends.
    pub(super) fn filtered_by(
        &self,
        router: &Router,
        interface: &InterfacePlan,
    ) -> Option<FilteredBy> {
        self.filtering.by(router, interface)
    }

    /// Finds the rules again that were kept; and, if another node has `left` something, the
    /// numbers that it had given.
    pub(super) fn restore_filters(&mut self, left: bool) -> Result<(), NodeError> {
        if left {
            let records = self.kept.records::<FiltersRecord>(RECORD);
            let record = records.into_iter().find_map(|found| found.record).unwrap_or_default();
            self.filtering.filters = Filters::with(record);
        }
        for (slice, rules) in self.store.filters()? {
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
        let documents = self.desired.documents.clone();
        self.change_filters(&documents)
    }

    /// Whether the rules of documents are not in force.
    pub(super) fn filters_differ(&self, documents: &europa_api::Documents) -> bool {
        self.filtering.documents != documents.filters
            || self.filtering.filters.slices().any(|(name, filters)| {
                !filters.is_empty() && !documents.slices.iter().any(|s| **s.name == *name)
            })
    }

    /// Whether the rules of documents fit.
    pub(super) fn check_filters(&self, documents: &europa_api::Documents) -> Result<(), NodeError> {
        self.filtering.filters.check(documents)
    }

    /// Puts the rules of documents in force.
    pub(super) fn change_filters(
        &mut self,
        documents: &europa_api::Documents,
    ) -> Result<(), NodeError> {
        for slice in self.filtering.filters.names(documents) {
            let told = self.filtering.filters.set_documents(&slice, documents);
            if let Some(told) = told? {
                self.tell_filters(&slice, &told)?;
            }
            if !documents.slices.iter().any(|other| **other.name == *slice) {
                self.store.forget_filters(&slice)?;
            }
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
        done
    }

    fn tell_change(
        &mut self,
        switch: Option<&mut Switch>,
        slice: &str,
        told: &Told,
    ) -> Result<(), NodeError> {
        if told.renamed {
            // Before anybody uses a number: the next node must know it.
            self.kept.note(RECORD, None, self.filtering.filters.record())?;
        }
        let Some(switch) = switch else { return Ok(()) };
        if self.filtering.orders.is_none() {
            self.tell_all_filters(switch)?;
            return self.tell_filtered(switch, None);
        }
        if told.renamed {
            self.tell_ways(switch)?;
        }
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

    /// Has a switch hear of all rules, if there are some. Of interfaces it hears apart.
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

    /// Tells whose rules hold for what the interfaces send, of a slice or of all.
    pub(super) fn tell_filtered(
        &self,
        switch: &mut Switch,
        slice: Option<&str>,
    ) -> Result<(), NodeError> {
        for router in &self.routers {
            let of = router.plan.name.split_once('/').map(|(slice, _)| slice);
            if slice.is_some() && of != slice {
                continue;
            }
            for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
                // One that leads nowhere yet is told with the rest of it.
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
        for (number, way) in self.filtering.filters.ways() {
            let way = self.way(way);
            switch.order(&Order::Way { number, way }, &[])?;
        }
        Ok(())
    }

    /// Tells of the ways that lead to an interface, which has come.
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
        for (number, way) in ways.filter(|(_, way)| leads(way)) {
            switch.order(&Order::Way { number, way: self.way(way) }, &[])?;
        }
        Ok(())
    }

    fn way(&self, to: &WayTo) -> Option<Way> {
        let router = self.routers.iter().find(|router| router.plan.name == to.router)?;
        let interface = router.plan.interfaces.iter().find(|one| one.name == to.interface)?;
        let interface_number = router.number_of(&to.interface)?;
        // On a port, an interface sends from its own Ethernet address only.
        let own_source = !to.mirror || matches!(interface.to, To::Port(_));
        Some(Way { interface: interface_number, destination: to.destination, own_source })
    }

    /// Makes and removes rules that have numbers.
    pub(crate) fn change_own_filters(
        &mut self,
        changes: OwnChanges,
    ) -> Result<FilterChanged, ProblemDetails> {
        let OwnChanges { slice, replace, mut removed, added } = changes;
        let documents = &self.desired.documents;
        self.known_slice(&slice)?;
        let filters = &self.filtering.filters;
        // A change costs what it changes, however many rules stand beside it.
        let there = |number: u32| filters.own_rule(&slice, number);
        if replace {
            removed = filters.own(&slice).map(|(number, _)| number).collect();
        }
        removed.sort_unstable();
        removed.dedup();
        if let Some(missing) = removed.iter().find(|number| there(**number).is_none()) {
            return Err(ProblemDetails::not_found(format!(
                "slice {slice} has no filter {missing}; `europa filter list {slice}` shows them"
            )));
        }
        let mut next = match replace {
            true => 1,
            false => filters.own_highest(&slice).map_or(1, |most| most.saturating_add(1)),
        };
        let mut numbered = Vec::with_capacity(added.len());
        let mut come = HashSet::with_capacity(added.len());
        let leave: HashSet<u32> = removed.iter().copied().collect();
        let stays = |number| there(number).is_some() && !leave.contains(&number);
        for (number, rule) in added {
            for named in rule.interfaces() {
                if let Err((what, help)) = documents.interface_of(&slice, named) {
                    let help = help.map_or(String::new(), |help| format!("; {help}"));
                    return Err(ProblemDetails::configuration(what + &help));
                }
            }
            let queue = rule.action.queue.unwrap_or(0);
            documents
                .queue_of(&slice, queue)
                .map_err(|(what, help)| ProblemDetails::configuration(format!("{what}; {help}")))?;
            let number = number.unwrap_or(next);
            if stays(number) || !come.insert(number) {
                return Err(ProblemDetails::conflict(format!(
                    "slice {slice} has a filter {number} already; remove it in the same request"
                )));
            }
            next = next.max(number.saturating_add(1));
            numbered.push((number, rule));
        }
        let gone = removed.iter().filter_map(|number| there(*number));
        let gone = gone.map(|one| one.entries.len()).sum();
        let rules = numbered.iter().map(|(_, rule)| rule);
        let fits = filters.fit(&slice, documents, gone, rules);
        fits.map_err(|error| ProblemDetails::configuration(error.to_string()))?;
        let mut put = Vec::with_capacity(numbered.len());
        for (number, rule) in &numbered {
            let text = serde_json::to_string(rule);
            put.push((*number, text.map_err(|error| ProblemDetails::failed(error.to_string()))?));
        }
        let changed = FilterChanged {
            added: numbered.iter().map(|(number, _)| *number).collect(),
            removed: removed.len() as u64,
        };
        let kept = self.store.change_filters(&slice, &put, &removed);
        kept.map_err(|error| ProblemDetails::failed(error.to_string()))?;
        let told = self.filtering.filters.change_own(&slice, &removed, numbered);
        let told = told.map_err(|error| ProblemDetails::configuration(error.to_string()))?;
        let done = self.tell_filters(&slice, &told);
        done.map_err(|error| ProblemDetails::failed(error.to_string()))?;
        Ok(changed)
    }

    fn known_slice(&self, slice: &str) -> Result<(), ProblemDetails> {
        let all = &self.desired.documents.slices;
        if all.iter().any(|other| **other.name == *slice) {
            return Ok(());
        }
        let names: Vec<&str> = all.iter().map(|slice| -> &str { &slice.name }).collect();
        let known = match names.as_slice() {
            [] => "there is none at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        Err(ProblemDetails::not_found(format!("there is no slice {slice}; {known}")))
    }

    /// A slice's rules, and how often each has counted.
    pub(crate) fn filter_list(&mut self, slice: &str) -> Result<FilterList, ProblemDetails> {
        self.known_slice(slice)?;
        let limit = self.filtering.filters.limit(slice, &self.desired.documents) as u64;
        let hits = self.hits(slice).map_err(|error| ProblemDetails::failed(error.to_string()))?;
        let Some(filters) = self.filtering.filters.slice(slice) else {
            return Ok(FilterList { limit, ..FilterList::default() });
        };
        let list = filters.iter().map(|installed| {
            let (document, number) = match &installed.origin {
                Origin::Document(name) => (Some(name.clone()), None),
                Origin::Own(number) => (None, Some(*number)),
            };
            let all = installed.entries.iter().filter_map(|entry| hits.get(entry));
            let (packets, bytes) = all.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
            let entries = count(&installed.rule) as u64;
            FilterStatus { document, number, rule: installed.rule.clone(), entries, packets, bytes }
        });
        Ok(FilterList { filters: list.collect(), entries: filters.used() as u64, limit })
    }

    /// Packets and bytes by entry.
    fn hits(&mut self, slice: &str) -> Result<HashMap<u32, (u64, u64)>, NodeError> {
        let Filtering { filters, orders, .. } = &mut self.filtering;
        let (Some(filters), Some(orders)) = (filters.slice(slice), orders) else {
            return Ok(HashMap::new());
        };
        let room = filters.used();
        if room == 0 {
            return Ok(HashMap::new());
        }
        let file = memory(&vec![0; room * 24])?;
        let order = FilterOrder::Hits { slice: filters.number(), room: room as u32 };
        let count = ask(orders, order, Some(&file))? as usize;
        let memory = Mapping::new(&file, room * 24).doing("reading counters of filters")?;
        let words = memory.words(0, count.min(room) * 3).unwrap_or_default();
        let row = |row: &[std::sync::atomic::AtomicU64]| {
            let word = |at: usize| row.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
            (word(0) as u32, (word(1), word(2)))
        };
        Ok(words.chunks_exact(3).map(row).collect())
    }
}
