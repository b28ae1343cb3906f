//! When programs of kernel routers are loaded and entered.

use std::collections::HashSet;

use europa_api::{Fault, Key};
use europa_control::Stop;
use europa_plan::{CagePlan, RouterPlan};
use europa_substrate::Substrate;

use super::{Cages, Means, State, prepare};
use crate::NodeError;
use crate::beside::not_yet;
use crate::context::Context;
use crate::events::Events;
use crate::routers::Router;
use crate::slow_path::SlowPaths;

impl Cages {
    /// Has the program of a router be loaded. Its ports receive in the driver.
    pub(crate) fn have(
        &mut self,
        context: &Context,
        substrate: &Substrate,
        routers: &[Router],
        plan: &RouterPlan,
    ) -> Result<(), Stop> {
        let RouterPlan { name, cage: Some(cage), .. } = plan else { return Ok(()) };
        match self.state(name, cage) {
            State::Loaded => Ok(()),
            State::UnderWay => Err(not_yet()),
            State::Failed(why) => {
                self.failed.remove(&**name);
                let key = Key::new("router", &**name);
                let fault = Fault::new(key, &["fast_path", "xdp", cage.field], why);
                Err(NodeError::from(fault.label("the kernel does not take it")).into())
            }
            State::None => {
                self.begin(context, substrate, routers, name, cage)?;
                Err(not_yet())
            }
        }
    }

    /// Has a thread load a program. The running program goes on meanwhile.
    fn begin(
        &mut self,
        context: &Context,
        substrate: &Substrate,
        routers: &[Router],
        router: &str,
        plan: &CagePlan,
    ) -> Result<(), NodeError> {
        let running = routers.iter().find(|other| *other.plan.name == *router);
        let interfaces = running.map(|router| router.interfaces.clone()).unwrap_or_default();
        let with_judge = !self.judged;
        let tables = self.tables(router);
        let means = Means::new(substrate, &interfaces, tables, with_judge)?;
        let (name, plan) = (router.to_owned(), plan.clone());
        self.under_way.insert(name.clone(), plan.clone());
        let begun = context.beside(
            "cage",
            move || prepare(plan, means),
            move |node, outcome| node.cages.done(&name, outcome),
        );
        if let Err(error) = begun {
            self.under_way.remove(router);
            return Err(error);
        }
        Ok(())
    }

    /// Has programs stand where their routers' interfaces are. Costs little if they do.
    pub(crate) fn follow(
        &mut self,
        context: &Context,
        substrate: Option<&Substrate>,
        routers: &[Router],
        slow_paths: &SlowPaths,
    ) {
        let events = &context.events;
        let wanted: Vec<_> = routers
            .iter()
            .filter(|router| !router.half)
            .filter_map(|router| {
                let plan = router.wanted.cage.clone()?;
                let own = router.interfaces.iter().copied().take(plan.interfaces);
                Some((router.plan.name.to_string(), plan, own.collect::<Vec<u32>>()))
            })
            .collect();
        let leaving = substrate.map(|substrate| leave(substrate, routers)).unwrap_or_default();
        let is_wanted = |router: &str| wanted.iter().any(|(name, ..)| name == router);
        self.keep(|router| is_wanted(router) || leaving.contains(router));
        let Some(substrate) = substrate else { return };
        for (router, plan, interfaces) in wanted {
            if interfaces.len() < plan.interfaces {
                continue;
            }
            match self.state(&router, &plan) {
                State::Loaded => self.note_entered(events, substrate, &router, &plan, &interfaces),
                // That of a router that was adopted.
                State::None => {
                    if let Err(error) = self.begin(context, substrate, routers, &router, &plan) {
                        events.warn("router", &router, "Failed", error.to_string());
                    }
                }
                State::UnderWay | State::Failed(_) => {}
            }
            if let Err(error) = slow_paths.fill(&router, self, events) {
                events.warn("router", &router, "Failed", error.to_string());
            }
        }
    }

    fn note_entered(
        &mut self,
        events: &Events,
        substrate: &Substrate,
        router: &str,
        plan: &CagePlan,
        interfaces: &[u32],
    ) {
        match self.enter(substrate, router, plan, interfaces) {
            Ok(true) => {
                let message = format!("{} runs in the kernel", plan.file);
                events.note("router", router, "Entered", message);
            }
            Ok(false) => {}
            Err(error) => events.warn("router", router, "Failed", error.to_string()),
        }
    }
}

/// Has frames go to the processes of routers that are no kernel routers any more, once these forward.
/// Routers whose processes do not yet.
fn leave(substrate: &Substrate, routers: &[Router]) -> HashSet<String> {
    let mut waiting = HashSet::new();
    for router in routers.iter().filter(|router| router.wanted.cage.is_none()) {
        let is_caged = |id: &&u32| substrate.is_caged(**id);
        if !router.interfaces.iter().any(|id| is_caged(&id)) {
            continue;
        }
        if !router.forwards() {
            waiting.insert(router.plan.name.to_string());
            continue;
        }
        router.interfaces.iter().filter(is_caged).for_each(|id| substrate.pass_by_cage(*id));
    }
    waiting
}
