//! Changes of settings while packets wait.

use std::sync::atomic::AtomicU64;

use crate::bucket::Bucket;
use crate::codel::CodelState;
use crate::node::{
    ASSURED, CAP, CODEL, GUARANTEE, HEAD, Level, Node, Nodes, POLICIES, RED, ROOT, State,
};
use crate::red::RedState;
use crate::settings::{Limit, Policy, QueueSettings, Share};
use crate::tree::{Error, Id, PolicyState, Tree};

impl<T: Copy, S: AsRef<[AtomicU64]>> Tree<T, S> {
    /// Sets a node's share of its parent; the port's cap is the port's rate. All nodes keep their
    /// places.
    ///
    /// # Errors
    /// It has been removed.
    pub fn set_share(&mut self, id: Id, share: Share) -> Result<(), Error> {
        let node = self.get(id)?;
        self.shape(node, share);
        if node == ROOT {
            return Ok(());
        }
        self.count_weight(node, -1);
        self.nodes.at_mut(node).weight = share.weight.max(1);
        self.count_weight(node, 1);
        let turn = self.nodes.turn(node);
        let this = self.nodes.at_mut(node);
        this.deficit = this.deficit.min(0i32.saturating_add_unsigned(turn));
        let Node { state, flags, .. } = *this;
        let shape = self.shapes[node as usize];
        self.wheel.clear(node);
        match state {
            State::Capped if flags & CAP == 0 || shape.cap.is_open(self.now_ns) => {
                self.nodes.at_mut(node).state = State::Idle;
                self.standing().activate(node);
            }
            State::Capped => self.wheel.set(node, shape.cap.opens_ns()),
            State::Ready if flags & (GUARANTEE | ASSURED) == ASSURED => self.standing().forgo(node),
            State::Ready if flags & (GUARANTEE | ASSURED) == GUARANTEE => {
                self.wheel.set(node, shape.guarantee.opens_ns());
            }
            State::Idle | State::Ready => (),
        }
        Ok(())
    }

    /// Sets the limit of waiting packets. Packets that already wait stay.
    ///
    /// # Errors
    /// It has been removed.
    pub fn set_limit(&mut self, id: Id, limit: Limit) -> Result<(), Error> {
        let node = self.get(id)?;
        self.limit(node, limit);
        Ok(())
    }

    /// Sets all of a queue.
    ///
    /// # Errors
    /// The node has been removed, or is no queue.
    pub fn set_queue(&mut self, id: Id, settings: QueueSettings) -> Result<(), Error> {
        let node = self.get(id)?;
        let found = self.nodes.at(node).level;
        if found != Level::Queue {
            return Err(Error::Level { found });
        }
        self.policy(node, settings.policy);
        self.limit(node, settings.limit);
        self.set_share(id, settings.share)
    }

    pub(crate) fn shape(&mut self, node: u32, share: Share) {
        let now = self.now_ns;
        let flags = self.nodes.at(node).flags;
        let shape = &mut self.shapes[node as usize];
        let wanted =
            [(&mut shape.cap, share.cap, CAP), (&mut shape.guarantee, share.guarantee, GUARANTEE)];
        let mut now_set = flags & !(CAP | GUARANTEE);
        for (bucket, rate, flag) in wanted {
            let Some(rate) = rate else { continue };
            if flags & flag == 0 {
                *bucket = Bucket::new(rate, now)
            } else {
                bucket.change(rate, now)
            }
            now_set |= flag;
        }
        self.nodes.at_mut(node).flags = now_set;
    }

    pub(crate) fn limit(&mut self, node: u32, limit: Limit) {
        let node = self.nodes.at_mut(node);
        self.has_limits |= node.level != Level::Queue && limit != Limit::NONE;
        (node.packet_limit, node.byte_limit) = (limit.packets, limit.bytes);
    }

    pub(crate) fn policy(&mut self, node: u32, policy: Policy) {
        let state = &mut self.policies[node as usize];
        let flag = match (policy, &mut *state) {
            (Policy::Tail, _) => 0,
            (Policy::Head, _) => HEAD,
            (Policy::Red(red), PolicyState::Red(old)) => {
                old.settings = red;
                RED
            }
            (Policy::Red(red), _) => {
                *state = PolicyState::Red(RedState::new(red, node.into()));
                RED
            }
            (Policy::Codel(codel), PolicyState::Codel(old)) => {
                old.settings = codel;
                CODEL
            }
            (Policy::Codel(codel), _) => {
                *state = PolicyState::Codel(CodelState::new(codel));
                CODEL
            }
        };
        let flags = &mut self.nodes.at_mut(node).flags;
        *flags = *flags & !POLICIES | flag;
    }
}
