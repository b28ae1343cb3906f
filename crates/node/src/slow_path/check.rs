//! Checks of a slow path before any step: whether this machine has its programs, users and
//! directories.

use std::path::Path;

use europa_api::{At, Problem, Reload, Router};
use europa_image::is_image;
use europa_slowpath::environment::{PATH, check_capabilities, missing_on_host, own};
use nix::unistd::User;

use crate::images::no_root;
use crate::program::{find, is_program};
use crate::uplinks;

/// Reports the impossible parts of a router's slow path.
pub(crate) fn check(router: &Router, problems: &mut Vec<Problem>) {
    let Some(slow_path) = &router.slow_path else { return };
    if let (Some(uplink), Some((why, help))) = (slow_path.uplink, uplinks::refused()) {
        problems.push(Problem::new(uplink.place, why).label("not possible here").help(help));
    }
    let root = slow_path.root.as_ref();
    problems.extend(root.and_then(no_root));
    let here = root.is_none_or(|root| !is_image(Path::new(&root.value)));
    for file in &slow_path.files {
        if let Some(directory) = missing_on_host(&file.path).filter(|_| root.is_none()) {
            let message = format!("this machine has no {}", directory.display());
            problems.push(
                Problem::new(file.path.place, message)
                    .label("has no place")
                    .help("put the file below /run, which is the router's own, or set `root: /`"),
            );
        }
        // Users of another root directory are not known here.
        if let Some(owner) = file.owner.as_ref().filter(|_| here)
            && !User::from_name(owner).is_ok_and(|user| user.is_some())
        {
            let message = format!("this machine has no user {:?}", &*owner.value);
            problems.push(
                Problem::new(owner.place, message)
                    .label("unknown user")
                    .help("a package that is not installed may bring it"),
            );
        }
    }
    for daemon in &slow_path.run {
        let made = |path: &str| {
            own(Path::new(path)) || slow_path.files.iter().any(|file| *file.path.value == *path)
        };
        // Programs of another root directory are not searched here.
        let here = root.is_none_or(|root| root.value == "/");
        if let Some(program) = daemon.command.first().filter(|_| here) {
            problems.extend(missing(program, made));
        }
        if let Some(reload) = &daemon.reload
            && let Reload::Command(words) = &reload.value
            && let Some(program) = words.first().filter(|_| here)
        {
            let program = At { value: program.clone(), place: reload.place };
            problems.extend(missing(&program, made));
        }
        for capability in &daemon.capabilities {
            if let Err(error) = check_capabilities(std::slice::from_ref(&capability.value)) {
                problems.push(
                    Problem::new(capability.place, error.to_string())
                        .label("unknown")
                        .help("their names are those of capabilities(7), like `sys_admin`"),
                );
            }
        }
    }
}

/// The mistakes of a program; `made` has the files that the slow path makes itself.
fn missing(program: &At<String>, made: impl Fn(&str) -> bool) -> Option<Problem> {
    let (name, path) = (&*program.value, Path::new(&program.value));
    if !path.is_absolute() {
        return find(name).is_none().then(|| {
            Problem::new(program.place, format!("there is no program {name:?}"))
                .label("not found")
                .help(format!("searched in {PATH}; is its package installed?"))
        });
    }
    if made(name) || is_program(path) {
        return None;
    }
    let problem = if path.exists() {
        Problem::new(program.place, format!("{name} is no program")).label("not an executable file")
    } else {
        Problem::new(program.place, format!("there is no {name}"))
            .label("not found")
            .help("is its package installed?")
    };
    Some(problem)
}
