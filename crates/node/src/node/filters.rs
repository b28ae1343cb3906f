//! The loop's part of filters: whose rules apply to an interface, the destinations of ways, and the
//! actor with the rules.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::mpsc::sync_channel;

use europa_api::rest::{FilterChanged, FilterList, ProblemDetails};
use europa_control::Stop;
use europa_plan::{InterfacePlan, To};
use europa_switch::orders::{FilteredBy, Order, Way};

use super::Node;
use super::beside::Work;
use crate::NodeError;
use crate::control::{Control, Reply};
use crate::events::Events;
use crate::filters::{
    FilterActor, Fresh, Index, Orders, OwnChanges, OwnWrite, WAYS_AT_ONCE, WayOrder, ended,
};
use crate::kept::Kept;
use crate::router::Router;
use crate::store::{NumberedRules, Store};
use crate::switch::{Switch, unless_gone};

/// The actor of rules, and the facts about them that the loop needs.
pub(super) struct Filtering {
    pub(super) actor: FilterActor,
    pub(super) index: Index,
    /// Rules of documents take effect.
    work: Work<()>,
}

impl Filtering {
    pub(super) fn start(kept: Kept, control: Control, events: Events) -> Result<Self, NodeError> {
        let actor = FilterActor::start(kept, control, events)?;
        Ok(Self { actor, index: Index::default(), work: Work::default() })
    }

    /// The slice whose rules hold for an interface's packets.
    pub(super) fn by(&self, router: &Router, interface: &InterfacePlan) -> Option<FilteredBy> {
        let name = &router.plan.name;
        let (slice, number) = self.index.of(name.slice(), name.name(), &interface.name)?;
        let linux = router.number_of(&format!("{}@host", interface.name));
        Some(FilteredBy { slice, interface: number, linux })
    }
}

impl Node {
    /// Reads the stored rules; and, if another node has `left` objects, the numbers that it
    /// assigned.
    pub(super) fn restore_filters(
        &mut self,
        kept: BTreeMap<String, NumberedRules>,
        left: bool,
    ) -> Result<(), NodeError> {
        self.filtering.actor.want(&self.documents);
        drop(self.filtering.index.take(self.filtering.actor.restore(kept, left)?));
        Ok(())
    }

    /// The actor has changed rules.
    pub(crate) fn filters_changed(&mut self, fresh: Fresh) {
        let former = self.filtering.index.take(fresh);
        self.plans.free(former);
    }

    /// Puts the rules of documents in force.
    pub(super) fn change_filters(&mut self) -> Result<(), Stop> {
        let purpose = self.purpose("filters");
        match self.filtering.work.result(&purpose, drop)? {
            Some(()) => Ok(()),
            None => {
                let actor = self.filtering.actor.clone();
                let work = move || actor.set_documents();
                Err(self.begin_work(|node| &mut node.filtering.work, purpose, work))
            }
        }
    }

    /// Adds and removes rules with numbers; `reply` is called once they are written down.
    pub(crate) fn change_own_filters(
        &mut self,
        changes: OwnChanges,
        reply: Reply<Result<FilterChanged, ProblemDetails>>,
    ) {
        self.filtering.actor.change(changes, reply);
    }

    /// Stores rules with numbers that are in force.
    pub(crate) fn write_own(
        &mut self,
        write: OwnWrite,
        reply: Reply<Result<FilterChanged, ProblemDetails>>,
    ) {
        let OwnWrite { slice, put, removed, changed, back } = write;
        let write = {
            let slice = slice.clone();
            move |store: &mut dyn Store| store.change_filters(&slice, &put, &removed)
        };
        self.store.write(&self.control, write, move |node, written| {
            let answer = written.map(|()| changed).map_err(|error| {
                node.filtering.actor.take_back(slice, back);
                ProblemDetails::failed(error.to_string())
            });
            // The caller may have gone.
            let _ = reply.send(answer);
        });
    }

    /// A slice's rules, and how often each has counted.
    pub(crate) fn filter_list(
        &self,
        slice: String,
        reply: Reply<Result<FilterList, ProblemDetails>>,
    ) {
        self.filtering.actor.list(slice, reply);
    }

