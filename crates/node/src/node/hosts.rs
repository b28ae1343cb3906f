//! Hosts, and the packets that they send over links: made, changed and removed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use europa_api::stats::HostStats;
use europa_api::{Documents, Host};
use europa_control::Stop;
use europa_plan::{InterfacePlan, RelayPlan};
use europa_substrate::Substrate;

use super::Node;
use super::beside::Work;
use crate::hosts::HostDrift;
use crate::relays::Relay;
use crate::switch::unless_gone;
use crate::{Doing, Instance, NodeError, hosts};

/// The record of all hosts.
const HOSTS: &str = "hosts";

/// Work of threads on the namespaces of hosts: each costs the kernel milliseconds.
#[derive(Default)]
pub(super) struct HostsWork {
    /// Removes hosts that do not stay, whose programs have ended.
    pub(super) trimmed: Work<Vec<String>>,
    /// Hosts are made: their description, and their documents as JSON.
    pub(super) made: Work<(Vec<HostStats>, String)>,
}

impl HostsWork {
    /// Waits until no thread works any more.
    pub(super) fn wait(&mut self) {
        self.trimmed.wait();
        self.made.wait();
    }

    /// Whether a thread works.
    pub(super) fn is_under_way(&self) -> bool {
        self.trimmed.is_under_way() || self.made.is_under_way()
    }
}

