//! The faults that effects have met on the real and on the simulated machine.

use std::collections::BTreeMap;
use std::fmt;

use europa_control::witness::{Effect, Ending, Record};
use europa_simulate::{EFFECTS, FAULTS, Fault, knows};

/// Effects and their faults, with counts of the real and of the simulated machine. An effect that
/// went well has no fault.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<(Effect, Option<Fault>), [u64; 2]>);

impl Table {
    /// Counts the results of effects.
    pub(crate) fn add(&mut self, side: usize, records: &[Record]) {
        let ended = records.iter().filter_map(|record| Some((record.effect, record.ending?)));
        for (effect, ending) in ended {
            let fault = match ending {
                Ending::Well => None,
                Ending::NotNow => Some(Fault::NotNow),
                // A provoked fault is counted where it is provoked.
                Ending::Refused | Ending::Half | Ending::RefusedLater => continue,
            };
            self.count(side, effect, fault);
        }
    }

    /// Counts a fault that was provoked.
    pub(crate) fn provoked(&mut self, side: usize, effect: Effect, fault: Fault) {
        self.count(side, effect, Some(fault));
    }

    fn count(&mut self, side: usize, effect: Effect, fault: Option<Fault>) {
        self.0.entry((effect, fault)).or_default()[side] += 1;
    }

    /// The faults that effects can meet on the real machine, and have not met there.
    pub(crate) fn left(&self) -> Vec<(Effect, Fault)> {
        let all = EFFECTS.into_iter().flat_map(|effect| FAULTS.map(|fault| (effect, fault)));
        let is_left = |(effect, fault): &(Effect, Fault)| {
            let met = self.0.get(&(*effect, Some(*fault))).is_some_and(|[real, _]| *real > 0);
            knows(*effect, *fault) && impossible(*effect, *fault).is_none() && !met
        };
        all.filter(is_left).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "effects on the real machine; x: impossible there, -: impossible for all")?;
        write!(f, "{:<16}{:>8}", "effect", "well")?;
        FAULTS.iter().try_for_each(|fault| write!(f, "{fault:>14}"))?;
        let count = |effect, fault| self.0.get(&(effect, fault)).map_or(0, |[real, _]| *real);
        for effect in EFFECTS {
            write!(f, "\n{effect:<16}{:>8}", count(effect, None))?;
            for fault in FAULTS {
                let met = count(effect, Some(fault));
                match (knows(effect, fault), impossible(effect, fault)) {
                    (false, _) if met == 0 => write!(f, "{:>14}", "-")?,
                    (_, Some(_)) if met == 0 => write!(f, "{:>14}", "x")?,
                    _ => write!(f, "{met:>14}")?,
                }
            }
        }
        write!(f, "\nimpossible on the real machine:")?;
        for effect in EFFECTS {
            for fault in FAULTS.into_iter().filter(|fault| knows(effect, *fault)) {
                if let Some(why) = impossible(effect, fault) {
                    write!(f, "\n  {effect} {fault}: {why}")?;
                }
            }
        }
        let left = self.left();
        let left: Vec<_> = left.iter().map(|(effect, fault)| format!("{effect} {fault}")).collect();
        write!(f, "\nnot met in this run: {}", left.join(", "))
    }
}

/// The reason why an effect cannot meet a fault on the real machine, although it can on the
/// simulated one.
pub(crate) fn impossible(effect: Effect, fault: Fault) -> Option<&'static str> {
    use Effect as E;
    use Fault as F;
    Some(match (effect, fault) {
        (_, F::KilledBetween) => {
            "a witness hears of effects, not of records: tests/tests/kill_between.rs kills between both"
        }
        (
            E::RemoveRouter
            | E::RemoveRelay
            | E::ClosePort
            | E::ChangePort
            | E::AdaptPort
            | E::ImpairRelay
            | E::UpdateRouter
            | E::MakeRelay
            | E::StartSlowPaths,
            F::NotNow,
        ) => "the loop does it at once: it waits for no thread",
        (E::UpdateRouter, F::RefusedLater) => {
            "the checking process has accepted the same configuration in the same code"
        }
        (E::StartSlowPaths, F::Late | F::Silent | F::RefusedLater) => {
            "its programs read their files again at a signal, which has no answer"
        }
        (E::Settle, F::Refused) => {
            "the checks of documents refuse such queues, and a switch without an answer counts as gone"
        }
        (E::Commit, F::Late) => "a thread of the node writes to memory, and cannot stop alone",
        _ => return None,
    })
}
