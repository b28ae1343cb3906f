//! Reservations by interface and holder; sharing and preemption.

use std::collections::BTreeMap;

use crate::demand::Demand;
use crate::id::{InterfaceId, LspKey};
use crate::rule::{Rule, Rules};
use crate::wire::{Sender, Style};
use crate::world::{Admit, Holder, Lack};

/// The reservation of an LSP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) demand: Demand,
    /// 0 (best) to 7.
    pub(crate) hold: u8,
    /// Whether the LSP may stay for some time without a reservation when it is preempted.
    pub(crate) is_soft: bool,
}

#[derive(Debug, Default)]
struct Members {
    claims: BTreeMap<Sender, Claim>,
    /// The softly preempted LSPs of this group, which hold no resources.
    unpaid: Vec<Sender>,
    charged: Option<Demand>,
}

impl Members {
    /// The demand of the group (RFC 3209, section 2.4.2: for LSPs that share, the maximum counts).
    fn need(&self, rules: Rules) -> Option<Demand> {
        let paid = self.claims.iter().filter(|(sender, _)| !self.unpaid.contains(sender));
        paid.map(|(_, claim)| claim.demand).reduce(|one, other| {
            let mut joined = one.join(&other);
            if !rules.hold(Rule::ShareExplicitly) {
                joined.rate = one.rate + other.rate;
            }
            joined
        })
    }

    /// The best of its members' hold priorities.
    fn hold(&self) -> u8 {
        let paid = self.claims.iter().filter(|(sender, _)| !self.unpaid.contains(sender));
        paid.map(|(_, claim)| claim.hold).min().unwrap_or(u8::MAX)
    }
}

/// A preempted LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) lsp: LspKey,
    pub(crate) is_soft: bool,
}

/// The reason why there is no reservation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    Lack(Lack),
    /// The session has reservations of another style on this interface (RFC 2205, error 5).
    Style,
}

/// All reservations.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    links: BTreeMap<InterfaceId, BTreeMap<Holder, Members>>,
    pub(crate) rules: Rules,
}

fn group(lsp: &LspKey, style: Style) -> Holder {
    let alone = (style != Style::SharedExplicit).then_some(lsp.sender);
    Holder { session: lsp.session, alone }
}

impl Ledger {
    /// Makes or changes a reservation. Returns the preempted LSPs. An error changes nothing.
    pub(crate) fn reserve<A: Admit + ?Sized>(
        &mut self,
        admit: &mut A,
        interface: InterfaceId,
        lsp: &LspKey,
        style: Style,
        setup: u8,
        claim: Claim,
    ) -> Result<Vec<Victim>, Refusal> {
        let rules = self.rules;
        let own = group(lsp, style);
        let link = self.links.entry(interface).or_default();
        let first = Holder { session: own.session, alone: None };
        // Within a session, the shared group comes before single LSPs.
        let mut of_session = link.range(first..).take_while(|(key, _)| key.session == own.session);
        if of_session.any(|(key, _)| key.alone.is_some() != own.alone.is_some()) {
            return Err(Refusal::Style);
        }
        let members = link.entry(own).or_default();
        let (before, was_unpaid) =
            (members.claims.insert(lsp.sender, claim), members.unpaid.clone());
        members.unpaid.retain(|sender| *sender != lsp.sender);
        let need = members.need(rules);
        match make_room(admit, interface, link, own, need, setup, rules) {
            Ok(victims) => Ok(victims),
            Err(lack) => {
                if let Some(members) = link.get_mut(&own) {
                    members.unpaid = was_unpaid;
                    match before {
                        Some(before) => members.claims.insert(lsp.sender, before),
                        None => members.claims.remove(&lsp.sender),
                    };
                    if members.claims.is_empty() {
                        link.remove(&own);
                    }
                }
                Err(Refusal::Lack(lack))
            }
        }
    }

    /// Whether a reservation would fit, with preemption; nothing changes.
    pub(crate) fn would_fit<A: Admit + ?Sized>(
        &mut self,
        admit: &mut A,
        interface: InterfaceId,
        lsp: &LspKey,
        style: Style,
        setup: u8,
        demand: Demand,
    ) -> Result<(), Lack> {
        let own = group(lsp, style);
        let link = self.links.entry(interface).or_default();
        let held = link.get(&own).and_then(|members| members.charged);
        let others = link.get(&own).into_iter().flat_map(|members| {
            let paid = members.claims.iter().filter(|(sender, _)| !members.unpaid.contains(sender));
            paid.filter(|(sender, _)| **sender != lsp.sender).map(|(_, claim)| claim.demand)
        });
        let need = others.fold(demand, |all, other| all.join(&other));
        let mut freed = Vec::new();
        let mut result = admit.exchange(interface, &own, held.as_ref(), Some(&need));
        for key in candidates(link, own, setup) {
            let Some(charged) = link.get(&key).and_then(|members| members.charged) else {
                continue;
            };
            if result.is_ok() {
                break;
            }
            // Giving back never fails.
            if admit.exchange(interface, &key, Some(&charged), None).is_ok() {
                freed.push((key, charged));
            }
            result = admit.exchange(interface, &own, held.as_ref(), Some(&need));
        }
        if result.is_ok() {
            let _ = admit.exchange(interface, &own, Some(&need), held.as_ref());
        }
        for (key, charged) in freed.iter().rev() {
            // The old reservation existed before, and no other resource has been taken since.
            let _ = admit.exchange(interface, key, None, Some(charged));
        }
        result
    }

