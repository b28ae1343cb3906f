//! Takes over slow paths that another node has made, if they are desired.

use europa_api::{Documents, Restart};
use europa_plan::routers;
use europa_plan::slow_paths::is_hidden;
use europa_plan::wires::is_wire;
use europa_port::Namespace;
use europa_sandbox::Child;
use europa_slowpath::namespace;

use super::base::Base;
use super::daemons::DaemonRecord;
use super::make::{describe, facts};
use super::{Record, SlowPath, SlowPaths, text};
use crate::kept::Kept;
use crate::{Instance, NodeError};

impl SlowPaths {
    /// Takes over desired slow paths of another node. `ports` are all ports, with those that hosts
    /// make, whose devices exist.
    pub(crate) fn adopt(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        documents: &Documents,
        ports: &[europa_api::Port],
    ) -> Result<(), NodeError> {
        let records = kept.records::<Record>("slow-");
        let made = |router: &europa_api::Router| {
            let mut all = records.iter().filter_map(|found| found.record.as_ref());
            all.any(|record| record.router == router.full_name() && record.text == text(router))
        };
        let wanted = |router: &&europa_api::Router| router.slow_path.is_some() && made(router);
        if !documents.routers.iter().any(|router| wanted(&router)) {
            return Ok(());
        }
        let is_made = |name: &str| !is_hidden(name) && !is_wire(name);
        let ports: Vec<_> = ports.iter().filter(|port| is_made(&port.name.value)).collect();
        // A port without a device counts as missing; a slow path that needs it is made again.
        let there: Vec<_> = ports.iter().copied().filter(|port| facts(&[port]).is_ok()).collect();
        let plans = routers(documents, &facts(&there)?);
        for (router, plan) in documents.routers.iter().zip(plans) {
            let name = namespace::name(instance.name(), &router.slice, &router.name);
            if let (true, Ok(plan), Ok(inside)) = (wanted(&router), plan, Namespace::named(&name)) {
                let mut one = describe(instance, documents, &ports, inside, router, &plan)?;
                one.adopt_daemons(kept)?;
                self.all.insert(router.full_name(), one);
            }
        }
        self.uplinks.adopt(instance, |router| self.all.contains_key(router));
        Ok(())
    }

    /// Processes that were adopted.
    pub(crate) fn adopted(&self) -> impl Iterator<Item = u32> {
        let all = self.all.values().flat_map(|one| one.adopted.values());
        let firsts = self.all.values().filter_map(|one| one.first.as_ref());
        all.flatten().chain(firsts).map(Child::pid)
    }
}

impl SlowPath {
    /// Takes over the programs that another node has started.
    pub(super) fn adopt_daemons(&mut self, kept: &Kept) -> Result<(), NodeError> {
        let first = Base::record_name(&self.spec.router);
        let first = kept.records::<String>(&first).into_iter().find(|found| found.name == first);
        self.first = first.and_then(|found| found.process).map(Child::adopt).transpose()?.flatten();
        for daemon in &self.daemons {
            let mut found = kept.records::<DaemonRecord>(&daemon.record_name());
            found.retain(|found| found.name == daemon.record_name());
            let Some(found) = found.pop() else { continue };
            let Some(record) =
                found.record.filter(|record: &DaemonRecord| record.daemon == daemon.text())
            else {
                continue;
            };
            let child = found.process.map(Child::adopt).transpose()?.flatten();
            // The result of a program that ended while no node ran is unknown.
            let never = daemon.policy().restart == Restart::Never;
            if child.is_some() || record.done || never {
                self.adopted.insert(daemon.name.clone(), child);
            }
        }
        // A program that needs an ended one is restarted with it.
        loop {
            let ended = self.daemons.iter().find(|daemon| {
                let needs = daemon.policy().needs;
                matches!(self.adopted.get(&daemon.name), Some(Some(_)))
                    && needs.iter().any(|need| !self.adopted.contains_key(need))
            });
            let Some(ended) = ended else { return Ok(()) };
            self.adopted.remove(&ended.name);
        }
    }
}
