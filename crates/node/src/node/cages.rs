//! Kernel routers: when their programs are loaded and entered.

use std::collections::HashSet;

use europa_api::{Fault, Key};
use europa_control::Stop;
use europa_plan::{CagePlan, RouterPlan, Step};

use super::Node;
use super::beside::not_yet;
use crate::NodeError;
use crate::cages::{Means, State, prepare};
use crate::router::Process;

impl Node {
    /// Makes sure that the program of a step's router is loaded.
    pub(super) fn load_cage(&mut self, step: &Step) -> Result<(), Stop> {
        let (Step::AddRouter(plan) | Step::UpdateRouter { to: plan, .. }) = step else {
            return Ok(());
        };
        let RouterPlan { name, cage: Some(cage), .. } = &**plan else { return Ok(()) };
        if self.load_for_driver(plan)? {
            return Err(not_yet());
        }
        match self.cages.state(name, cage) {
            State::Loaded => Ok(()),
            State::UnderWay => Err(not_yet()),
            State::Failed(why) => {
                self.cages.forget_failure(name);
                let key = Key::new("router", &**name);
                let fault = Fault::new(key, &["fast_path", "xdp", cage.field], why);
                Err(NodeError::from(fault.label("the kernel does not take it")).into())
            }
            State::None => {
                self.begin_cage(name, cage)?;
                Err(not_yet())
            }
        }
    }

    /// Loads a program in a thread. The running program continues meanwhile.
    fn begin_cage(&mut self, router: &str, plan: &CagePlan) -> Result<(), NodeError> {
        let running = self.routers.iter().find(|other| *other.plan.name == *router);
        let interfaces = running.map(|router| router.interfaces.clone()).unwrap_or_default();
        let with_judge = !self.cages.is_judged();
        let tables = self.cages.tables(router);
        let means = Means::new(self.substrate()?, &interfaces, tables, with_judge)?;
        let (name, plan) = (router.to_owned(), plan.clone());
        self.cages.under_way.insert(name.clone(), plan.clone());
        let begun = self.beside(
            "cage",
            move || prepare(plan, means),
            move |node, outcome| {
                node.cages.done(&name, outcome);
            },
        );
        if let Err(error) = begun {
            self.cages.under_way.remove(router);
            return Err(error);
        }
        Ok(())
    }

    /// Puts programs in force for their routers' interfaces. Costs little without a change.
    pub(super) fn follow_cages(&mut self) {
        let wanted: Vec<_> = self
            .routers
            .iter()
            .filter(|router| !router.half)
            .filter_map(|router| {
                let plan = router.wanted.cage.clone()?;
                let own = router.interfaces.iter().copied().take(plan.interfaces);
                Some((router.plan.name.to_string(), plan, own.collect::<Vec<u32>>()))
            })
            .collect();
        if let Err(error) = self.hold_ports() {
            self.events.warn("node", "", "Failed", error.to_string());
        }
        let leaving = self.leave_cages();
        let is_wanted = |router: &str| wanted.iter().any(|(name, ..)| name == router);
        self.cages.keep(|router| is_wanted(router) || leaving.contains(router));
        for (router, plan, interfaces) in wanted {
            if interfaces.len() < plan.interfaces {
                continue;
            }
            let Some(substrate) = &self.substrate else { return };
            match self.cages.state(&router, &plan) {
                State::Loaded => match self.cages.enter(substrate, &router, &plan, &interfaces) {
                    Ok(true) => {
                        let message = format!("{} runs in the kernel", plan.file);
                        self.events.note("router", &router, "Entered", message);
                    }
                    Ok(false) => {}
                    Err(error) => self.events.warn("router", &router, "Failed", error.to_string()),
                },
                // The state of an adopted router.
                State::None => {
                    if let Err(error) = self.begin_cage(&router, &plan) {
                        self.events.warn("router", &router, "Failed", error.to_string());
                    }
                }
                State::UnderWay | State::Failed(_) => {}
            }
            if let Err(error) = self.slow_paths.fill(&router, &mut self.cages, &self.events) {
                self.events.warn("router", &router, "Failed", error.to_string());
            }
        }
    }

    /// Sends frames to the processes of former kernel routers, once these forward. Returns routers
    /// whose processes do not forward yet.
    fn leave_cages(&self) -> HashSet<String> {
        let mut waiting = HashSet::new();
        let Some(substrate) = &self.substrate else { return waiting };
        for router in self.routers.iter().filter(|router| router.wanted.cage.is_none()) {
            let is_caged = |id: &&u32| substrate.is_caged(**id);
            if !router.interfaces.iter().any(|id| is_caged(&id)) {
                continue;
            }
            let forwards = |process: &Process| process.ready && !process.changes();
            if router.astray || !router.process.as_ref().is_some_and(forwards) {
                waiting.insert(router.plan.name.to_string());
                continue;
            }
            router.interfaces.iter().filter(is_caged).for_each(|id| substrate.pass_by_cage(*id));
        }
        waiting
    }

    /// Makes ports of kernel routers receive in the driver.
    fn hold_ports(&mut self) -> Result<(), NodeError> {
        let Some(substrate) = &mut self.substrate else { return Ok(()) };
        for port in &mut self.ports {
            let caged = self.routers.iter().any(|router| {
                let count = router.wanted.cage.as_ref().map_or(0, |cage| cage.interfaces);
                let mut own = router.plan.interfaces.iter().take(count);
                own.any(|interface| interface.to.is_port(&port.name))
            });
            port.hold_in_driver(substrate, caged)?;
        }
        Ok(())
    }
}
