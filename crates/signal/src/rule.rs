//! Rules that the simulation breaks one at a time, to prove that it detects this.

/// A rule that the signaller obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A removed one releases its bandwidth.
    GiveBandwidthBack,
    /// A removed one releases its label.
    GiveLabelBack,
    /// A removed one cancels its timers.
    CancelTimers,
    /// Path state that is not refreshed times out.
    ExpirePath,
    /// Reservations that are not refreshed time out.
    ExpireResv,
    /// A teardown is forwarded downstream.
    ForwardPathTear,
    /// A message older than a later one is ignored.
    IgnoreOvertaken,
    /// A message that is not acknowledged is sent again.
    Retransmit,
    /// Summary refreshes with unknown ids are refused.
    RefuseUnknownIds,
    /// A neighbour's new instance means that its state is lost.
    NoticeRestart,
    /// LSPs that share count once.
    ShareExplicitly,
    /// A reservation without enough resources leaves the others unchanged.
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