impl Node {
    /// Does `work` to the hosts that are made, beside the loop.
    fn work_on_hosts<T: Send + 'static>(
        &mut self,
        place: impl Fn(&mut Node) -> &mut Work<T> + Send + Copy + 'static,
        work: impl FnOnce(&Instance, &mut Vec<Host>, &[Host]) -> Result<T, NodeError> + Send + 'static,
    ) -> Stop {
        let (instance, documents) = (self.instance.clone(), self.documents.clone());
        let (before, control) = (self.hosts_made.clone(), self.control.clone());
        let work = move || {
            let mut made = before.to_vec();
            let result = work(&instance, &mut made, &documents.hosts);
            // `made` is correct also after a failure half-way; it is reported before the result.
            control.tell(|node| node.have_hosts(made));
            result
        };
        let purpose = self.purpose("");
        self.begin_work(place, purpose, work)
    }

    /// Notes that these hosts are made.
    fn have_hosts(&mut self, made: Vec<Host>) {
        let former = std::mem::replace(&mut self.hosts_made, Arc::new(made));
        self.plans.free(former);
    }

    /// Removes the hosts, interfaces and commands that do not stay.
    pub(super) fn trim_hosts(&mut self) -> Result<(), Stop> {
        let purpose = self.purpose("");
        let Some(ended) = self.hosts_work.trimmed.result(&purpose, drop)? else {
            self.kept.forget(HOSTS);
            return Err(self.work_on_hosts(|node| &mut node.hosts_work.trimmed, hosts::trim));
        };
        let gone = |name: &String| ended.contains(name);
        for (_, mut shell) in self.running.extract_if(.., |(name, _)| gone(name)) {
            shell.wait().doing("waiting for a host's commands")?;
        }
        self.hosts_failed.retain(|name, _| !gone(name));
        let made: HashSet<&str> = self.hosts_made.iter().map(|host| &**host.name).collect();
        self.hosts.retain(|host| made.contains(&*host.name));
        Ok(())
    }

    /// Makes the missing hosts, and starts their commands.
    pub(super) fn make_hosts(&mut self) -> Result<(), Stop> {
        let purpose = self.purpose("");
        let Some((made, text)) = self.hosts_work.made.result(&purpose, drop)? else {
            let make = |instance: &Instance, made: &mut Vec<Host>, wanted: &[Host]| {
                Ok((hosts::make(instance, made, wanted)?, hosts::text(wanted)))
            };
            return Err(self.work_on_hosts(|node| &mut node.hosts_work.made, make));
        };
        let before = std::mem::replace(&mut self.hosts, made);
        let documents = self.documents.clone();
        for (place, host) in self.other_commands(&documents.hosts) {
            if let Some(made) = Arc::make_mut(&mut self.hosts_made).get_mut(place) {
                made.run.clone_from(&host.run);
            }
            if host.run.is_empty() {
                continue;
            }
            let name = format!("host.{}", host.name);
            let shell = hosts::run(&self.instance, host, self.log(&name)?)?;
            self.running.push((host.name.to_string(), shell));
        }
        let there: HashSet<&str> = before.iter().map(|host| &*host.name).collect();
        for host in documents.hosts.iter().filter(|host| !there.contains(&**host.name)) {
            let log = || self.log(&format!("host.{}", host.name));
            let command = hosts::run_image(&self.instance, host, log)?;
            self.running.extend(command.map(|command| (host.name.to_string(), command)));
        }
        self.have_hosts(documents.hosts.clone());
        // From here on the next node adopts them.
        self.kept.note(HOSTS, None, &text)?;
        for host in self.hosts.iter().filter(|host| !there.contains(&*host.name)) {
            self.events.note("host", &host.name, "Made", format!("in {}", host.namespace));
        }
        Ok(())
    }

    /// Hosts whose commands change, with their indices among the made ones.
    fn other_commands<'h>(&self, wanted: &'h [Host]) -> Vec<(usize, &'h Host)> {
        let places = self.hosts_made.iter().enumerate();
        let places: HashMap<&str, (usize, &Host)> =
            places.map(|(place, host)| (&**host.name, (place, host))).collect();
        let other = |host: &'h Host| {
            let (place, made) = places.get(&**host.name)?;
            (made.run != host.run).then_some((*place, host))
        };
        wanted.iter().filter_map(other).collect()
    }

    /// Hosts in the form of documents, for a comparison with the actual ones.
    pub(crate) fn hosts_made(&self) -> Arc<Vec<europa_api::Host>> {
        self.hosts_made.clone()
    }

    /// The same for a difference that the node has found: repairs it at once.
    pub(crate) fn mend_drift(&mut self, of: &Arc<Vec<europa_api::Host>>, found: Vec<HostDrift>) {
        self.note_drift(of, found);
        self.reconcile();
    }

    /// Notes the actual state of hosts that differ from their documents: the next change or check
    /// repairs them. `of`: the compared hosts.
    pub(crate) fn note_drift(&mut self, of: &Arc<Vec<europa_api::Host>>, found: Vec<HostDrift>) {
        // Hosts that are being changed are checked later.
        let is_old = self.hosts_work.is_under_way() || !Arc::ptr_eq(of, &self.hosts_made);
        if found.is_empty() || is_old {
            return;
        }
        let made = Arc::make_mut(&mut self.hosts_made);
        let mut lost = Vec::new();
        for HostDrift { host, really, differs } in found {
            let Some(place) = made.iter().position(|one| *one.name.value == *host) else {
                continue;
            };
            let Some(old) = made.get(place) else { continue };
            let stays = |name: &europa_api::InterfaceName| {
                let mut all = really.iter().flat_map(|host| &host.interfaces.0);
                all.any(|(other, _)| other.value == *name)
            };
            let gone = old.interfaces.0.iter().filter(|(name, _)| !stays(&name.value));
            lost.extend(gone.filter_map(|(name, interface)| old.port(name, interface)));
            match really {
                Some(really) => made[place] = really,
                None => drop(made.remove(place)),
            }
            self.events.warn("host", &host, "Drifted", differs.join("; "));
        }
        // The devices of these ports are made again.
        for port in
            self.ports.iter_mut().filter(|port| lost.iter().any(|lost| **lost == *port.name))
        {
            port.stale = true;
        }
    }

    /// Takes over the hosts of another node that are in the desired state, and removes the others.
    pub(super) fn adopt_hosts(&mut self, documents: &Documents) -> Result<(), NodeError> {
        let wanted = hosts::text(&documents.hosts);
        let found = self.kept.records::<String>(HOSTS);
        if found.iter().any(|found| found.record.as_ref() == Some(&wanted)) {
            self.hosts = hosts::stats(&self.instance, documents);
            self.hosts_made = Arc::new(documents.hosts.clone());
            let commanded = documents.hosts.iter().filter(|host| !host.run.is_empty());
            self.running = commanded
                .map(|host| {
                    let commands = hosts::Commands::adopt(&self.instance, &host.name);
                    (host.name.to_string(), commands)
                })
                .collect();
            return Ok(());
        }
        self.kept.forget(HOSTS);
        hosts::remove(&self.instance)
    }

    /// Takes over the desired relays of hosts' frames over links.
    pub(super) fn adopt_relays(&mut self, plans: &[RelayPlan], substrate: &Substrate) {
        for found in self.kept.records("relay-") {
            let adopted = found
                .record
                .as_ref()
                .and_then(|record| Relay::adopt(record, plans, substrate))
                .filter(|relay| self.relay_leads_to(relay).is_some());
            match adopted {
                Some(relay) => self.relays.push(relay),
                None => self.kept.forget(&found.name),
            }
        }
    }

    /// Removes the relay of a host's link. If the router stays, later frames go directly to it,
    /// after all frames in transit.
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
            // Before any later frame.
            relay.flush(self.switch.as_mut());
            substrate.connect(id, &planned.spec, attachment)?;
            relay.lose_port(self.switch.as_ref(), substrate, attachment)?;
        }
        if relay.plan.far.is_some() {
            self.link_tunnels.remove(self.switch.as_mut(), relay.interface);
        }
        let (pool, forgotten) = relay.end(self.switch.as_mut(), substrate, attachment)?;
        self.free_pool(pool, forgotten)?;
        self.note_matches(port)
    }

    /// Sets up the relay of a host's link. Its router must exist.
    pub(super) fn make_relay(&mut self, plan: &RelayPlan) -> Result<(), NodeError> {
        if let Some(end) = &plan.far {
            self.link_tunnels.open(end)?;
        }
        let port = self.ports.iter().find(|port| port.name == plan.port);
        let attachment = port.and_then(|port| port.attachment.as_ref());
        let relay = Relay::make(plan.clone(), self.substrate()?, attachment)?;
        if let Some(mut switch) = self.switch.take() {
            let told = self.tell_relay(&mut switch, &relay);
            self.switch = Some(switch);
            unless_gone(told)?;
        }
        self.kept.note(&relay.record_name(), None, &relay.record())?;
        self.relays.push(relay);
        if let (Some(attachment), Some(substrate), Some((planned, id))) =
            (attachment, &self.substrate, interface_on(&mut self.routers, &plan.port))
            && !planned.spec.matches.is_empty()
        {
            // The relay has the router's former frames.
            substrate.leave(id, &planned.spec, attachment)?;
            planned.spec.matches.clear();
        }
        self.note_matches(&plan.port)
    }

    /// Writes down the present match of the interface on a port of a link.
    fn note_matches(&mut self, port: &str) -> Result<(), NodeError> {
        for router in &mut self.routers {
            let all = &mut Arc::make_mut(&mut router.wanted).interfaces;
            let pairs = router.plan.interfaces.iter().zip(all);
            for (planned, wanted) in pairs {
                if planned.to.is_port(port) {
                    wanted.spec.matches.clone_from(&planned.spec.matches);
                }
            }
            if let Some(process) = &mut router.process {
                process.note_outside(&self.kept, &router.wanted)?;
            }
        }
        Ok(())
    }

    /// A host's packets over a link are treated otherwise from now on.
    pub(super) fn impair_relay(&mut self, plan: &RelayPlan) -> Result<(), NodeError> {
        if let Some(end) = &plan.far {
            self.link_tunnels.open(end)?;
        }
        let Some(relay) = self.relays.iter_mut().find(|relay| relay.plan.port == plan.port) else {
            return Ok(());
        };
        relay.plan.clone_from(plan);
        relay.impair(self.switch.as_mut());
        if let (Some((end, ends)), Some(switch)) = (relay.far(), &mut self.switch)
            && !self.link_tunnels.is_told(&end, ends)
        {
            unless_gone(self.link_tunnels.tell(switch, &end, ends))?;
        }
        self.kept.note(&relay.record_name(), None, &relay.record())
    }
}

/// The interface that has a port of a link, and its number.
fn interface_on<'a>(
    routers: &'a mut [crate::router::Router],
    port: &str,
) -> Option<(&'a mut InterfacePlan, u32)> {
    routers.iter_mut().find_map(|router| {
        let mut all = router.plan.interfaces.iter_mut().zip(&router.interfaces);
        let found = all.find(|(planned, _)| planned.to.is_port(port));
        found.map(|(planned, id)| (planned, *id))
    })
}
