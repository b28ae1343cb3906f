//! Runs seeds, and checks that broken rules are detected.

#[path = "../../tests/common/capture.rs"]
mod capture;

use std::time::Duration;

use super::{Network, Plan};
use crate::rule::Rule;

/// Runs a seed: faults, a calm phase, and a phase without requests.
fn run(plan: Plan) -> Result<u64, String> {
    let mut network = Network::new(plan);
    run_in(&mut network)?;
    Ok(network.sent)
}

fn run_in(network: &mut Network) -> Result<(), String> {
    let ended = |network: &mut Network| network.violation.take().map_or(Ok(()), Err);
    let faults_ns = network.plan.faults_for.as_nanos() as u64;
    let settle_ns = network.plan.settles_within().as_nanos() as u64;
    network.run_until(faults_ns);
    ended(network)?;
    network.calm();
    network.run_until(faults_ns + settle_ns);
    ended(network)?;
    network.check()?;
    network.delete_all();
    network.run_until(faults_ns + 2 * settle_ns);
    ended(network)?;
    network.check_empty()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs `EUROPA_SEEDS` seeds from `EUROPA_SEED` on; by default 100 from 0. `EUROPA_LSPS` sets the
/// LSPs of a head, and `EUROPA_MINUTES` the duration of faults.
#[test]
fn when_it_settles_everything_is_as_the_heads_want_it() {
    let (first, count) = (number("EUROPA_SEED", 0), number("EUROPA_SEEDS", 100));
    let lsps = number("EUROPA_LSPS", 4) as usize;
    let faults = Duration::from_secs(60 * number("EUROPA_MINUTES", 1));
    let (mut sent, mut failed) = (0, Vec::new());
    for seed in first..first + count {
        let plan = Plan::new(seed, 50, lsps, faults);
        let mode = plan.mode;
        match run(plan) {
            Ok(messages) => sent += messages,
            Err(error) => failed.push(format!("seed {seed}, {mode:?}: {error}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    println!("{count} seeds, {sent} messages");
}

/// The messages of a network with faults, without authentication.
#[test]
fn tshark_finds_nothing_malformed_in_a_network() {
    for seed in [1, 2] {
        let mut network = Network::new(Plan::new(seed, 8, 4, Duration::from_secs(40)));
        network.record = Some(Vec::new());
        run_in(&mut network).unwrap();
        let sent: Vec<Vec<u8>> = network.record.take().unwrap();
        let Some(lines) = capture::dissect(&sent) else { return };
        // Hellos have one hop, so tshark reports their TTL of 1.
        let is_wrong = |field: &str| !field.is_empty() && !field.contains("Time To Live");
        let wrong = lines.iter().find(|line| line.split('\t').skip(2).any(is_wrong));
        assert_eq!(wrong, None, "seed {seed}, of {} messages", lines.len());
    }
}

const BREAKABLE: [Rule; 13] = [
    Rule::GiveBandwidthBack,
    Rule::GiveLabelBack,
    Rule::CancelTimers,
    Rule::ExpirePath,
    Rule::ExpireResv,
    Rule::ForwardPathTear,
    Rule::IgnoreOvertaken,
    Rule::Retransmit,
    Rule::RefuseUnknownIds,
    Rule::NoticeRestart,
    Rule::ShareExplicitly,
    Rule::RestoreTheOthers,
    Rule::DataPlaneFirst,
];

/// Each broken rule is detected within 200 seeds.
#[test]
fn broken_rules_are_noticed() {
    let mut unnoticed = Vec::new();
    for rule in BREAKABLE {
        let found = (0..number("EUROPA_PLANTED", 200)).find_map(|seed| {
            let mut plan = Plan::new(seed, 50, 4, Duration::from_secs(60));
            plan.broken = Some(rule);
            run(plan).err().map(|error| (seed, error))
        });
        match found {
            Some((seed, error)) => println!("{rule:?}: seed {seed}: {error}"),
            None => unnoticed.push(rule),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
