//! The faults, the effects at which they occur, and how often.

use std::collections::BTreeMap;
use std::fmt;

use europa_control::witness::Effect;

/// All effects.
pub const EFFECTS: [Effect; 20] = [
    Effect::RemoveRouter,
    Effect::RemoveRelay,
    Effect::ClosePort,
    Effect::TrimHosts,
    Effect::MakeHosts,
    Effect::ChangeSlowPaths,
    Effect::OpenPort,
    Effect::ChangePort,
    Effect::AdaptPort,
    Effect::StartSwitch,
    Effect::ChangeFilters,
    Effect::ImpairRelay,
    Effect::AddRouter,
    Effect::UpdateRouter,
    Effect::MakeRelay,
    Effect::StartSlowPaths,
    Effect::Look,
    Effect::Check,
    Effect::Settle,
    Effect::Commit,
];

/// Faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The effect is refused; nothing has changed.
    Refused,
    /// It fails half-way.
    Half,
    /// A resource is missing for a moment.
    NotNow,
    /// The node is killed before it.
    KilledBefore,
    /// The node is killed between the effect and the record of it.
    KilledBetween,
    /// The node is killed after it.
    KilledAfter,
    /// The switch is killed with it.
    SwitchKilled,
    /// A later answer arrives very late.
    Late,
    /// A later answer never arrives.
    Silent,
    /// A later answer is a refusal.
    RefusedLater,
}

/// All faults.
pub const FAULTS: [Fault; 10] = [
    Fault::Refused,
    Fault::Half,
    Fault::NotNow,
    Fault::KilledBefore,
    Fault::KilledBetween,
    Fault::KilledAfter,
    Fault::SwitchKilled,
    Fault::Late,
    Fault::Silent,
    Fault::RefusedLater,
];

/// Whether a fault can occur at an effect.
pub(crate) fn meets(effect: Effect, fault: Fault) -> bool {
    let answers_later = matches!(
        effect,
        Effect::AddRouter | Effect::UpdateRouter | Effect::StartSlowPaths | Effect::Check
    );
    let has_record = matches!(
        effect,
        Effect::RemoveRouter
            | Effect::RemoveRelay
            | Effect::ClosePort
            | Effect::TrimHosts
            | Effect::MakeHosts
            | Effect::ChangeSlowPaths
            | Effect::OpenPort
            | Effect::StartSwitch
            | Effect::AddRouter
            | Effect::UpdateRouter
            | Effect::MakeRelay
    );
    match (effect, fault) {
        // A look changes nothing: if the process ends during it, this equals an end before the next
        // effect.
        (Effect::Look, fault) => fault == Fault::Refused,
        (_, Fault::KilledBetween) => has_record,
        (_, Fault::KilledBefore | Fault::KilledAfter | Fault::SwitchKilled) => true,
        (Effect::Settle, fault) => matches!(fault, Fault::Refused | Fault::NotNow),
        (Effect::Commit, fault) => matches!(fault, Fault::Refused | Fault::Late),
        (Effect::Check, fault) => {
            matches!(fault, Fault::Refused | Fault::RefusedLater | Fault::Late)
        }
        (_, Fault::Late | Fault::Silent | Fault::RefusedLater) => answers_later,
        (Effect::StartSwitch | Effect::StartSlowPaths, Fault::Half) => false,
        _ => true,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// How often each effect has met each fault, and how often it met none.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    met: BTreeMap<(Effect, Fault), u64>,
    went: BTreeMap<Effect, u64>,
}

impl Coverage {
    /// An effect was tried; its fault.
    pub fn note(&mut self, effect: Effect, fault: Option<Fault>) {
        match fault {
            Some(fault) => *self.met.entry((effect, fault)).or_default() += 1,
            None => *self.went.entry(effect).or_default() += 1,
        }
    }

    /// Adds another one's counts.
    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.met {
            *self.met.entry(*key).or_default() += count;
        }
        for (key, count) in &other.went {
            *self.went.entry(*key).or_default() += count;
        }
    }

    /// Effects that have not met a fault that they can meet.
    pub fn missing(&self) -> Vec<(Effect, Fault)> {
        let all = EFFECTS.into_iter().flat_map(|effect| FAULTS.map(|fault| (effect, fault)));
        all.filter(|(effect, fault)| {
            meets(*effect, *fault) && !self.met.contains_key(&(*effect, *fault))
        })
        .collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16}{:>10}", "effect", "well")?;
        FAULTS.iter().try_for_each(|fault| write!(f, "{fault:>14}"))?;
        for effect in EFFECTS {
            let well = self.went.get(&effect).copied().unwrap_or_default();
            write!(f, "\n{effect:<16}{well:>10}")?;
            for fault in FAULTS {
                let count = self.met.get(&(effect, fault)).copied().unwrap_or_default();
                match meets(effect, fault) {
                    true => write!(f, "{count:>14}")?,
                    false => write!(f, "{:>14}", "-")?,
                }
            }
        }
        Ok(())
    }
}
