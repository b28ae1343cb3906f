//! Rules that the simulation breaks one at a time, to prove that it detects the violation.

/// A rule that the signaller obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A removed reservation releases its bandwidth.
    GiveBandwidthBack,
    /// A removed reservation releases its label.
    GiveLabelBack,
    /// A removed LSP cancels its timers.
    CancelTimers,
    /// Path state that is not refreshed times out.
    ExpirePath,
    /// Reservations that are not refreshed time out.
    ExpireResv,
    /// A teardown is forwarded downstream.
    ForwardPathTear,
    /// A message that is older than a later one is ignored.
    IgnoreOvertaken,
    /// A message that is not acknowledged is sent again.
    Retransmit,
    /// Summary refreshes with unknown ids are refused.
    RefuseUnknownIds,
    /// A neighbour's new instance means that the neighbour has lost its state.
    NoticeRestart,
    /// LSPs that share count once.
    ShareExplicitly,
    /// A reservation that lacks resources leaves the others unchanged.
    RestoreTheOthers,
    /// The data plane is ready before the Resv goes upstream.
    DataPlaneFirst,
}

/// The broken one, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    #[cfg(test)]
    pub(crate) broken: Option<Rule>,
}

impl Rules {
    /// Whether a rule holds; outside tests every rule does.
    #[inline]
    pub(crate) fn hold(self, rule: Rule) -> bool {
        #[cfg(test)]
        return self.broken != Some(rule);
        #[cfg(not(test))]
        {
            let _ = rule;
            true
        }
    }
}
