//! The effects of a changed slow path on its programs.
//!
//! | difference                        | effect                                               |
//! |-----------------------------------|------------------------------------------------------|
//! | `command`, `capabilities`         | that program is started again, and those that need it |
//! | `restart`, `needs`, `reload`, `reload_on` | none on running programs                     |
//! | a file                            | programs that use it are reloaded                    |
//! | a file begins or ceases to hide a file of the host | programs that use it are started again: their view of the file system was made at their start |
//!
//! A program uses the files of `reload_on`. Without `reload_on`, it uses the files that its command
//! names, those that FRR and BIRD read by default, and those that these files name. A file that no
//! program uses in this way makes every program reload that has no `reload_on` and always runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use europa_api::{At, Daemon, File, Reload, Restart, Router, SlowPath};
use europa_slowpath::environment::cover;

/// FRR's daemons, except zebra.
const FRR: [&str; 18] = [
    "babeld", "bfdd", "bgpd", "eigrpd", "fabricd", "isisd", "ldpd", "nhrpd", "ospf6d", "ospfd",
    "pathd", "pbrd", "pim6d", "pimd", "ripd", "ripngd", "staticd", "vrrpd",
];
/// Daemons that FRR's reload tool does not support.
const NOT_RELOADED: [&str; 2] = ["babeld", "nhrpd"];
/// The path of FRR's reload tool.
pub const FRR_RELOAD: &str = "/usr/lib/frr/frr-reload.py";
/// The name of BIRD's client.
pub const BIRDC: &str = "birdc";
/// A file that only FRR's shell reads.
const VTYSH: &str = "/etc/frr/vtysh.conf";

/// Programs of this machine by which programs of slow paths reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// FRR's reload tool.
    pub frr_reload: bool,
    /// BIRD's client.
    pub birdc: bool,
}

/// The action on a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Start,
    /// It is removed.
    Stop,
    /// It is started again.
    Restart,
    /// It reloads its files.
    Reload(Reload),
}

/// The name of the program file of a command.
fn program(daemon: &Daemon) -> &str {
    let path = daemon.command.first().map_or("", |word| word.value.as_str());
    path.rsplit('/').next().unwrap_or(path)
}

/// The name of a daemon of FRR; `None` for other programs.
fn frr(daemon: &Daemon) -> Option<&str> {
    let name = program(daemon);
    let path = daemon.command.first().map_or("", |word| word.value.as_str());
    (path.contains("/frr/") && (name == "zebra" || FRR.contains(&name))).then_some(name)
}

/// The value of an option of a command, written as `-f X`, `-fX`, `--long X` or `--long=X`.
fn option<'a>(daemon: &'a Daemon, short: &str, long: &str) -> Option<&'a str> {
    let mut words = daemon.command.iter().skip(1).map(|word| word.value.as_str());
    while let Some(word) = words.next() {
        if word == short || word == long {
            return words.next();
        }
        let long = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        let short = word.strip_prefix(short).filter(|_| !word.starts_with("--"));
        if let Some(value) = long.or(short) {
            return Some(value);
        }
    }
    None
}

/// The file that a program reads by default, in addition to those that its command names.
fn known_file(daemon: &Daemon) -> Option<String> {
    if let Some(name) = frr(daemon) {
        let named = option(daemon, "-f", "--config_file").map(str::to_owned);
        return Some(named.unwrap_or_else(|| format!("/etc/frr/{name}.conf")));
    }
    (program(daemon) == "bird")
        .then(|| option(daemon, "-c", "-c").unwrap_or("/etc/bird/bird.conf").to_owned())
}

/// The names of the programs that a program needs.
pub fn needs(run: &[At<Daemon>], daemon: &Daemon) -> Vec<String> {
    if let Some(needs) = &daemon.needs {
        return needs.iter().map(|name| name.to_string()).collect();
    }
    let zebra = run.iter().find(|other| frr(other) == Some("zebra") && other.needs.is_none());
    let is_other = frr(daemon).is_some_and(|name| name != "zebra");
    zebra.filter(|_| is_other).map(|zebra| zebra.name.to_string()).into_iter().collect()
}

/// The file that exists once a program is ready for the programs that need it.
pub fn ready_file(daemon: &Daemon) -> Option<String> {
    let socket = option(daemon, "-z", "--socket").unwrap_or("/run/frr/zserv.api");
    (frr(daemon) == Some("zebra")).then(|| socket.to_owned())
}

