//! Hosts, and what they send over links: made, changed and taken away.

use europa_api::Documents;
use europa_substrate::Substrate;

use super::Node;
use crate::plan::To;
use crate::relays::{Relay, RelayPlan};
use crate::{Doing, NodeError, hosts};

/// The record of all hosts.
const HOSTS: &str = "hosts";

impl Node {
    /// Takes away the hosts, their interfaces and commands that do not stay.
    pub(super) fn trim_hosts(&mut self) -> Result<(), NodeError> {
        self.kept.forget(HOSTS);
        let wanted = &self.desired.documents.hosts;
        let ended = hosts::trim(&self.instance, &mut self.hosts_made, wanted)?;
        let gone = |name: &String| ended.contains(name);
        for (_, mut shell) in self.running.extract_if(.., |(name, _)| gone(name)) {
            shell.wait().doing("waiting for a host's commands")?;
        }
        self.hosts.retain(|host| self.hosts_made.iter().any(|made| *made.name.value == *host.name));
        Ok(())
    }

    /// Makes the hosts that are wanted of those that there are, and starts their commands.
    pub(super) fn make_hosts(&mut self) -> Result<(), NodeError> {
        let documents = &self.desired.documents;
        let there: Vec<_> = self.hosts_made.iter().map(|host| host.name.clone()).collect();
        self.hosts = hosts::make(&self.instance, &mut self.hosts_made, &documents.hosts)?;
        for host in &documents.hosts {
            let runs =
                |made: &&mut europa_api::Host| made.name == host.name && made.run != host.run;
            let Some(place) = self.hosts_made.iter_mut().find(runs) else { continue };
            place.run.clone_from(&host.run);
            if host.run.is_empty() {
                continue;
            }
            let name = format!("host.{}", host.name);
            let (log, group) = (self.log(&name)?, self.group(&hosts::group(&host.name)));
            let shell = hosts::run(&self.instance, host, log, group.as_ref())?;
            self.running.push((host.name.to_string(), shell));
        }
        self.hosts_made.clone_from(&documents.hosts);
        // From here on the next node adopts them.
        self.kept.note(HOSTS, None, &hosts::text(&documents.hosts))?;
        for host in self.hosts.iter().filter(|h| !there.iter().any(|name| *name.value == *h.name)) {
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

    /// Takes the way of what a host sends over a link away. If the router stays, it goes
    /// straight to that, and what is on the way arrives before.
    pub(super) fn remove_relay(&mut self, port: &str) -> Result<(), NodeError> {
        let Some(place) = self.relays.iter().position(|relay| relay.plan.port == *port) else {
            return Ok(());
        };
        let mut relay = self.relays.remove(place);
        self.kept.forget(&relay.record_name());
        let attachment = self.ports.iter().find(|other| other.name == *port);
        let attachment = attachment.and_then(|port| port.attachment.as_ref());
        let Some(substrate) = &self.substrate else { return Ok(()) };
        if let (Some(attachment), Some((planned, id))) =
            (attachment, interface_on(&mut self.routers, port))
        {
            planned.spec.matches.clone_from(&relay.spec.matches);
            // Before anything that comes later.
            relay.flush(self.switch.as_mut());
            substrate.connect(id, &planned.spec, attachment)?;
            relay.lose_port(self.switch.as_ref(), substrate, attachment)?;
        }
        let (pool, forgotten) = relay.end(self.switch.as_mut(), substrate, attachment)?;
        self.free_pool(pool, forgotten)?;
        self.note_matches(port)
    }

    /// Gives what a host sends over a link its way. The router behind is there.
    pub(super) fn make_relay(&mut self, plan: &RelayPlan) -> Result<(), NodeError> {
        let port = self.ports.iter().find(|port| port.name == plan.port);
        let attachment = port.and_then(|port| port.attachment.as_ref());
        let relay = Relay::make(plan.clone(), self.substrate()?, attachment)?;
        if let (Some(to), Some(switch)) = (self.behind(&plan.port), &mut self.switch) {
            relay.tell(switch, to)?;
        }
        self.kept.note(&relay.record_name(), None, &relay.record())?;
        self.relays.push(relay);
        if let (Some(attachment), Some(substrate), Some((planned, id))) =
            (attachment, &self.substrate, interface_on(&mut self.routers, &plan.port))
            && !planned.spec.matches.is_empty()
        {
            // The relay has what was the router's.
            substrate.leave(id, &planned.spec, attachment)?;
            planned.spec.matches.clear();
        }
        self.note_matches(&plan.port)
    }

    /// Writes down what the interface on a port of a link matches now.
    fn note_matches(&mut self, port: &str) -> Result<(), NodeError> {
        for router in &mut self.routers {
            let pairs = router.plan.interfaces.iter().zip(&mut router.wanted.interfaces);
            for (planned, wanted) in pairs {
                if matches!(&planned.to, To::Port(to) if *to == *port) {
                    wanted.spec.matches.clone_from(&planned.spec.matches);
                }
            }
            if let Some(process) = &mut router.process {
                process.note_outside(&self.kept, &router.wanted)?;
            }
        }
        Ok(())
    }

    /// What a host sends over a link fares otherwise from now on.
    pub(super) fn impair_relay(&mut self, plan: &RelayPlan) -> Result<(), NodeError> {
        let Some(relay) = self.relays.iter_mut().find(|relay| relay.plan.port == plan.port) else {
            return Ok(());
        };
        relay.plan.clone_from(plan);
        relay.impair(self.switch.as_mut());
        self.kept.note(&relay.record_name(), None, &relay.record())
    }
}

/// The interface that has a port of a link, and its number.
fn interface_on<'a>(
    routers: &'a mut [crate::router::Router],
    port: &str,
) -> Option<(&'a mut crate::plan::InterfacePlan, u32)> {
    routers.iter_mut().find_map(|router| {
        let mut all = router.plan.interfaces.iter_mut().zip(&router.interfaces);
        let found = all.find(|(planned, _)| matches!(&planned.to, To::Port(p) if *p == *port));
        found.map(|(planned, id)| (planned, *id))
    })
}
