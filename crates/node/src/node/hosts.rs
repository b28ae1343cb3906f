//! Hosts, and what they send over links: made and taken away together.
//!
//! A change of one host makes all of them anew: their devices and namespaces belong together.

use super::Node;
use crate::relays::{Relay, RelayPlan};
use crate::{Doing, NodeError, hosts};

impl Node {
    /// Ends hosts' commands, and takes their namespaces and devices away.
    pub(super) fn remove_hosts(&mut self) -> Result<(), NodeError> {
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
        for host in &self.hosts {
            self.events.note("host", &host.name, "Made", format!("in {}", host.namespace));
        }
        Ok(())
    }

    /// Takes the ways of what hosts send over links away.
    pub(super) fn remove_relays(&mut self) -> Result<(), NodeError> {
        for relay in std::mem::take(&mut self.relays) {
            let port = self.ports.iter().find(|port| port.name == relay.plan.port);
            let attachment = port.and_then(|port| port.attachment.as_ref());
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
            self.relays.push(relay);
        }
        Ok(())
    }
}