/// How a program reloads its files; `None` if it can only be restarted.
fn reload(files: &[At<File>], daemon: &Daemon, tools: Tools) -> Option<Reload> {
    if let Some(reload) = &daemon.reload {
        return Some(reload.value.clone());
    }
    if let Some(name) = frr(daemon).filter(|name| !NOT_RELOADED.contains(name)) {
        let file = known_file(daemon)?;
        let text = files.iter().find(|other| *other.path.value == *file)?.text.as_ref();
        // The tool refuses an empty file.
        if !tools.frr_reload || text.is_none_or(|text| text.trim().is_empty()) {
            return None;
        }
        let sockets = option(daemon, "--vty_socket", "--vty_socket").unwrap_or("/run/frr");
        let folder = Path::new(&file).parent().map(|folder| folder.to_string_lossy());
        let folder = folder.unwrap_or_default();
        let words = [
            FRR_RELOAD,
            "--reload",
            "--stdout",
            "--log-level",
            "warning",
            "--daemon",
            name,
            "--confdir",
            &*folder,
            "--rundir",
            sockets,
            "--vty_socket",
            sockets,
            &*file,
        ];
        return Some(Reload::Command(words.map(str::to_owned).to_vec()));
    }
    if program(daemon) == "bird" && tools.birdc {
        let socket = option(daemon, "-s", "-s").unwrap_or("/run/bird/bird.ctl");
        let words = [BIRDC, "-s", socket, "configure"];
        return Some(Reload::Command(words.map(str::to_owned).to_vec()));
    }
    None
}

/// Whether a text names a path as a whole.
fn names(text: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    text.match_indices(path).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + path.len()..).and_then(|text| text.chars().next());
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        // A dot may end a sentence in a comment, or begin a file's ending.
        !before.is_some_and(|c| part(c) || c == '/') && !after.is_some_and(|c| part(c) || c == '.')
    })
}

/// Whether a word names a file, or a directory that contains it.
fn names_above(text: &str, path: &str) -> bool {
    // Shared directories do not show which program reads a file.
    let above = Path::new(path).ancestors().skip(1);
    let own = above.filter(|folder| folder.components().count() > 2);
    names(text, path) || own.map(|folder| folder.to_string_lossy()).any(|one| ends(text, &one))
}

/// Whether a text names the directory itself, not a path inside it.
fn ends(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let rest = text.get(at + folder.len()..).unwrap_or_default();
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let end = rest.chars().next();
        names(text, folder) && !end.is_some_and(|c| c.is_alphanumeric() || "_-./".contains(c))
    })
}

