//! Commands of containerlab's stages: `create`, `create-links`, `configure`, `healthy`, `exit`. Europa
//! makes all nodes in one step, so a node waits for no other.

use crate::Notes;
use crate::node::Lined;
use crate::yaml::Node as Yaml;

/// The stages in the order in which a node passes them.
const STAGES: [&str; 5] = ["create", "create-links", "configure", "healthy", "exit"];

/// The commands of a node's stages, in their order. Those for the machine are left out.
pub(crate) fn lines(name: &str, stages: &Yaml, notes: &mut Notes) -> Vec<Lined> {
    for (stage, value) in stages.entries() {
        if !STAGES.contains(&stage) {
            notes.add(value.line, format!("node {name}: there is no stage {stage:?}"));
        }
    }
    let found = STAGES.iter().filter_map(|stage| stages.get(stage));
    found.flat_map(|stage| of_stage(name, stage, notes)).collect()
}

fn of_stage(name: &str, stage: &Yaml, notes: &mut Notes) -> Vec<Lined> {
    if let Some(wait) = stage.get("wait-for") {
        let message = "`wait-for`: all nodes are made in one step, without order";
        notes.add(wait.line, format!("node {name}: {message}"));
    }
    let Some(exec) = stage.get("exec") else { return Vec::new() };
    // The form from before containerlab 0.59 has the phase as a key.
    let old = |phase: &str| exec.get(phase).map_or(&[][..], Yaml::items).iter();
    let mut found: Vec<Lined> = old("on-enter")
        .chain(old("on-exit"))
        .filter_map(|line| Some((line.line, line.text()?.to_owned())))
        .collect();
    for phase in ["on-enter", "on-exit"] {
        for item in exec.items() {
            let field = |field: &str| item.get(field).and_then(Yaml::text);
            if field("phase").unwrap_or("on-enter") != phase {
                continue;
            }
            let Some(command) = field("command") else { continue };
            if field("target").unwrap_or("container") == "container" {
                found.push((item.line, command.to_owned()));
            } else {
                let message = "a command for the machine is not run";
                notes.add(item.line, format!("node {name}: {command:?}: {message}"));
            }
        }
    }
    found
}
