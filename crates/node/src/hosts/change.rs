//! Changes hosts' commands, and handles commands that have ended.

use std::collections::HashMap;
use std::sync::Arc;

use europa_api::Host;

use super::Hosts;
use super::run::{run, run_image};
use crate::NodeError;
use crate::context::Context;

/// The number of last lines of a host's commands that are shown.
const LAST_LINES: usize = 3;

impl Hosts {
    /// Starts the commands that change.
    pub(super) fn start_commands(
        &mut self,
        context: &Context,
        wanted: &[Host],
    ) -> Result<(), NodeError> {
        for (place, host) in other_commands(&self.made, wanted) {
            if let Some(made) = Arc::make_mut(&mut self.made).get_mut(place) {
                made.run.clone_from(&host.run);
            }
            if host.run.is_empty() {
                continue;
            }
            let name = format!("host.{}", host.name);
            let shell = run(&context.instance, host, context.log(&name)?)?;
            self.running.push((host.name.to_string(), shell));
        }
        Ok(())
    }

    /// Starts the commands of the images of new hosts.
    pub(super) fn start_images<'h>(
        &mut self,
        context: &Context,
        fresh: impl Iterator<Item = &'h Host>,
    ) -> Result<(), NodeError> {
        for host in fresh {
            let log = || context.log(&format!("host.{}", host.name));
            let command = run_image(&context.instance, host, log)?;
            self.running.extend(command.map(|command| (host.name.to_string(), command)));
        }
        Ok(())
    }

    /// Notes which hosts' commands have ended, and which of them have failed.
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

/// Hosts whose commands change, with their positions among the existing hosts.
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
