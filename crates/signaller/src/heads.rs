//! Flows that begin at a router. Each flow is a tunnel, whose LSPs have numbers. A new path is a
//! new LSP; it carries the flow before the former LSP is removed (RFC 3209, section 2.5).

use std::net::IpAddr;
use std::time::Duration;

use europa_label::{Head, LspId};
use europa_signal::wire::{
    ErrorSpec, ExplicitHop, ExplicitRoute, LabelRequest, Sender, Session, SessionAttribute,
    TokenBucket, Tspec,
};
use europa_signal::{LspKey, Time, Tunnel};

use crate::convert;
use crate::orders::{FlowPlan, HopPlan};

/// The time for which an LSP stays after another one carries its flow, because packets may be in
/// transit in it.
const LINGERS: Duration = Duration::from_secs(1);
/// The smallest packet size in a reservation, in bytes: an IPv4 header and 44 bytes.
const SMALLEST: u32 = 64;

/// A request to the state machine.
pub(crate) enum Wish {
    Create(Tunnel),
    Change(LspKey, Tspec),
    Delete(LspKey),
}

/// A flow that begins here.
pub(crate) struct HeadFlow {
    pub(crate) plan: FlowPlan,
    own: IpAddr,
    mtu: u32,
    /// The LSP that carries the flow, or carried it last.
    pub(crate) active: Option<u16>,
    pub(crate) is_up: bool,
    /// The LSP that will carry it.
    pub(crate) next: Option<u16>,
    number: u16,
    retired: Vec<(u16, Time)>,
    pub(crate) error: Option<ErrorSpec>,
    /// The path that the signaller has found. The flow uses it if the document names no path and
    /// the routes' path has no room.
    found: Vec<HopPlan>,
    /// The flow has no path, and its document names none, so the signaller searches for one.
    pub(crate) searches: bool,
}

impl HeadFlow {
    /// Makes a flow that begins at a router of this address. LSP numbers up to `used` may be in use
    /// elsewhere.
    pub(crate) fn new(plan: FlowPlan, own: IpAddr, mtu: u32, used: u16) -> Self {
        Self {
            plan,
            own,
            mtu,
            active: None,
            is_up: false,
            next: None,
            number: used,
            retired: Vec::new(),
            error: None,
            found: Vec::new(),
            searches: false,
        }
    }

    /// Begins to signal; `again` is the number of an LSP that the data plane has kept.
    pub(crate) fn begin(&mut self, again: Option<u16>) -> Wish {
        self.number = again.unwrap_or(self.number.wrapping_add(1).max(1));
        self.next = Some(self.number);
        if let Some(kept) = again {
            self.keep(kept);
        }
        Wish::Create(self.tunnel(self.number))
    }

    /// The data plane has kept this LSP, and continues with it until it is known whether the other
    /// routers do.
    pub(crate) fn keep(&mut self, kept: u16) {
        (self.number, self.active, self.is_up) = (kept, Some(kept), true);
    }

    /// Whether its LSP is kept, but not signalled yet.
    pub(crate) fn is_only_kept(&self, kept: u16) -> bool {
        self.active == Some(kept) && self.is_up && self.next.is_none()
    }

    /// Signals a kept LSP along the path that its packets take.
    pub(crate) fn begin_along(&mut self, kept: u16, path: Vec<HopPlan>) -> Wish {
        self.found = path;
        self.begin(Some(kept))
    }

    pub(crate) fn key(&self, lsp: u16) -> LspKey {
        LspKey {
            session: Session::new(self.plan.destination, self.plan.tunnel, self.own),
            sender: Sender { address: self.own, lsp },
        }
    }

    /// The number of the LSP with this name, if it belongs to the flow.
    pub(crate) fn number_of(&self, key: &LspKey) -> Option<u16> {
        (self.key(key.sender.lsp) == *key).then_some(key.sender.lsp)
    }

    fn tspec(&self) -> Tspec {
        Tspec(TokenBucket {
            rate: (self.plan.rate as f32).into(),
            depth: (self.plan.burst as f32).into(),
            peak: f32::INFINITY.into(),
            smallest: SMALLEST,
            largest: self.mtu.max(SMALLEST),
        })
    }

    fn tunnel(&self, lsp: u16) -> Tunnel {
        let path = if self.plan.path.is_empty() { &self.found } else { &self.plan.path };
        let hops = path.iter().map(|hop| match hop.is_loose {
            true => ExplicitHop::loose(hop.address),
            false => ExplicitHop::strict(hop.address),
        });
        Tunnel {
            lsp: self.key(lsp),
            tspec: self.tspec(),
            attribute: SessionAttribute {
                affinity: None,
                setup: self.plan.setup,
                hold: self.plan.hold,
                flags: SessionAttribute::LABELS | SessionAttribute::SHARED_EXPLICIT,
                name: self.plan.name.clone().into_bytes(),
            },
            route: ExplicitRoute(hops.collect()),
            is_recorded: true,
            protocol: match self.plan.destination {
                IpAddr::V4(_) => LabelRequest::IPV4,
                IpAddr::V6(_) => LabelRequest::IPV6,
            },
        }
    }

