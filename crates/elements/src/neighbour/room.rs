//! What packets that wait may take of a pool, in all tables of a graph together.
//!
//! Whoever sends to addresses where nobody is could otherwise have a small pool wait for answers
//! that never come, and nothing else be received meanwhile.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

use europa_engine::InitContext;

use super::{Address, Neighbours};
use crate::arp_querier::ARPQuerier;
use crate::ip6_nd_solicitor::IP6NDSolicitor;

/// The fraction of the pool's slots.
const FRACTION: usize = 8;
/// Packets that may wait however small the pool is.
const FEWEST: usize = 8;

/// Places that all tables share.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    taken: Cell<usize>,
}

/// What one table has of them; it is given back with the table.
#[derive(Debug)]
pub(super) struct Share {
    room: Rc<Room>,
    mine: usize,
}

impl Share {
    pub(super) fn is_full(&self) -> bool {
        self.room.taken.get() >= self.room.most
    }

    pub(super) fn take(&mut self) {
        self.mine += 1;
        self.room.taken.set(self.room.taken.get() + 1);
    }

    pub(super) fn give(&mut self) {
        self.mine = self.mine.saturating_sub(1);
        self.room.taken.set(self.room.taken.get().saturating_sub(1));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.set(self.room.taken.get().saturating_sub(self.mine));
    }
}

impl<A: Address> Neighbours<A> {
    /// Has no more packets wait than there is room for; a quarter of it at most for a neighbour.
    pub(crate) fn set_room(&mut self, room: Rc<Room>) {
        self.limits.packets_each = self.limits.packets_each.min((room.most / 4).max(1));
        self.share = Some(Share { room, mine: 0 });
    }

    fn room(&self) -> Option<Rc<Room>> {
        Some(self.share.as_ref()?.room.clone())
    }
}

/// The room of this graph: that of the first element that has some.
pub(crate) fn room(context: &mut InitContext<'_>) -> Rc<Room> {
    for index in 0..context.names().len() {
        let Some(element) = context.element(index) else { continue };
        let element: &mut dyn Any = element;
        let found = match element.downcast_ref::<ARPQuerier>() {
            Some(querier) => querier.neighbours().room(),
            None => element.downcast_ref().and_then(|s: &IP6NDSolicitor| s.neighbours().room()),
        };
        if let Some(room) = found {
            return room;
        }
    }
    let most = (context.arena().capacity() / FRACTION).max(FEWEST);
    Rc::new(Room { most, taken: Cell::new(0) })
}
