//! Commands of hosts that change, and those that have ended.

use std::collections::{HashMap, HashSet};

use europa_api::Host;
use europa_api::stats::HostStats;
use europa_host::Inside;

use super::record::read_records;
use super::run::{Commands, run, run_image};
use super::show::text;
use super::{HOSTS, Hosts, make};
use crate::context::{Context, open_log};
use crate::events::Events;
use crate::kept::Kept;
use crate::{Instance, NodeError};

/// As many of the last lines of a host's commands are shown.
const LAST_LINES: usize = 3;

/// Hosts that a thread has made.
pub(super) struct Making {
    /// Their description.
    pub(super) stats: Vec<HostStats>,
    /// Their documents.
    pub(super) hosts: Vec<Host>,
    /// Shells that run commands, by host.
    pub(super) started: Vec<(String, Commands)>,
    /// The reason why some commands were not started.
    pub(super) failed: Option<NodeError>,
}

impl Making {
    /// Makes the hosts that are `wanted` of the hosts `made`, starts their commands, and writes them
    /// down. Hosts that were `there` have their images' commands.
    pub(super) fn make(
        instance: &Instance,
        kept: &Kept,
        events: &Events,
        there: &HashSet<String>,
        made: &mut Vec<Host>,
        wanted: &[Host],
    ) -> Result<Self, NodeError> {
        let stats = make::make(instance, made, wanted)?;
        let hosts = wanted.to_vec();
        let mut making = Self { stats, hosts, started: Vec::new(), failed: None };
        let is_fresh = |host: &&Host| !there.contains(&*host.name.to_string());
        making.failed = making
            .start_commands(instance, made)
            .and_then(|()| making.start_images(instance, wanted.iter().filter(is_fresh)))
            // From here on the next node adopts them.
            .and_then(|()| kept.note(HOSTS, None, &text(wanted)))
            .err();
        if making.failed.is_none() {
            for host in making.stats.iter().filter(|host| !there.contains(&host.name)) {
                events.note("host", &host.name, "Made", format!("in {}", host.namespace));
            }
        }
        Ok(making)
    }

    /// Starts the commands that change.
    fn start_commands(&mut self, instance: &Instance, made: &mut [Host]) -> Result<(), NodeError> {
        for (place, host) in other_commands(made, &self.hosts) {
            if let Some(made) = made.get_mut(place) {
                made.run.clone_from(&host.run);
            }
            if host.run.is_empty() {
                continue;
            }
            let log = open_log(instance, &format!("host.{}", host.name))?;
            self.started.push((host.name.to_string(), run(instance, host, log)?));
        }
        Ok(())
    }

    /// Starts the commands of the images of new hosts.
    fn start_images<'h>(
        &mut self,
        instance: &Instance,
        fresh: impl Iterator<Item = &'h Host>,
    ) -> Result<(), NodeError> {
        let fresh: Vec<&Host> = fresh.filter(|host| host.root.is_some()).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let records = read_records(instance);
        let images = records.into_iter().filter_map(|record| Some((record.host, record.inside?)));
        let images: HashMap<String, Inside> = images.collect();
        for host in fresh {
            let log = || open_log(instance, &format!("host.{}", host.name));
            let command = run_image(instance, host, images.get(&*host.name.to_string()), log)?;
            self.started.extend(command.map(|command| (host.name.to_string(), command)));
        }
        Ok(())
    }
}

impl Hosts {
    /// Notes which hosts' commands have ended, and which of those have failed.
    pub(crate) fn bury(&mut self, context: &Context) {
        let mut ended = Vec::new();
        self.running.retain_mut(|(host, commands)| {
            let code = commands.code();
            ended.extend(code.map(|code| (host.clone(), code)));
            code.is_none()
        });
        for (host, code) in ended.into_iter().filter(|(_, code)| *code != 0) {
            let how = format!("a command ended with code {code}");
            let log = context.instance.log(&format!("host.{host}"));
            let last = crate::logs::tail(&log, LAST_LINES).map(|(text, _)| text);
            let last = String::from_utf8_lossy(&last.unwrap_or_default()).trim().to_owned();
            let said = if last.is_empty() { String::new() } else { format!(": {last}") };
            context.events.warn("host", &host, "CommandFailed", format!("{how}{said}"));
            self.failed.insert(host, how);
        }
    }
}

/// Hosts whose commands change, with their places among those that are made.
fn other_commands<'h>(made: &[Host], wanted: &'h [Host]) -> Vec<(usize, &'h Host)> {
    let places = made.iter().enumerate();
    let places: HashMap<&str, (usize, &Host)> =
        places.map(|(place, host)| (&**host.name, (place, host))).collect();
    let other = |host: &'h Host| {
        let (place, made) = places.get(&**host.name)?;
        (made.run != host.run).then_some((*place, host))
    };
    wanted.iter().filter_map(other).collect()
}

#[cfg(test)]
mod tests {
    use europa_api::Source;

    use super::*;

    fn hosts(text: &str) -> Vec<Host> {
        let source = Source { path: "t.yaml".into(), text: text.into() };
        europa_api::parse(&[source]).expect("documents").hosts
    }

    #[test]
    fn commands_are_started_where_they_differ() {
        let of = |all: &[(&str, &str)]| {
            let texts = all.iter().map(|(name, run)| {
                let on = format!("{{eth0: {{link: l{name}, addresses: [10.0.0.1/24]}}}}");
                format!("kind: host\nname: {name}\nrun: [{run}]\ninterfaces: {on}\n")
            });
            hosts(&texts.collect::<Vec<_>>().join("---\n"))
        };
        let made = of(&[("a", "x"), ("b", "y")]);
        let wanted = of(&[("c", "z"), ("b", "other"), ("a", "x")]);
        let found = other_commands(&made, &wanted);
        // Host c is not made yet.
        let found: Vec<_> =
            found.iter().map(|(place, host)| (*place, host.name.to_string())).collect();
        assert_eq!(found, [(1, "b".to_owned())]);
        assert!(other_commands(&made, &made).is_empty());
    }
}