    /// Whether a flow can become another without a new tunnel.
    pub(crate) fn is_same_tunnel(&self, plan: &FlowPlan) -> bool {
        (self.plan.destination, self.plan.tunnel) == (plan.destination, plan.tunnel)
    }

    /// Becomes another flow of the same tunnel.
    pub(crate) fn change(&mut self, plan: FlowPlan) -> Vec<Wish> {
        let old = std::mem::replace(&mut self.plan, plan);
        let new = &self.plan;
        let is_moved = (&old.path, old.setup, old.hold) != (&new.path, new.setup, new.hold);
        let is_changed = (old.rate, old.burst) != (new.rate, new.burst);
        let mut wishes = Vec::new();
        if is_moved {
            if let Some(next) = self.next {
                wishes.push(Wish::Delete(self.key(next)));
            }
            self.error = None;
            self.found.clear();
            wishes.push(self.begin(None));
        }
        if is_changed {
            let mut all: Vec<u16> = self.active.into_iter().collect();
            all.extend(self.next.filter(|_| !is_moved));
            let tspec = self.tspec();
            wishes.extend(all.into_iter().map(|lsp| Wish::Change(self.key(lsp), tspec)));
        }
        wishes
    }

    /// An LSP was refused.
    pub(crate) fn refused(&mut self) {
        self.searches = self.plan.path.is_empty() && !self.is_up;
    }

    /// Signals a path with room, unless the flow has already tried this path.
    pub(crate) fn take_path(&mut self, path: Vec<HopPlan>) -> Vec<Wish> {
        if path == self.found || self.is_up {
            return Vec::new();
        }
        self.found = path;
        let mut wishes = Vec::new();
        wishes.extend(self.next.map(|next| Wish::Delete(self.key(next))));
        wishes.push(self.begin(None));
        wishes
    }

    /// An LSP is in place. Returns whether the flow's packets now take another path.
    pub(crate) fn up(&mut self, lsp: u16, now: Time) -> bool {
        if self.next == Some(lsp) {
            self.next = None;
            let before = self.active.replace(lsp).filter(|before| *before != lsp);
            self.retired.extend(before.map(|before| (before, now + LINGERS)));
        } else if self.active != Some(lsp) {
            return false;
        }
        self.error = None;
        self.is_up = true;
        true
    }

    /// An LSP is down. Returns whether the flow now has none.
    pub(crate) fn down(&mut self, lsp: u16) -> bool {
        let was_up = self.active == Some(lsp) && self.is_up;
        self.is_up &= !was_up;
        was_up
    }

    /// Requests to signal again an LSP that is not in place, without waiting for its refresh.
    pub(crate) fn again(&self) -> Vec<Wish> {
        match self.next.filter(|next| self.active != Some(*next)) {
            Some(next) => vec![Wish::Delete(self.key(next)), Wish::Create(self.tunnel(next))],
            None => Vec::new(),
        }
    }

