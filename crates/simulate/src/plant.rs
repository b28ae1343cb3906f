//! Faults that are planted in control, to check that histories find them.

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The desired state is stored before its effects are possible.
    CommitBeforeEffect,
    /// A change is not undone.
    MissingInverse,
    /// An order to a router is lost, but the node assumes that it is carried out.
    LostOrder,
    /// The node forgets a router before it is removed.
    ForgetBeforeRemoval,
    /// A change of hosts that fails half-way counts as complete.
    HalfHostsForgotten,
    /// The node ignores a failed write of the store.
    SwallowedCommit,
    /// A dry run lists documents only, not their consequences.
    DryRunOfDocuments,
    /// Differences from unchanged documents are not repaired.
    UnchangedMeansDone,
    /// A router that does not start counts as ready.
    EndCountsAsReady,
    /// Ports are closed before the relays that use them.
    PortsBeforeRelays,
    /// An update that was refused half-way counts as done.
    AstrayForgotten,
    /// A starting node forgets undesired objects instead of removing them.
    LeakAtRestart,
    /// The numbered rules of a slice are forgotten although the slice's removal is undone.
    RulesForgotten,
    /// A starting node takes objects over that have no record: it does not know how to undo them.
    UnnotedAdopted,
    /// A starting node keeps records of objects that are gone.
    StrayNote,
    /// A plan is taken though the state has changed since its question.
    LatePlan,
}

/// All planted faults, by name.
pub const PLANTS: [(&str, Plant); 16] = [
    ("commit-before-effect", Plant::CommitBeforeEffect),
    ("missing-inverse", Plant::MissingInverse),
    ("lost-order", Plant::LostOrder),
    ("forget-before-removal", Plant::ForgetBeforeRemoval),
    ("half-hosts-forgotten", Plant::HalfHostsForgotten),
    ("swallowed-commit", Plant::SwallowedCommit),
    ("dry-run-of-documents", Plant::DryRunOfDocuments),
    ("unchanged-means-done", Plant::UnchangedMeansDone),
    ("end-counts-as-ready", Plant::EndCountsAsReady),
    ("ports-before-relays", Plant::PortsBeforeRelays),
    ("astray-forgotten", Plant::AstrayForgotten),
    ("leak-at-restart", Plant::LeakAtRestart),
    ("rules-forgotten", Plant::RulesForgotten),
    ("unnoted-adopted", Plant::UnnotedAdopted),
    ("stray-note", Plant::StrayNote),
    ("late-plan", Plant::LatePlan),
];

impl Plant {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        PLANTS.iter().find(|(known, _)| *known == name).map(|(_, plant)| *plant)
    }
}
