//! `cluster cordon`, `uncordon`, `drain`, `takeover`: keep objects off a node, or move them away.

use std::process::ExitCode;

use europa_api::Key;
use europa_cluster::{Access, Etcd, Fate, Scope, wait};

use crate::exit::Failure;
use crate::table::{Colours, line};

pub(super) fn cordon(access: &Access, node: &str, why: Option<&str>) -> Result<ExitCode, Failure> {
    let changed = wait(async {
        let etcd = Etcd::connect(access).await?;
        europa_cluster::cordon(&etcd, node, why).await
    })?;
    match (why, changed) {
        (Some(_), true) => line!("node {node} gets nothing new"),
        (Some(_), false) => line!("node {node} has a cordon already"),
        (None, true) => line!("node {node} gets new routers and hosts again; none moves back"),
        (None, false) => line!("node {node} has no cordon"),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn drain(access: &Access, node: &str, dry_run: bool) -> Result<ExitCode, Failure> {
    let mut counts = Counts::default();
    wait(async {
        let etcd = Etcd::connect(access).await?;
        let mut tell = |key: &Key, fate: &Fate| counts.tell(node, key, fate, dry_run);
        europa_cluster::drain(&etcd, node, dry_run, &mut tell).await
    })?;
    let Counts { moved, stay } = counts;
    match dry_run {
        true => line!("dry run, nothing was changed: {moved} would move, {stay} stay"),
        false => line!("node {node} gets nothing new: {moved} moved, {stay} stay"),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn takeover(access: &Access, node: &str) -> Result<ExitCode, Failure> {
    let mut counts = Counts::default();
    wait(async {
        let etcd = Etcd::connect(access).await?;
        let mut tell = |key: &Key, fate: &Fate| counts.tell(node, key, fate, false);
        europa_cluster::take_over(&etcd, node, Scope::All, &[], &mut tell).await
    })?;
    line!("{} start elsewhere, {} stay away with node {node}", counts.moved, counts.stay);
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct Counts {
    moved: usize,
    stay: usize,
}

impl Counts {
    /// Prints a line about a router or host, with its losses if it has not moved yet.
    fn tell(&mut self, node: &str, key: &Key, fate: &Fate, dry_run: bool) {
        let colours = Colours::stdout();
        match fate {
            Fate::Moves { to, losses, took } => {
                self.moved += 1;
                let how = match took {
                    Some(took) => format!(" ({} ms)", took.as_millis()),
                    None if dry_run => format!(" by a start there; lost: {losses}"),
                    None => String::new(),
                };
                line!("{}", colours.green(&format!("{key}: {node} to {to}{how}")));
            }
            Fate::Stays(why) => {
                self.stay += 1;
                line!("{}", colours.yellow(&format!("{key} stays: {why}")));
            }
        }
    }
}
