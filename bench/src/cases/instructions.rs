//! `instructions`: instructions in the hot loops, counted by callgrind and compared with the
//! committed counts.
//!
//! Counts do not depend on the speed or the load of a machine, so they can be checked where no time
//! can be measured. They depend on compiler and optimisation. Each profile has its own counts, and
//! counts of another compiler are only printed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{Case, Options};
use crate::counted::{COUNTED, LOOPS};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table};
use crate::shell;

const PROFILE: &str = env!("EUROPA_BENCH_PROFILE");
const COMPILER: &str = env!("EUROPA_BENCH_COMPILER");
/// The fraction by which a loop's instructions may exceed the committed count.
const MAY_GROW: f64 = 0.05;

/// The counts of one profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    compiler: String,
    /// Instructions for each packet or look-up.
    loops: BTreeMap<String, f64>,
}

/// Committed counts of each profile.
type Committed = BTreeMap<String, Counts>;

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut notes = vec![format!(
        "Instructions for each packet or look-up, counted by callgrind in one thread on the same \
         input ({PROFILE}, {COMPILER}). Growth above {:.0} % over the committed counts fails.",
        MAY_GROW * 100.0
    )];
    if !shell::exists("valgrind") {
        if !options.asks(Case::Instructions) {
            notes.push("Not available: valgrind is not installed.".into());
            return Ok(outcome(&Counts::default(), None, notes));
        }
        return Err(Error::Other(
            "there is no valgrind to count with: `scripts/install-deps test` installs it".into(),
        ));
    }
    let mut fresh = Counts { compiler: COMPILER.into(), loops: BTreeMap::new() };
    for one in &LOOPS {
        progress.show(&format!("instructions: {}", one.name));
        interrupt::check()?;
        fresh.loops.insert(one.name.into(), count(one.name)?);
    }
    let mut committed = read(&options.counts)?;
    let before = committed.get(PROFILE).cloned();
    if options.write {
        committed.insert(PROFILE.into(), rounded(&fresh));
        write(&options.counts, &committed)?;
        notes.push(format!("Written into {}.", options.counts.display()));
        return Ok(outcome(&fresh, before.as_ref(), notes));
    }
    let outcome = |notes| outcome(&fresh, before.as_ref(), notes);
    let renew = "`europa-bench instructions --write` writes them";
    let Some(known) = &before else {
        notes.push(format!("Nothing is committed for {PROFILE}: {renew}."));
        return Ok(outcome(notes));
    };
    let grown = grown(known, &fresh);
    if grown.is_empty() {
        return Ok(outcome(notes));
    }
    let grown = grown.join("; ");
    if known.compiler != fresh.compiler {
        notes.push(format!(
            "{grown}: but the committed counts are of {}, so that nothing follows; {renew}.",
            known.compiler
        ));
        return Ok(outcome(notes));
    }
    Err(Error::Other(format!(
        "more instructions than committed: {grown}. If that must be so, {renew}, once in each \
         profile, and the commit says why"
    )))
}

/// Instructions for each packet or look-up of a loop.
fn count(name: &str) -> Result<f64> {
    let program = std::env::current_exe().context("this program")?;
    let words = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        &format!("--toggle-collect={COUNTED}"),
        &program.to_string_lossy(),
        "--count",
        name,
    ];
    let (said, told) = shell::run_both(&words)?;
    let units: Option<f64> = said.trim().parse().ok().filter(|units| *units > 0.0);
    match (collected(&told), units) {
        (Some(instructions), Some(units)) => Ok(instructions / units),
        _ => Err(Error::Other(format!("`{name}` was not counted: {said}{told}"))),
    }
}

/// Parses a line like `==7== Collected : 1234`.
fn collected(told: &str) -> Option<f64> {
    told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// Describes the loops whose counts have grown beyond the tolerance.
fn grown(known: &Counts, fresh: &Counts) -> Vec<String> {
    let more = |(name, now): (&String, &f64)| {
        let then = known.loops.get(name)?;
        let growth = now / then - 1.0;
        (growth > MAY_GROW)
            .then(|| format!("{name}: {now:.1}, was {then:.1} (+{:.0} %)", growth * 100.0))
    };
    fresh.loops.iter().filter_map(more).collect()
}

fn rounded(counts: &Counts) -> Counts {
    let loops = counts.loops.iter().map(|(name, n)| (name.clone(), (n * 10.0).round() / 10.0));
    Counts { compiler: counts.compiler.clone(), loops: loops.collect() }
}

fn read(path: &Path) -> Result<Committed> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Error::Other(format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Committed::new()),
        Err(error) => Err(error).context(format!("reading {}", path.display())),
    }
}

fn write(path: &Path, committed: &Committed) -> Result<()> {
    let text =
        serde_json::to_string_pretty(committed).map_err(|error| Error::Other(error.to_string()))?;
    std::fs::write(path, text + "\n").context(format!("writing {}", path.display()))
}

fn outcome(fresh: &Counts, before: Option<&Counts>, notes: Vec<String>) -> Outcome {
    let columns = [
        ("loop", Align::Left),
        ("instructions", Align::Right),
        ("committed", Align::Right),
        ("change", Align::Right),
    ];
    let mut table = Table::new("Instructions of the hot loops", &columns);
    for one in &LOOPS {
        let Some(now) = fresh.loops.get(one.name) else { continue };
        let then = before.and_then(|before| before.loops.get(one.name));
        table.push([
            one.name.to_owned(),
            format!("{now:.1}"),
            then.map_or("–".into(), |then| format!("{then:.1}")),
            then.map_or("–".into(), |then| format!("{:+.1} %", (now / then - 1.0) * 100.0)),
        ]);
    }
    if fresh.loops.is_empty() {
        table.push(vec!["–".to_owned(); columns.len()]);
    }
    Outcome {
        name: "instructions",
        title: "Instructions of the hot loops".into(),
        tables: vec![table],
        charts: Vec::new(),
        notes,
        data: json!({ "profile": PROFILE, "counts": fresh, "committed": before }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(loops: &[(&str, f64)]) -> Counts {
        let loops = loops.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counts { compiler: "one".into(), loops }
    }

    #[test]
    fn growth_above_the_limit_is_told_and_nothing_else() {
        let known = counts(&[("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let fresh = counts(&[("a", 104.0), ("b", 106.0), ("c", 50.0), ("new", 9.0)]);
        assert_eq!(grown(&known, &fresh), ["b: 106.0, was 100.0 (+6 %)"]);
    }

    #[test]
    fn what_callgrind_says_is_read() {
        let told = "==9== Events    : Ir\n==9== Collected : 25600\n==9== \n";
        assert_eq!(collected(told), Some(25_600.0));
        assert_eq!(collected("==9== error"), None);
    }

    #[test]
    fn committed_counts_are_those_of_the_loops() {
        let text = include_str!("../../instructions.json");
        let committed: Committed = serde_json::from_str(text).expect("right JSON");
        for (profile, counts) in committed {
            let known: Vec<&String> = counts.loops.keys().collect();
            let mut names: Vec<&str> = LOOPS.iter().map(|one| one.name).collect();
            names.sort_unstable();
            assert_eq!(known, names, "{profile}");
        }
    }
}
