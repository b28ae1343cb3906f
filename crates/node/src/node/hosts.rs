//! Hosts, and what they send over links: made and taken away together.
//!
//! A change of one host makes all of them anew: their devices and namespaces belong together.

use europa_api::Documents;
use europa_substrate::Substrate;

use super::Node;
use crate::relays::{Relay, RelayPlan};
use crate::{Doing, NodeError, hosts};

/// The record of all hosts.
const HOSTS: &str = "hosts";

impl Node {
    /// Ends hosts' commands, and takes their namespaces and devices away.
    pub(super) fn remove_hosts(&mut self) -> Result<(), NodeError> {
        self.kept.forget(HOSTS);
        hosts::remove(&self.instance)?;
        for mut shell in self.running.drain(..) {
            shell.wait().doing("waiting for a host's commands")?;
        }
        self.hosts.clear();
        self.hosts_made.clear();
        Ok(())
    }

    /// Makes all hosts that are wanted, and starts their commands.
    pub(super) fn make_hosts(&mut self) -> Result<(), NodeError> {
        let documents = &self.desired.documents;
        self.hosts = hosts::make(&self.instance, documents)?;
        self.hosts_made.clone_from(&documents.hosts);
        let mut running = Vec::new();
        for host in documents.hosts.iter().filter(|host| !host.run.is_empty()) {
            let name = format!("host.{}", host.name);
            let (log, group) = (self.log(&name)?, self.group(&name));
            running.push(hosts::run(&self.instance, host, log, group.as_ref())?);
        }
        self.running = running;
        // From here on the next node adopts them.
        self.kept.note(HOSTS, None, &hosts::text(&documents.hosts))?;
        for host in &self.hosts {
            self.events.note("host", &host.name, "Made", format!("in {}", host.namespace));
        }
        Ok(())
    }

    /// Takes over the hosts that another node has made, if they are what is wanted; takes
    /// them away otherwise.
    pub(super) fn adopt_hosts(&mut self, documents: &Documents) -> Result<(), NodeError> {
        let wanted = hosts::text(&documents.hosts);
        let found = self.kept.records::<String>(HOSTS);
        if found.iter().any(|found| found.record.as_ref() == Some(&wanted)) {
            self.hosts = hosts::stats(&self.instance, documents);
            self.hosts_made.clone_from(&documents.hosts);
            return Ok(());
        }
        self.kept.forget(HOSTS);
        hosts::remove(&self.instance)
    }

    /// Takes over the ways of what hosts send over links, as far as they are wanted.
    pub(super) fn adopt_relays(&mut self, plans: &[RelayPlan], substrate: &Substrate) {
        for found in self.kept.records("relay-") {
            let adopted = found
                .record
                .as_ref()
                .and_then(|record| Relay::adopt(record, plans, substrate))
                .filter(|relay| self.behind(&relay.plan.port).is_some());
            match adopted {
                Some(relay) => self.relays.push(relay),
                None => self.kept.forget(&found.name),
            }
        }
    }

    /// Takes the ways of what hosts send over links away.
    pub(super) fn remove_relays(&mut self) -> Result<(), NodeError> {
        for relay in std::mem::take(&mut self.relays) {
            let port = self.ports.iter().find(|port| port.name == relay.plan.port);
            let attachment = port.and_then(|port| port.attachment.as_ref());
            self.kept.forget(&relay.record_name());
            if let Some(substrate) = &self.substrate {
                relay.end(self.switch.as_mut(), substrate, attachment)?;
            }
        }
        Ok(())
    }

    /// Gives what hosts send over links its ways. The routers behind are there.
    pub(super) fn make_relays(&mut self, plans: &[RelayPlan]) -> Result<(), NodeError> {
        for plan in plans {
            let port = self.ports.iter().find(|port| port.name == plan.port);
            let attachment = port.and_then(|port| port.attachment.as_ref());
            let relay = Relay::make(plan.clone(), self.substrate()?, attachment)?;
            if let (Some(to), Some(switch)) = (self.behind(&plan.port), &mut self.switch) {
                relay.tell(switch, to)?;
            }
            self.kept.note(&relay.record_name(), None, &relay.record())?;
            self.relays.push(relay);
        }
        Ok(())
    }
}