    /// Connects the actor with a switch that runs without rules; `None` if no switch runs.
    pub(crate) fn connect_filters(&mut self) -> Result<Option<Orders>, NodeError> {
        let Some(switch) = &mut self.switch else { return Ok(None) };
        let (orders, theirs) = Orders::new()?;
        let told = switch.order(&Order::Filters, &[theirs.as_fd()]);
        Ok(unless_gone(told.map(|_| true))?.then_some(orders))
    }

    /// Sends all rules, if there are any, to a new switch before any interface, and lets the actor
    /// send its `ways`. `then` runs in the actor's thread. Returns whether it will.
    pub(super) fn load_filters(
        &mut self,
        switch: &mut Switch,
        ways: bool,
        then: impl FnOnce(Result<(), NodeError>) + Send + 'static,
    ) -> Result<bool, NodeError> {
        if !self.filtering.index.has_rules() {
            return Ok(false);
        }
        let (orders, theirs) = Orders::new()?;
        switch.order(&Order::Filters, &[theirs.as_fd()])?;
        self.filtering.actor.load(orders, ways, then);
        Ok(true)
    }

    /// The same for an adopted switch, and waits for the end.
    pub(super) fn load_filters_now(&mut self, switch: &mut Switch) -> Result<(), NodeError> {
        let (done, outcome) = sync_channel(1);
        let then = move |loaded| drop(done.send(loaded));
        if !self.load_filters(switch, false, then)? {
            return Ok(());
        }
        let ways = self.filtering.index.ways();
        switch.order_all(ways.map(|(number, way)| self.way(*number, way)))?;
        outcome.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Sends ways to the switch, even while it gets its rules.
    pub(crate) fn tell_ways(&mut self, ways: &[WayOrder]) -> Result<(), NodeError> {
        let orders: Vec<Order> = ways.iter().map(|(number, way)| self.way(*number, way)).collect();
        let begun = self.switch_begun.as_mut().map(|begun| &mut begun.switch);
        let Some(switch) = self.switch.as_mut().or(begun) else { return Ok(()) };
        unless_gone(switch.order_all(orders.into_iter()))
    }

    /// Informs the switch whose rules apply to the interfaces of a slice, or of all.
    pub(crate) fn name_filtered(&mut self, slice: Option<&str>) -> Result<(), NodeError> {
        let Some(mut switch) = self.switch.take() else { return Ok(()) };
        let told = self.tell_filtered(&mut switch, slice);
        self.switch = Some(switch);
        unless_gone(told)
    }

    /// Sends the slice whose rules hold for the interfaces' packets, of a slice or of all.
    pub(super) fn tell_filtered(
        &self,
        switch: &mut Switch,
        slice: Option<&str>,
    ) -> Result<(), NodeError> {
        let routers = self.routers.iter().filter(|router| {
            router.pool.is_some() && slice.is_none_or(|slice| router.plan.name.slice() == slice)
        });
        let orders = routers.flat_map(|router| {
            let interfaces = router.plan.interfaces.iter().zip(&router.interfaces);
            // A way without a target yet is sent together with its other settings.
            let led = interfaces.filter(|(interface, _)| self.leads_to(&interface.to).is_some());
            led.map(|(interface, id)| {
                let filtered_by = self.filtering.by(router, interface);
                Order::Filter { interface: *id, filtered_by }
            })
        });
        switch.order_all(orders)
    }

    /// Sends the ways to a new interface.
    pub(super) fn tell_ways_to(
        &self,
        switch: &mut Switch,
        router: &Router,
        interface: &InterfacePlan,
    ) -> Result<(), NodeError> {
        let ways = self.filtering.index.ways_to(&router.plan.name, &interface.name);
        if ways.len() > WAYS_AT_ONCE {
            self.filtering.actor.tell_ways_to(&router.plan.name, &interface.name);
            return Ok(());
        }
        switch.order_all(ways.iter().map(|(number, way)| self.way(*number, way)))
    }

    /// The order with the destination of a way.
    fn way(&self, number: u16, to: &crate::filters::WayTo) -> Order {
        let leads = || {
            let router = self.routers.iter().find(|router| router.plan.name == to.router)?;
            let interface = router.plan.interfaces.iter().find(|one| one.name == to.interface)?;
            let interface_number = router.number_of(&to.interface)?;
            // On a port, an interface sends from its own Ethernet address only.
            let own_source = !to.mirror || matches!(interface.to, To::Port(_));
            Some(Way { interface: interface_number, destination: to.destination, own_source })
        };
        Order::Way { number, way: leads() }
    }
}
