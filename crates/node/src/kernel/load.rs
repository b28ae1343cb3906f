//! eBPF programs, loaded by threads: the verifier takes up to some hundred milliseconds for each,
//! in which the loop serves others.

use std::collections::{HashMap, HashSet, VecDeque};

use europa_control::Stop;
use europa_plan::wires::is_wire;
use europa_plan::{RouterPlan, Step};
use europa_substrate::{Error, Loaded, Program};

use super::{Kernel, not_up};
use crate::beside::not_yet;
use crate::context::Context;
use crate::ports::{Port, Ports};
use crate::{NodeError, wires};

/// Programs that are being loaded.
#[derive(Default)]
pub(super) struct Loading {
    under_way: HashSet<Program>,
    failed: HashMap<Program, Error>,
}

impl Kernel {
    /// Has the programs of a step be there, and has those of the steps `ahead` loaded meanwhile.
    pub(crate) fn load_programs(
        &mut self,
        context: &Context,
        step: &Step,
        ahead: &VecDeque<Step>,
    ) -> Result<(), Stop> {
        if let Step::OpenPort(port) = step
            && is_wire(&port.name.value)
        {
            // Which program it needs depends on its namespace.
            wires::place(&context.instance)?;
        }
        let mut waits = false;
        for program in programs_of(context, step) {
            match self.loading.failed.remove(&program) {
                // Without it, live frames and others cannot alternate.
                Some(_) if program == Program::Drained => {}
                Some(error) => return Err(NodeError::from(error).into()),
                None => waits |= self.load(context, program)?,
            }
        }
        if waits {
            let more = ahead.iter().flat_map(|step| programs_of(context, step));
            for program in more {
                self.load(context, program)?;
            }
            return Err(not_yet());
        }
        Ok(())
    }

    /// Begins to load the programs by which a router's ports receive in the driver: a node that adopted them
    /// has none yet. Returns whether some are still to come.
    pub(crate) fn load_for_driver(
        &mut self,
        context: &Context,
        ports: &Ports,
        plan: &RouterPlan,
    ) -> Result<bool, NodeError> {
        let is_one = |port: &&Port| plan.ports().any(|name| **name == port.name);
        let ports = ports.iter().filter(is_one);
        let programs: HashSet<Program> =
            ports.map(|port| Program::receive(&port.device.namespace)).collect();
        let mut waits = false;
        for program in programs {
            waits |= self.load(context, program)?;
        }
        Ok(waits)
    }

    /// Begins to load the transmit programs of `workers` workers. Returns whether some are still to come.
    pub(crate) fn load_transmit(
        &mut self,
        context: &Context,
        workers: u32,
    ) -> Result<bool, NodeError> {
        let mut waits = false;
        for worker in 0..workers {
            waits |= self.load(context, Program::Transmit(worker))?;
        }
        Ok(waits)
    }

    /// Begins to load a program. Returns whether it is still to come.
    fn load(&mut self, context: &Context, program: Program) -> Result<bool, NodeError> {
        if self.loading.failed.contains_key(&program) {
            return Ok(false);
        }
        let substrate = self.substrate.as_ref().ok_or_else(not_up)?;
        let Some(loader) = substrate.lacks(program) else { return Ok(false) };
        if self.loading.under_way.insert(program) {
            let begun = context.beside(
                "load",
                move || loader.load(),
                move |node, loaded| node.kernel.loaded(program, loaded),
            );
            if let Err(error) = begun {
                self.loading.under_way.remove(&program);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// A program was loaded, or refused.
    fn loaded(&mut self, program: Program, loaded: Result<Loaded, Error>) {
        self.loading.under_way.remove(&program);
        match (loaded, &mut self.substrate) {
            (Ok(loaded), Some(substrate)) => substrate.keep(loaded),
            // The node has been taken down meanwhile.
            (Ok(_), None) => {}
            (Err(error), _) => drop(self.loading.failed.insert(program, error)),
        }
    }
}

fn programs_of(context: &Context, step: &Step) -> Vec<Program> {
    match step {
        Step::OpenPort(document) => {
            // The step itself says why there is no such namespace.
            let namespace = Port::namespace(document).ok();
            let receive = namespace.map(|namespace| Program::receive(&namespace));
            receive.into_iter().chain([Program::Drained]).collect()
        }
        Step::StartSwitch => (0..context.settings.workers).map(Program::Transmit).collect(),
        _ => Vec::new(),
    }
}