    /// Releases the resources of an LSP on an interface.
    pub(crate) fn release<A: Admit + ?Sized>(
        &mut self,
        admit: &mut A,
        interface: InterfaceId,
        lsp: &LspKey,
    ) {
        if !self.rules.hold(Rule::GiveBandwidthBack) {
            return;
        }
        let Some(link) = self.links.get_mut(&interface) else { return };
        for alone in [None, Some(lsp.sender)] {
            let key = Holder { session: lsp.session, alone };
            let Some(members) = link.get_mut(&key) else { continue };
            members.claims.remove(&lsp.sender);
            members.unpaid.retain(|sender| *sender != lsp.sender);
            let need = members.need(self.rules);
            // Taking less never fails.
            if admit.exchange(interface, &key, members.charged.as_ref(), need.as_ref()).is_ok() {
                members.charged = need;
            }
            if members.claims.is_empty() {
                link.remove(&key);
            }
        }
        if link.is_empty() {
            self.links.remove(&interface);
        }
    }

    /// Whether an LSP holds resources on an interface.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> impl Iterator<Item = (InterfaceId, LspKey)> {
        self.links.iter().flat_map(|(interface, link)| {
            link.iter().flat_map(move |(group, members)| {
                let session = group.session;
                let key = move |sender: &Sender| LspKey { session, sender: *sender };
                members.claims.keys().map(move |sender| (*interface, key(sender)))
            })
        })
    }

    /// The groups with resources on an interface.
    #[cfg(test)]
    pub(crate) fn charges(&self, interface: InterfaceId) -> impl Iterator<Item = Demand> {
        self.links.get(&interface).into_iter().flatten().filter_map(|(_, members)| members.charged)
    }
}

/// Groups that a reservation of this setup priority may preempt, the least important first.
fn candidates(link: &BTreeMap<Holder, Members>, own: Holder, setup: u8) -> Vec<Holder> {
    let others = link.iter().filter(|(key, members)| {
        // RFC 3209, section 4.7.3: the setup priority is better than the hold priority.
        **key != own && members.charged.is_some() && members.hold() > setup
    });
    let mut found: Vec<(u8, Holder)> =
        others.map(|(key, members)| (members.hold(), *key)).collect();
    found.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    found.into_iter().map(|(_, key)| key).collect()
}

/// Charges the group `own` with `need`, and preempts other groups if necessary.
fn make_room<A: Admit + ?Sized>(
    admit: &mut A,
    interface: InterfaceId,
    link: &mut BTreeMap<Holder, Members>,
    own: Holder,
    need: Option<Demand>,
    setup: u8,
    rules: Rules,
) -> Result<Vec<Victim>, Lack> {
    let held = link.get(&own).and_then(|members| members.charged);
    let mut result = admit.exchange(interface, &own, held.as_ref(), need.as_ref());
    let mut freed: Vec<(Holder, Demand)> = Vec::new();
    if result.is_err() {
        for key in candidates(link, own, setup) {
            let Some(charged) = link.get_mut(&key).and_then(|members| members.charged.take())
            else {
                continue;
            };
            // Giving back never fails.
            if admit.exchange(interface, &key, Some(&charged), None).is_ok() {
                freed.push((key, charged));
            }
            result = admit.exchange(interface, &own, held.as_ref(), need.as_ref());
            if result.is_ok() {
                break;
            }
        }
    }
    if let Err(lack) = result {
        if rules.hold(Rule::RestoreTheOthers) {
            for (key, charged) in freed.iter().rev() {
                // The old reservation existed before, and no other resource has been taken since.
                if admit.exchange(interface, key, None, Some(charged)).is_ok()
                    && let Some(members) = link.get_mut(key)
                {
                    members.charged = Some(*charged);
                }
            }
        }
        return Err(lack);
    }
    if let Some(members) = link.get_mut(&own) {
        members.charged = need;
    }
    // If smaller LSPs fit after a larger one was preempted, they stay: the most important first.
    let mut victims = Vec::new();
    for (key, charged) in freed.iter().rev() {
        let Some(members) = link.get_mut(key) else { continue };
        if admit.exchange(interface, key, None, Some(charged)).is_ok() {
            members.charged = Some(*charged);
            continue;
        }
        for (sender, claim) in &members.claims {
            if members.unpaid.contains(sender) {
                continue;
            }
            let lsp = LspKey { session: key.session, sender: *sender };
            victims.push(Victim { lsp, is_soft: claim.is_soft });
        }
        members.unpaid = members.claims.keys().copied().collect();
    }
    Ok(victims)
}
