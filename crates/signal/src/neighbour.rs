//! A neighbour's message ids, and messages that it has not acknowledged (RFC 2961).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::auth::Window;
use crate::id::{LspKey, Time};
use crate::lsp::Side;
use crate::peer::PeerKey;
use crate::transmit::Outgoing;
use crate::wire::{Kind, MessageIdAck};

/// The state that a message is about.
pub(crate) type About = (LspKey, Side);

/// A message that is repeated until it is acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) outgoing: Outgoing,
    /// The state that it carries or removes; `None` for errors.
    pub(crate) about: Option<About>,
    pub(crate) sent: u8,
    pub(crate) again: Time,
}

/// A neighbour.
#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) peer: PeerKey,
    /// It supports RFC 2961.
    pub(crate) is_capable: bool,
    /// The epoch of its message ids.
    pub(crate) epoch: Option<u32>,
    /// The neighbour's messages, by id, that represent state of this node.
    pub(crate) received: BTreeMap<u32, About>,
    /// State that the neighbour has torn down, so that a reordered message does not restore it.
    pub(crate) removed: BTreeMap<About, (u32, Time)>,
    /// Acknowledgements for the neighbour that have not been sent.
    pub(crate) acks: Vec<MessageIdAck>,
    unacknowledged: BTreeMap<u32, Unacknowledged>,
    /// Unacknowledged messages, by the time of their retransmission.
    flight: BTreeSet<(Time, u32)>,
    /// Ids that wait for room in the window (RFC 8370, section 2.3); some may be superseded.
    waiting: VecDeque<u32>,
    /// Messages to the neighbour whose state is refreshed by their ids.
    pub(crate) summarised: BTreeMap<u32, About>,
    /// The last message about a state, whether acknowledged or not.
    latest: BTreeMap<About, u32>,
    /// Number of LSPs from or to the neighbour; an LSP in both directions counts twice.
    pub(crate) users: usize,
}

impl Neighbour {
    pub(crate) fn new(peer: PeerKey) -> Self {
        Self {
            peer,
            is_capable: false,
            epoch: None,
            received: BTreeMap::new(),
            removed: BTreeMap::new(),
            acks: Vec::new(),
            unacknowledged: BTreeMap::new(),
            flight: BTreeSet::new(),
            latest: BTreeMap::new(),
            waiting: VecDeque::new(),
            summarised: BTreeMap::new(),
            users: 0,
        }
    }

    /// Forgets all messages to and from the neighbour: it has lost its state.
    pub(crate) fn reset(&mut self) {
        self.epoch = None;
        self.received.clear();
        self.removed.clear();
        self.acks.clear();
        self.unacknowledged.clear();
        self.flight.clear();
        self.latest.clear();
        self.waiting.clear();
        self.summarised.clear();
    }

    /// Forgets messages about a state that a newer message replaces.
    pub(crate) fn supersede(&mut self, about: About) {
        if let Some(id) = self.latest.remove(&about) {
            self.unacknowledged(id);
            self.summarised.remove(&id);
        }
    }

    /// Removes a message from the unacknowledged ones.
    fn unacknowledged(&mut self, id: u32) -> Option<Unacknowledged> {
        let taken = self.unacknowledged.remove(&id)?;
        self.flight.remove(&(taken.again, id));
        Some(taken)
    }

    /// Repeats a message until it is acknowledged. Returns whether it may be sent at once.
    pub(crate) fn post(&mut self, id: u32, message: Unacknowledged, window: usize) -> bool {
        if let Some(about) = message.about {
            self.supersede(about);
            self.latest.insert(about, id);
        }
        let goes = self.flight.len() < window;
        if goes {
            self.flight.insert((message.again, id));
        } else {
            self.waiting.push_back(id);
        }
        self.unacknowledged.insert(id, message);
        goes
    }

    /// The neighbour has acknowledged a message. Returns the state that can now be refreshed by its
    /// id.
    pub(crate) fn acknowledged(&mut self, id: u32) -> Option<About> {
        let taken = self.unacknowledged(id)?;
        let carries = matches!(taken.outgoing.message.kind, Kind::Path | Kind::Resv);
        let about = taken.about?;
        if carries {
            self.summarised.insert(id, about);
            return Some(about);
        }
        self.latest.remove(&about);
        None
    }

    /// The neighbour does not know an id (RFC 2961, section 5.4). Returns the state of that id.
    pub(crate) fn refused(&mut self, id: u32) -> Option<About> {
        self.summarised.remove(&id)
    }

    /// The next waiting message, if the window has room now; `again` is the time of its
    /// retransmission.
    pub(crate) fn next_waiting(&mut self, window: usize, again: Time) -> Option<&Outgoing> {
        while self.flight.len() < window {
            let id = self.waiting.pop_front()?;
            let Some(message) = self.unacknowledged.get_mut(&id) else { continue };
            message.again = again;
            self.flight.insert((again, id));
            return self.unacknowledged.get(&id).map(|message| &message.outgoing);
        }
        None
    }

    /// A message whose repetition is due, and how often it has been sent.
    pub(crate) fn due(&mut self, now: Time) -> Option<(u32, u8)> {
        let (_, id) = *self.flight.first().filter(|(again, _)| *again <= now)?;
        self.unacknowledged.get(&id).map(|message| (id, message.sent))
    }

    /// Notes that the message is sent now, and will be sent again at `again`.
    pub(crate) fn send_again(&mut self, id: u32, again: Time) -> Option<&Outgoing> {
        let message = self.unacknowledged.get_mut(&id)?;
        self.flight.remove(&(message.again, id));
        self.flight.insert((again, id));
        (message.again, message.sent) = (again, message.sent.saturating_add(1));
        Some(&message.outgoing)
    }

    /// Stops its retransmission.
    pub(crate) fn give_up(&mut self, id: u32) {
        if let Some(about) = self.unacknowledged(id).and_then(|message| message.about) {
            self.latest.remove(&about);
        }
    }

    /// When the next repetition is due.
    pub(crate) fn next_again(&self) -> Option<Time> {
        self.flight.first().map(|(again, _)| *again)
    }

    /// Whether a state's last message is unacknowledged or waits.
    pub(crate) fn is_on_its_way(&self, about: About) -> bool {
        self.latest.get(&about).is_some_and(|id| self.unacknowledged.contains_key(id))
    }

    /// Whether messages wait for an acknowledgement.
    pub(crate) fn is_busy(&self) -> bool {
        !self.unacknowledged.is_empty()
    }

    /// Notes that a state was torn down by message `id`.
    pub(crate) fn note_removed(&mut self, about: About, id: u32, now: Time, until: Time) {
        const MANY: usize = 1024;
        if self.removed.len() >= MANY {
            self.removed.retain(|_, (_, until)| *until > now);
        }
        if self.removed.len() < MANY {
            self.removed.insert(about, (id, until));
        }
    }
}

/// Sequence numbers of a sender under a key (RFC 2747, section 3).
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// The sender must answer this cookie.
    Challenged(Vec<u8>),
    /// The sender has answered, or need not answer.
    Known(Window),
}