/// The paths of the files that a program uses.
fn uses(slow_path: &SlowPath, daemon: &Daemon) -> BTreeSet<String> {
    if let Some(paths) = &daemon.reload_on {
        return paths.iter().map(|path| path.value.clone()).collect();
    }
    let words = daemon.command.iter().map(|word| word.value.as_str());
    let command: Vec<&str> = words.collect();
    let known = known_file(daemon);
    let mut found: BTreeSet<String> = BTreeSet::new();
    for file in &slow_path.files {
        let path = file.path.value.as_str();
        if known.as_deref() == Some(path) || command.iter().any(|word| names_above(word, path)) {
            found.insert(path.to_owned());
        }
    }
    loop {
        let texts = slow_path.files.iter().filter(|file| found.contains(&file.path.value));
        let texts: Vec<&str> =
            texts.filter_map(|file| Some(file.text.as_ref()?.as_str())).collect();
        let more: Vec<String> = slow_path
            .files
            .iter()
            .map(|file| file.path.value.as_str())
            .filter(|path| !found.contains(*path) && texts.iter().any(|text| names(text, path)))
            .map(str::to_owned)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Paths of files that differ, and whether the set of hidden files differs.
fn changed(old: &SlowPath, new: &SlowPath) -> BTreeMap<String, bool> {
    let find = |all: &'_ SlowPath, path: &str| {
        all.files.iter().find(|file| *file.path.value == *path).map(|file| file.value.clone())
    };
    let hides = |all: &SlowPath, path: &str| {
        cover(path).is_none_or(|hidden| {
            all.files.iter().any(|file| cover(&file.path.value) == Some(hidden))
        })
    };
    let all = old.files.iter().chain(&new.files).map(|file| file.path.value.clone());
    all.filter(|path| *path != VTYSH && find(old, path) != find(new, path))
        .map(|path| {
            let same = hides(old, &path) == hides(new, &path);
            (path, !same)
        })
        .collect()
}

/// The actions on the programs of a slow path that becomes another, by program.
pub fn actions(old: &SlowPath, new: &SlowPath, tools: Tools) -> BTreeMap<String, Action> {
    let mut actions = BTreeMap::new();
    let find = |all: &'_ [At<Daemon>], name: &str| {
        all.iter().any(|other| *other.name.to_string() == *name)
    };
    for daemon in old.run.iter().filter(|daemon| !find(&new.run, &daemon.name.to_string())) {
        actions.insert(daemon.name.to_string(), Action::Stop);
    }
    let changed = changed(old, new);
    // The program's former files count too, because the new document may not name them.
    let uses = |daemon: &At<Daemon>| {
        let before = old.run.iter().find(|other| other.name == daemon.name);
        let mut paths = uses(new, daemon);
        paths.extend(before.iter().flat_map(|before| uses(old, before)));
        paths
    };
    let used: BTreeSet<String> = new.run.iter().flat_map(uses).collect();
    let of_nobody = |path: &String| !used.contains(path);
    for daemon in &new.run {
        let name = daemon.name.to_string();
        let Some(before) = old.run.iter().find(|other| other.name == daemon.name) else {
            actions.insert(name, Action::Start);
            continue;
        };
        if before.command != daemon.command || before.capabilities != daemon.capabilities {
            actions.insert(name, Action::Restart);
            continue;
        }
        let own = uses(daemon);
        let general = daemon.reload_on.is_none() && daemon.restart == Restart::Always;
        let mut concern = changed
            .iter()
            .filter(|(path, _)| own.contains(*path) || general && of_nobody(path))
            .map(|(_, is_hidden_anew)| *is_hidden_anew)
            .peekable();
        if concern.peek().is_none() {
            continue;
        }
        let action = match reload(&new.files, daemon, tools) {
            Some(reload) if !concern.any(|anew| anew) => Action::Reload(reload),
            _ => Action::Restart,
        };
        actions.insert(name, action);
    }
    with_dependents(new, actions)
}

/// Adds the programs that need a restarted one.
fn with_dependents(
    new: &SlowPath,
    mut actions: BTreeMap<String, Action>,
) -> BTreeMap<String, Action> {
    loop {
        let again = |name: &String| actions.get(name) == Some(&Action::Restart);
        let more: Vec<String> = new
            .run
            .iter()
            .filter(|daemon| needs(&new.run, daemon).iter().any(again))
            .map(|daemon| daemon.name.to_string())
            .filter(|name| !matches!(actions.get(name), Some(Action::Restart | Action::Start)))
            .collect();
        if more.is_empty() {
            return actions;
        }
        actions.extend(more.into_iter().map(|name| (name, Action::Restart)));
    }
}

/// The actions on the programs of a router that changes; none unless both documents have a slow
/// path.
pub fn of_routers(old: &Router, new: &Router, tools: Tools) -> BTreeMap<String, Action> {
    match (&old.slow_path, &new.slow_path) {
        (Some(old), Some(new)) => actions(old, new, tools),
        _ => BTreeMap::new(),
    }
}

/// Adds later actions on programs to pending ones. A program that restarts is not reloaded as well.
pub fn add(all: &mut BTreeMap<String, Action>, later: BTreeMap<String, Action>) {
    for (name, action) in later {
        let earlier = all.get(&name);
        if matches!((earlier, &action), (Some(Action::Start | Action::Restart), Action::Reload(_)))
        {
            continue;
        }
        all.insert(name, action);
    }
}

/// The actions on programs as text, one for each kind.
pub(crate) fn told(actions: &BTreeMap<String, Action>) -> Vec<(&'static str, String)> {
    let of = |what: &'static str, is: &dyn Fn(&Action) -> bool| {
        let names: Vec<&str> =
            actions.iter().filter(|(_, one)| is(one)).map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| (what, names.join(", ")))
    };
    let parts = [
        of("reload", &|one| matches!(one, Action::Reload(_))),
        of("restart", &|one| *one == Action::Restart),
        of("start", &|one| *one == Action::Start),
        of("stop", &|one| *one == Action::Stop),
    ];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
