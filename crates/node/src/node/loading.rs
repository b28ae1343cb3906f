//! eBPF programs, loaded by threads: the verifier takes up to some hundred milliseconds for each,
//! in which the loop serves others.

use std::collections::{HashMap, HashSet, VecDeque};

use europa_control::Stop;
use europa_plan::wires::is_wire;
use europa_plan::{RouterPlan, Step};
use europa_substrate::{Error, Loaded, Program, Substrate};

use super::Node;
use super::beside::not_yet;
use crate::ports::Port;
use crate::{NodeError, wires};

/// Programs that are being loaded.
#[derive(Default)]
pub(super) struct Loading {
    under_way: HashSet<Program>,
    failed: HashMap<Program, Error>,
}

impl Node {
    /// Makes sure that the programs of a step are loaded, and begins to load those of the steps
    /// `ahead`.
    pub(super) fn load_programs(
        &mut self,
        step: &Step,
        ahead: &VecDeque<Step>,
    ) -> Result<(), Stop> {
        if matches!(step, Step::OpenPort(_) | Step::StartSwitch | Step::AddRouter(_)) {
            self.open_substrate()?;
        }
        if let Step::OpenPort(port) = step
            && is_wire(&port.name.value)
        {
            // Which program it needs depends on its namespace.
            wires::place(&self.instance)?;
        }
        let mut waits = false;
        for program in self.programs_of(step) {
            match self.loading.failed.remove(&program) {
                // Without it, live frames and others cannot alternate.
                Some(_) if program == Program::Drained => {}
                Some(error) => return Err(NodeError::from(error).into()),
                None => waits |= self.load(program)?,
            }
        }
        if waits {
            let more: Vec<Program> = ahead.iter().flat_map(|step| self.programs_of(step)).collect();
            for program in more {
                self.load(program)?;
            }
            return Err(not_yet());
        }
        Ok(())
    }

    /// Opens the substrate when it is needed for the first time.
    fn open_substrate(&mut self) -> Result<(), Stop> {
        if self.substrate.is_some() {
            return Ok(());
        }
        let purpose = self.purpose("");
        match self.substrate_work.result(&purpose, drop)? {
            Some(substrate) => Ok(self.begin_with(substrate)?),
            None => {
                let pins = self.instance.pins();
                let work = move || Ok(Substrate::open(&pins)?);
                Err(self.begin_work(|node| &mut node.substrate_work, purpose, work))
            }
        }
    }

    fn programs_of(&self, step: &Step) -> Vec<Program> {
        match step {
            Step::OpenPort(document) => {
                // The step itself reports a missing namespace.
                let namespace = Port::namespace(document).ok();
                let receive = namespace.map(|namespace| Program::receive(&namespace));
                receive.into_iter().chain([Program::Drained]).collect()
            }
            Step::StartSwitch => (0..self.settings.workers).map(Program::Transmit).collect(),
            _ => Vec::new(),
        }
    }

    /// Begins to load the programs by which a router's ports receive in the driver: a node that
    /// adopted the ports has none yet. Returns whether some are still being loaded.
    pub(super) fn load_for_driver(&mut self, plan: &RouterPlan) -> Result<bool, NodeError> {
        let is_one = |port: &&Port| plan.ports().any(|name| **name == port.name);
        let ports = self.ports.iter().filter(is_one);
        let programs: HashSet<Program> =
            ports.map(|port| Program::receive(&port.device.namespace)).collect();
        let mut waits = false;
        for program in programs {
            waits |= self.load(program)?;
        }
        Ok(waits)
    }

    /// Begins to load a program. Returns whether it is still being loaded.
    fn load(&mut self, program: Program) -> Result<bool, NodeError> {
        if self.loading.failed.contains_key(&program) {
            return Ok(false);
        }
        let Some(loader) = self.substrate_opened()?.lacks(program) else { return Ok(false) };
        if self.loading.under_way.insert(program) {
            let then = move |node: &mut Node, loaded| node.loaded(program, loaded);
            if let Err(error) = self.beside("load", move || loader.load(), then) {
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