    /// The time of the next timer.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.retired.iter().map(|(_, due)| *due).min()
    }

    /// Requests to delete retired LSPs whose time is over.
    pub(crate) fn retire(&mut self, now: Time) -> Vec<Wish> {
        let (due, stay) = self.retired.iter().partition(|(_, due)| *due <= now);
        self.retired = stay;
        let due: Vec<(u16, Time)> = due;
        due.into_iter().map(|(lsp, _)| Wish::Delete(self.key(lsp))).collect()
    }

    /// Requests to delete all its LSPs.
    pub(crate) fn end(&self) -> Vec<Wish> {
        let retired = self.retired.iter().map(|(lsp, _)| *lsp);
        let all = self.active.into_iter().chain(self.next).chain(retired);
        all.map(|lsp| Wish::Delete(self.key(lsp))).collect()
    }

    /// The head's entry for the router's fast path.
    pub(crate) fn head(&self) -> Head {
        let lsp: Option<LspId> =
            self.active.filter(|_| self.is_up).map(|lsp| convert::lsp_id(&self.key(lsp)));
        Head {
            name: self.plan.name.clone(),
            prefixes: self.plan.prefixes.clone(),
            lsp,
            while_down: self.plan.while_down,
            police: [self.plan.rate, self.plan.burst],
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_label::WhileDown;

    use super::*;
    use crate::orders::HopPlan;

    fn flow() -> HeadFlow {
        let plan = FlowPlan {
            name: "f".into(),
            router: "a".into(),
            destination: "10.0.9.1".parse().unwrap(),
            tunnel: 7,
            rate: 1e6,
            burst: 3e4,
            setup: 7,
            hold: 7,
            path: Vec::new(),
            while_down: WhileDown::Drop,
            prefixes: Vec::new(),
        };
        HeadFlow::new(plan, "10.0.1.1".parse().unwrap(), 1500, 0)
    }

    fn told(wishes: &[Wish]) -> Vec<(&'static str, u16)> {
        wishes
            .iter()
            .map(|wish| match wish {
                Wish::Create(tunnel) => ("create", tunnel.lsp.sender.lsp),
                Wish::Change(key, _) => ("change", key.sender.lsp),
                Wish::Delete(key) => ("delete", key.sender.lsp),
            })
            .collect()
    }

    #[test]
    fn another_path_is_made_before_the_old_one_is_broken() {
        let time = |seconds| Time::after(Duration::from_secs(seconds));
        let mut flow = flow();
        assert_eq!(told(&[flow.begin(None)]), [("create", 1)]);
        assert!(flow.up(1, time(1)) && flow.head().lsp.is_some_and(|lsp| lsp.lsp == 1));
        let hop = HopPlan { address: "10.0.2.2".parse().unwrap(), is_loose: false };
        let other = FlowPlan { path: vec![hop], ..flow.plan.clone() };
        assert_eq!(told(&flow.change(other.clone())), [("create", 2)]);
        assert_eq!(flow.head().lsp.map(|lsp| lsp.lsp), Some(1), "until the new one is in place");
        // A third path is requested before the second one is up.
        let third = FlowPlan { path: Vec::new(), ..other };
        assert_eq!(told(&flow.change(third)), [("delete", 2), ("create", 3)]);
        assert!(!flow.up(2, time(2)), "it has been given up");
        assert!(flow.up(3, time(3)) && flow.head().lsp.is_some_and(|lsp| lsp.lsp == 3));
        assert!(flow.retire(time(3)).is_empty());
        assert_eq!(told(&flow.retire(time(4))), [("delete", 1)]);
        assert!(!flow.down(1) && flow.down(3) && flow.head().lsp.is_none());
        assert_eq!(told(&flow.end()), [("delete", 3)]);
    }

    #[test]
    fn what_the_data_plane_has_kept_goes_on() {
        let mut flow = flow();
        assert_eq!(told(&[flow.begin(Some(9))]), [("create", 9)]);
        assert!(flow.head().lsp.is_some_and(|lsp| lsp.lsp == 9));
        assert!(flow.up(9, Time::default()) && flow.retire(Time::after(LINGERS * 9)).is_empty());
        let moved = FlowPlan { setup: 3, hold: 3, ..flow.plan.clone() };
        assert_eq!(told(&flow.change(moved)), [("create", 10)]);
    }

    #[test]
    fn a_found_path_is_signalled_again_as_it_was() {
        let hop = HopPlan { address: "10.0.2.2".parse().unwrap(), is_loose: false };
        let mut flow = flow();
        flow.keep(9);
        assert!(flow.head().lsp.is_some_and(|lsp| lsp.lsp == 9) && flow.is_only_kept(9));
        assert_eq!(told(&[flow.begin_along(9, vec![hop])]), [("create", 9)]);
        assert!(!flow.is_only_kept(9) && flow.tunnel(9).route.0.len() == 1);
        // The same path is not tried as if it were another one.
        flow.up(9, Time::default());
        flow.down(9);
        flow.refused();
        assert!(flow.searches && flow.take_path(vec![hop]).is_empty());
    }

    #[test]
    fn a_flow_without_a_path_takes_one_that_was_found() {
        let hop = HopPlan { address: "10.0.2.2".parse().unwrap(), is_loose: false };
        let mut flow = flow();
        flow.begin(None);
        assert!(!flow.searches);
        flow.refused();
        assert!(flow.searches);
        assert_eq!(told(&flow.take_path(vec![hop])), [("delete", 1), ("create", 2)]);
        assert_eq!(flow.tunnel(2).route.0.len(), 1);
        assert!(flow.take_path(vec![hop]).is_empty(), "it is being tried");
        flow.up(2, Time::default());
        flow.refused();
        assert!(!flow.searches && flow.take_path(Vec::new()).is_empty(), "it is up");
        // A flow that names a path waits for room on it.
        let named = FlowPlan { path: vec![hop], ..flow.plan.clone() };
        flow.change(named);
        flow.down(2);
        flow.refused();
        assert!(!flow.searches);
    }

    #[test]
    fn another_bandwidth_changes_what_is_there() {
        let mut flow = flow();
        flow.begin(None);
        flow.up(1, Time::default());
        let more = FlowPlan { rate: 2e6, ..flow.plan.clone() };
        assert_eq!(told(&flow.change(more)), [("change", 1)]);
        let same = flow.plan.clone();
        assert!(flow.change(same).is_empty());
    }
}
