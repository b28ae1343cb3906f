//! Describes steps for users: the output of a dry run, and how each object's change is carried out.

use std::collections::{BTreeMap, BTreeSet};

use europa_api::rest::{Action, Change};
use europa_api::{Host, Router};

use crate::actual::Actual;
use crate::hosts;
use crate::ids::RouterId;
use crate::router::{RouterChange, RouterPlan};
use crate::slow_path_change;
use crate::slow_paths;
use crate::steps::Step;

/// The change of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    InPlace,
    Swap,
    Restart,
}

impl Fate {
    fn told(self) -> &'static str {
        match self {
            Fate::InPlace => "in place",
            Fate::Swap => "hot swap",
            Fate::Restart => "restart",
        }
    }
}

/// The effects of steps on routers that exist before and after.
struct Fates {
    routers: BTreeMap<RouterId, Fate>,
    /// The actions on programs of slow paths that continue.
    programs: BTreeMap<RouterId, String>,
    hosts: BTreeMap<String, &'static str>,
}

/// Describes how each change of a document is carried out, and adds the objects that other
/// documents' changes affect.
pub fn changes(steps: &[Step], actual: &Actual, changes: &mut Vec<Change>) {
    let fates = Fates::of(steps, actual);
    for change in changes.iter_mut().filter(|change| change.action == Action::Change) {
        change.how = fates.how(change, actual);
    }
    let own: BTreeSet<_> =
        changes.iter().map(|change| (change.kind.clone(), change.name.clone())).collect();
    // A change of a router in place needs no separate line: the steps describe it.
    let disturbed = fates.routers.iter().filter(|(_, fate)| **fate != Fate::InPlace);
    let routers = disturbed.map(|(name, fate)| ("router", name.to_string(), fate.told()));
    let others = routers.chain(fates.hosts.iter().map(|(name, how)| ("host", name.clone(), *how)));
    for (kind, name, how) in
        others.filter(|(kind, name, _)| !own.contains(&((*kind).to_owned(), name.clone())))
    {
        let how = Some(how.to_owned());
        let (action, kind) = (Action::Change, kind.to_owned());
        changes.push(Change { action, kind, name, how, fields: Vec::new() });
    }
}

impl Fates {
    fn of(steps: &[Step], actual: &Actual) -> Self {
        let mut fates =
            Self { routers: BTreeMap::new(), programs: BTreeMap::new(), hosts: BTreeMap::new() };
        let removed: BTreeSet<&RouterId> = steps
            .iter()
            .filter_map(|step| match step {
                Step::RemoveRouter(plan) => Some(&plan.name),
                _ => None,
            })
            .collect();
        for step in steps {
            match step {
                Step::AddRouter(plan) if removed.contains(&plan.name) => {
                    fates.routers.insert(plan.name.clone(), Fate::Restart);
                }
                Step::UpdateRouter { to, change, .. } => {
                    let fate = match change {
                        RouterChange::Swap => Fate::Swap,
                        _ => Fate::InPlace,
                    };
                    fates.routers.insert(to.name.clone(), fate);
                }
                Step::ChangeSlowPaths { from, to } => {
                    for (old, new) in changed(from, to) {
                        fates.routers.entry(RouterId::of(new)).or_insert(Fate::InPlace);
                        let told = programs(old, new, actual);
                        if !told.is_empty() {
                            let told = told.iter().map(|(what, names)| format!("{what}s {names}"));
                            let told = told.collect::<Vec<_>>().join("; ");
                            fates.programs.insert(RouterId::of(new), told);
                        }
                    }
                }
                Step::MakeHosts { from, to } => {
                    for (old, new) in same_hosts(from, to).filter(|(old, new)| old != new) {
                        let whole = hosts::stays_whole(old, new);
                        let how = if whole { "in place" } else { "made anew" };
                        fates.hosts.insert(new.name.to_string(), how);
                    }
                }
                _ => {}
            }
        }
        fates
    }

    /// How the change of a document is carried out, as text; `None` if there is nothing to do.
    fn how(&self, change: &Change, actual: &Actual) -> Option<String> {
        let concerned = |plan: &RouterPlan| match change.kind.as_str() {
            "port" => plan.ports().any(|port| *port == change.name),
            "link" => plan
                .interfaces
                .iter()
                .any(|interface| interface.link.as_ref().is_some_and(|link| *link == change.name)),
            "slice" => plan.name.slice() == change.name,
            _ => false,
        };
        match change.kind.as_str() {
            "router" => self.routers.get(&*change.name).map(|fate| {
                match (fate, self.programs.get(&*change.name)) {
                    (Fate::InPlace | Fate::Swap, Some(programs)) => {
                        format!("{}: {programs}", fate.told())
                    }
                    _ => fate.told().to_owned(),
                }
            }),
            "host" => self.hosts.get(&change.name).map(|how| (*how).to_owned()),
            "port" | "link" | "slice" => {
                let there = actual.routers.iter().map(|router| &router.plan);
                let restarts = |name| self.routers.get(name) == Some(&Fate::Restart);
                let any = there.filter(|plan| concerned(plan)).any(|plan| restarts(&plan.name));
                Some(if any { "restart of its routers".into() } else { "in place".into() })
            }
            _ => Some("in place".into()),
        }
    }
}

/// The documents of routers that are in both lists.
fn pairs<'a>(
    from: &'a [Router],
    to: &'a [Router],
) -> impl Iterator<Item = (&'a Router, &'a Router)> {
    let old: BTreeMap<RouterId, &Router> =
        from.iter().map(|router| (RouterId::of(router), router)).collect();
    to.iter().filter_map(move |new| Some((*old.get(&RouterId::of(new))?, new)))
}

