//! The loop's part of filters: whose rules hold for an interface, and the actor that has the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use europa_api::Documents;
use europa_api::rest::{FilterChanged, FilterList, ProblemDetails};
use europa_control::Stop;
use europa_plan::SliceId;
use europa_switch::orders::Order;

use super::{Entries, FilterActor, Fresh, Index, Orders, OwnChanges, WayOrder, WayTo};
use crate::NodeError;
use crate::beside::{Purpose, Work};
use crate::change::Change;
use crate::context::Context;
use crate::control::Reply;
use crate::store::NumberedRules;
use crate::switch::{Switch, unless_gone};

type Own = (Vec<u32>, Vec<(u32, europa_api::filters::Rule)>);

/// The actor of rules, and the facts about them that the loop needs.
pub(crate) struct Filtering {
    actor: FilterActor,
    index: Index,
    /// Rules of documents come in force.
    work: Work<()>,
}

impl Filtering {
    /// Starts the actor.
    pub(crate) fn start(context: &Context) -> Result<Self, NodeError> {
        let (kept, control) = (context.kept.clone(), context.control.clone());
        let actor = FilterActor::start(kept, control, context.events.clone())?;
        Ok(Self { actor, index: Index::default(), work: Work::default() })
    }

    /// The numbers of a slice and of an interface in its rules, if it has some.
    pub(crate) fn of(&self, slice: &str, router: &str, interface: &str) -> Option<(u16, u16)> {
        self.index.of(slice, router, interface)
    }

    /// These documents are the desired state from now on.
    pub(crate) fn want(&self, documents: &Arc<Documents>) {
        self.actor.want(documents);
    }

    /// Finds the rules again that were kept; and, if another node has `left` something, the
    /// numbers that it had given.
    pub(crate) fn restore(
        &mut self,
        documents: &Arc<Documents>,
        kept: BTreeMap<String, NumberedRules>,
        left: bool,
    ) -> Result<(), NodeError> {
        self.actor.want(documents);
        drop(self.index.take(self.actor.restore(kept, left)?));
        Ok(())
    }

    /// The actor has changed rules. A thread frees what was before.
    pub(crate) fn changed(&mut self, change: &Change, fresh: Fresh) {
        change.free(self.index.take(fresh));
    }

    /// Puts the rules of documents in force.
    pub(crate) fn change(&mut self, context: &Context, purpose: Purpose) -> Result<(), Stop> {
        match self.work.result(&purpose, drop)? {
            Some(()) => Ok(()),
            None => {
                let actor = self.actor.clone();
                let work = move || actor.set_documents();
                Err(self.work.begin(context, purpose, |node| &mut node.filters.work, work))
            }
        }
    }

    /// Adds and removes rules with numbers; `reply` is called once they are written down.
    pub(crate) fn change_own(
        &self,
        changes: OwnChanges,
        reply: Reply<Result<FilterChanged, ProblemDetails>>,
    ) {
        self.actor.change(changes, reply);
    }

    /// Rules with numbers could not be written down: they are as they were before.
    pub(crate) fn take_back(&self, slice: String, back: Own) {
        self.actor.take_back(slice, back);
    }

    /// A slice's rules, and how often each has counted.
    pub(crate) fn list(&self, slice: String, reply: Reply<Result<FilterList, ProblemDetails>>) {
        self.actor.list(slice, reply);
    }

    /// Forgets the rules of slices that were removed permanently.
    pub(crate) fn forget_parked(&mut self) {
        self.index.forget_parked();
        self.actor.forget_parked();
    }

    /// Whether the rules of documents fit.
    pub(crate) fn check(&self, entries: &Entries) -> Result<(), NodeError> {
        self.index.check(entries)
    }

    /// Documents whose rules are in force.
    pub(crate) fn in_force(&self) -> Arc<Vec<europa_api::Filters>> {
        self.index.in_force()
    }

    /// Slices that have numbered rules in force.
    pub(crate) fn numbered(&self) -> BTreeSet<SliceId> {
        self.index.numbered()
    }

    /// Slices whose numbered rules wait for the end of a change.
    pub(crate) fn parked(&self) -> BTreeSet<SliceId> {
        self.index.parked().clone()
    }

    /// All ways.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &WayOrder> {
        self.index.ways()
    }

    /// The ways that lead to an interface of a router, `slice/router`.
    pub(crate) fn ways_to(&self, router: &str, interface: &str) -> &[(u16, WayTo)] {
        self.index.ways_to(router, interface)
    }

    /// Has the loop tell the switch all ways to an interface of a router, a few at a time.
    pub(crate) fn tell_ways_to(&self, router: &str, interface: &str) {
        self.actor.tell_ways_to(router, interface);
    }

    /// Connects the actor with a switch that runs without rules; none if it has ended.
    pub(crate) fn connect(&self, switch: &mut Switch) -> Result<Option<Orders>, NodeError> {
        let (orders, theirs) = Orders::new()?;
        let told = switch.order(&Order::Filters, &[theirs.as_fd()]);
        Ok(unless_gone(told.map(|_| true))?.then_some(orders))
    }

    /// Has a new switch get all rules, if there are some, before any interface, and its `ways` by the actor.
    /// `then` runs in the actor's thread. Returns whether it will.
    pub(crate) fn load(
        &self,
        switch: &mut Switch,
        ways: bool,
        then: impl FnOnce(Result<(), NodeError>) + Send + 'static,
    ) -> Result<bool, NodeError> {
        if !self.index.has_rules() {
            return Ok(false);
        }
        let (orders, theirs) = Orders::new()?;
        switch.order(&Order::Filters, &[theirs.as_fd()])?;
        self.actor.load(orders, ways, then);
        Ok(true)
    }
}