/// The documents of routers whose slow paths exist before and after, and differ.
fn changed<'a>(
    from: &'a [Router],
    to: &'a [Router],
) -> impl Iterator<Item = (&'a Router, &'a Router)> {
    pairs(from, to).filter(|(old, new)| !slow_paths::same_whole(old, new))
}

/// The actions on the programs of a slow path that continues, as text.
fn programs(old: &Router, new: &Router, actual: &Actual) -> Vec<(&'static str, String)> {
    if !slow_paths::same(old, new) {
        return Vec::new();
    }
    slow_path_change::told(&slow_path_change::of_routers(old, new, actual.tools))
}

fn same_hosts<'a>(from: &'a [Host], to: &'a [Host]) -> impl Iterator<Item = (&'a Host, &'a Host)> {
    let old: BTreeMap<&str, &Host> = from.iter().map(|host| (&**host.name, host)).collect();
    to.iter().filter_map(move |new| Some((*old.get(&**new.name)?, new)))
}

/// Each step in a line, in order.
pub fn list(steps: &[Step], actual: &Actual) -> Vec<String> {
    let to: BTreeMap<&RouterId, &RouterPlan> = steps
        .iter()
        .filter_map(|step| match step {
            Step::AddRouter(plan) => Some((&plan.name, &**plan)),
            _ => None,
        })
        .collect();
    steps.iter().map(|step| told(step, steps, &to, actual)).collect()
}

fn told(
    step: &Step,
    steps: &[Step],
    to: &BTreeMap<&RouterId, &RouterPlan>,
    actual: &Actual,
) -> String {
    match step {
        Step::RemoveRouter(plan) => match to.get(&plan.name) {
            Some(new) => {
                let why = plan.differences(new).join(", ");
                let why = if why.is_empty() { "its slow path is made anew".into() } else { why };
                format!("end router {}, to begin it anew: {why}", plan.name)
            }
            None => format!("end router {}", plan.name),
        },
        Step::AddRouter(plan) => format!("begin router {}", plan.name),
        Step::UpdateRouter { to, change: RouterChange::Swap, .. } => {
            format!("swap the configuration of router {}", to.name)
        }
        Step::UpdateRouter { to, .. } => format!("change router {} in place", to.name),
        Step::RemoveRelay(relay) | Step::MakeRelay(relay) | Step::ImpairRelay { to: relay, .. } => {
            format!("change link {} at {}", relay.link, relay.port)
        }
        Step::ClosePort(port) => format!("close port {}", port.name),
        Step::OpenPort(port) => format!("open port {}", port.name),
        Step::ChangePort { to, .. } => format!("change port {} in place", to.name),
        Step::AdaptPort { port, .. } => format!("prepare the device of port {port}"),
        Step::TrimHosts { from, to } => {
            let stays = |old: &Host| to.iter().any(|new| new.name == old.name);
            let gone = from.iter().filter(|old| !stays(old)).map(|host| host.name.to_string());
            let cut = hosts::cut(from, to);
            let cut = cut.iter().map(|(host, interface)| format!("{host}.{interface}"));
            listed("end hosts and interfaces", gone.chain(cut).collect())
        }
        Step::MakeHosts { from, to } => {
            let differs = |new: &&Host| !from.contains(new);
            let names = to.iter().filter(differs).map(|host| host.name.to_string());
            listed("make hosts", names.collect())
        }
        Step::ChangeSlowPaths { from, to } => {
            let names =
                |all: &[Router]| -> BTreeSet<RouterId> { all.iter().map(RouterId::of).collect() };
            let (old, new) = (names(from), names(to));
            let all = old.symmetric_difference(&new).map(ToString::to_string);
            let changed = changed(from, to).map(|(_, new)| new.full_name());
            listed("change slow paths", all.chain(changed).collect())
        }
        Step::StartSwitch if actual.routers.is_empty() => "start the switch".into(),
        Step::StartSwitch => "start the switch, which has ended".into(),
        Step::ChangeFilters { from, to } => {
            let differs = |one: &&europa_api::Filters| !(from.contains(one) && to.contains(one));
            let names: BTreeSet<String> =
                from.iter().chain(to).filter(differs).map(|one| one.name.to_string()).collect();
            listed("change filters", names.into_iter().collect())
        }
        Step::StartSlowPaths => start_slow_paths(steps, actual),
    }
}

/// The actions on programs of slow paths that change in place, and of new slow paths.
fn start_slow_paths(steps: &[Step], actual: &Actual) -> String {
    let mut parts = Vec::new();
    let mut is_new = !actual.idle.is_empty();
    for step in steps {
        let Step::ChangeSlowPaths { from, to } = step else { continue };
        is_new |=
            to.len() > pairs(from, to).filter(|(old, new)| slow_paths::same(old, new)).count();
        for (old, new) in changed(from, to) {
            let told = programs(old, new, actual).into_iter();
            parts
                .extend(told.map(|(what, names)| format!("{what} {names} of {}", new.full_name())));
        }
    }
    if is_new {
        parts.push("start programs of slow paths".into());
    }
    if parts.is_empty() {
        return "follow link states of slow paths".into();
    }
    shortened(&parts)
}

/// Names shown in one line.
const MOST_NAMES: usize = 8;

fn listed(what: &str, names: Vec<String>) -> String {
    match names.is_empty() {
        true => format!("{what}: what stands in them changes"),
        false => format!("{what}: {}", shortened(&names)),
    }
}

fn shortened(names: &[String]) -> String {
    match names.get(..MOST_NAMES) {
        Some(first) if names.len() > MOST_NAMES => {
            format!("{} and {} more", first.join(", "), names.len() - MOST_NAMES)
        }
        _ => names.join(", "),
    }
}
