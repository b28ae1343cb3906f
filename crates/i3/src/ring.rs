//! Chord's ring as a state machine, with the corrections of Pamela Zave, "Reasoning about
//! identifier spaces: how to make Chord correct" (IEEE Transactions on Software Engineering, 2017).
//!
//! - A server joins with its successor's whole list, and takes part in the ring only after that.
//! - *Stabilise*: a server copies the list of its first live successor. If that successor's
//!   predecessor is nearer, the server then requests the list of the predecessor.
//! - *Rectify*: a notified server accepts a nearer predecessor. If its own predecessor is dead, it
//!   accepts any.
//! - No list ever contains a server beyond its owner's position, and dead entries are removed at
//!   once.
//!
//! The paper assumes that failures are known. Here a server counts as dead if it does not answer
//! for [`DEAD`]. All neighbours and fingers are asked every [`PERIOD`], so several failures may be
//! detected at the same time.

mod receive;
mod route;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::id::Prefix;
use crate::message::{Member, Message, Neighbours, SUCCESSORS};

pub use route::Hop;

/// Time between two requests to each neighbour.
pub const PERIOD: Duration = Duration::from_millis(500);
/// A server without a message for this time counts as dead.
pub const DEAD: Duration = Duration::from_secs(2);
/// Time for which lists of other servers cannot restore a dead server.
const BURIED: Duration = Duration::from_secs(6);
/// At this interval a server asks one of its seeds for the server that is responsible for its own
/// position. If the network was split, the answer is a server of the other part.
const MERGE: Duration = Duration::from_secs(5);
/// Hops that a question may take.
pub const HOPS: u8 = 64;
/// Number of fingers: servers at the positions 1/2, 1/4, … 2^-64 of the ring further.
const FINGERS: usize = 64;
/// Fingers that are looked up in each period.
const FINGERS_A_PERIOD: usize = 2;
/// Most stored look-ups that wait for an answer.
const MOST_QUESTIONS: usize = 1024;

/// Messages to send.
pub type Out = Vec<(SocketAddr, Message)>;

/// A change of the ring that concerns the triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The predecessor has changed, or there is none.
    Predecessor,
    /// The list of successors changed.
    Successors,
    /// A look-up ended: position, responsible server, hops.
    Found(Prefix, Member, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// The own successor.
    Join,
    /// A finger.
    Finger(usize),
    /// The server of a position.
    Owner(Prefix),
}

/// One server's view of the ring.
#[derive(Debug)]
pub struct Ring {
    me: Member,
    seeds: Vec<SocketAddr>,
    joined: bool,
    pub(crate) neighbours: Neighbours,
    fingers: Vec<Option<Member>>,
    next_finger: usize,
    /// Time of each server's last message, or of its discovery.
    heard: HashMap<SocketAddr, Duration>,
    buried: HashMap<SocketAddr, Duration>,
    questions: HashMap<u64, (Question, Duration)>,
    /// The future successor, which was asked for its list.
    joining: Option<Member>,
    /// The successor's predecessor, which was asked for its list.
    candidate: Option<Member>,
    next_period: Duration,
    next_merge: Duration,
    random: fastrand::Rng,
    events: Vec<Event>,
}

impl Ring {
    /// A server that joins the ring of one of `seeds`. Without seeds, or if it is the first seed
    /// itself, it starts a new ring.
    pub fn new(me: Member, seeds: &[SocketAddr], random: fastrand::Rng) -> Ring {
        let begins = seeds.first().is_none_or(|first| *first == me.at);
        let seeds: Vec<SocketAddr> = seeds.iter().filter(|at| **at != me.at).copied().collect();
        Ring {
            me,
            joined: begins || seeds.is_empty(),
            seeds,
            neighbours: Neighbours::default(),
            fingers: vec![None; FINGERS],
            next_finger: 0,
            heard: HashMap::new(),
            buried: HashMap::new(),
            questions: HashMap::new(),
            joining: None,
            candidate: None,
            next_period: Duration::ZERO,
            next_merge: MERGE,
            random,
            events: Vec::new(),
        }
    }

    /// This server.
    pub fn me(&self) -> Member {
        self.me
    }

    /// Whether it is part of the ring.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// Its neighbours.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Whether it knows no other server.
    pub fn is_alone(&self) -> bool {
        self.neighbours.successors.is_empty()
    }

    /// The different servers in its fingers.
    pub fn fingers(&self) -> Vec<Member> {
        let mut fingers: Vec<Member> = self.fingers.iter().flatten().copied().collect();
        fingers.sort_unstable();
        fingers.dedup();
        fingers
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Does all due work. Call it at least every 100 ms.
    pub fn tick(&mut self, now: Duration, out: &mut Out) {
        self.bury(now);
        if now < self.next_period {
            return;
        }
        // A random first delay spreads the requests of servers that start together.
        let part = self.random.u32(..PERIOD.as_millis() as u32 / 10);
        self.next_period = now + PERIOD - Duration::from_millis(u64::from(part));
        self.questions.retain(|_, (_, until)| *until > now);
        self.buried.retain(|_, until| *until > now);
        if !self.joined || self.is_alone() || now >= self.next_merge {
            self.next_merge = now + MERGE;
            let unheard: Vec<SocketAddr> =
                self.seeds.iter().filter(|at| !self.buried.contains_key(at)).copied().collect();
            let among = if unheard.is_empty() { &self.seeds } else { &unheard };
            if let Some(seed) = self.random.choice(among).copied() {
                self.ask_owner(now, seed, Question::Join, self.me.id, out);
            }
        }
        if !self.joined {
            return;
        }
        for other in self.known() {
            out.push((other.at, Message::Ask(self.me)));
        }
        self.look_up_fingers(now, out);
    }

    /// All servers in its lists, without duplicates.
    fn known(&self) -> Vec<Member> {
        let mut all = self.neighbours.successors.clone();
        all.extend(self.neighbours.predecessor);
        all.extend(self.fingers.iter().flatten());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Removes silent servers.
    fn bury(&mut self, now: Duration) {
        let known = self.known();
        self.heard.retain(|at, _| known.iter().any(|one| one.at == *at));
        for one in known {
            let heard = *self.heard.entry(one.at).or_insert(now);
            if heard + DEAD < now {
                self.buried.insert(one.at, now + BURIED);
                self.forget(one.at);
            }
        }
    }

    /// Removes a server from all lists.
    pub(crate) fn forget(&mut self, at: SocketAddr) {
        let mut successors = self.neighbours.successors.clone();
        successors.retain(|one| one.at != at);
        self.set_successors(successors);
        if self.neighbours.predecessor.is_some_and(|one| one.at == at) {
            self.set_predecessor(None);
        }
        for finger in &mut self.fingers {
            finger.take_if(|one| one.at == at);
        }
    }

    fn set_predecessor(&mut self, new: Option<Member>) {
        if self.neighbours.predecessor != new {
            self.neighbours.predecessor = new;
            self.events.push(Event::Predecessor);
        }
    }

    /// Stores a list, nearest first, up to the own position and without dead servers.
    fn set_successors(&mut self, list: Vec<Member>) {
        let mut clean: Vec<Member> = Vec::with_capacity(SUCCESSORS);
        for one in list {
            let last = clean.last().map_or(self.me.id, |last| last.id);
            if clean.len() == SUCCESSORS || !one.id.is_between(&last, &self.me.id) {
                break;
            }
            if !self.buried.contains_key(&one.at) {
                clean.push(one);
            }
        }
        if clean != self.neighbours.successors {
            self.neighbours.successors = clean;
            self.events.push(Event::Successors);
        }
    }

    /// Asks `via` for the server that is responsible for a position.
    fn ask_owner(
        &mut self,
        now: Duration,
        via: SocketAddr,
        question: Question,
        key: Prefix,
        out: &mut Out,
    ) {
        if self.questions.len() >= MOST_QUESTIONS {
            return;
        }
        let token = self.random.u64(..);
        self.questions.insert(token, (question, now + DEAD));
        let origin = self.me.at;
        out.push((via, Message::Find { token, key, origin, hops_left: HOPS, hops: 1 }));
    }

    /// Looks for the server that is responsible for a position; the answer is [`Event::Found`].
    pub fn look_up(&mut self, now: Duration, key: Prefix, out: &mut Out) {
        match self.next_hop(&key) {
            Hop::Here => self.events.push(Event::Found(key, self.me, 0)),
            Hop::To(owner, true) => self.events.push(Event::Found(key, owner, 1)),
            Hop::To(next, false) => {
                self.ask_owner(now, next.at, Question::Owner(key), key, out);
            }
            Hop::Nowhere => {}
        }
    }

    fn look_up_fingers(&mut self, now: Duration, out: &mut Out) {
        let Some(first) = self.neighbours.successors.first().copied() else { return };
        for _ in 0..FINGERS_A_PERIOD {
            let number = self.next_finger;
            let key = self.me.id.further(number);
            if key.is_after_up_to(&self.me.id, &first.id) || number + 1 >= FINGERS {
                // All further fingers are equal to the successor.
                self.fingers[number..].fill(None);
                self.next_finger = 0;
                return;
            }
            self.next_finger = number + 1;
            match self.next_hop(&key) {
                Hop::To(owner, true) => self.fingers[number] = Some(owner),
                Hop::To(next, false) => {
                    self.ask_owner(now, next.at, Question::Finger(number), key, out);
                }
                Hop::Here | Hop::Nowhere => self.fingers[number] = None,
            }
        }
    }

    /// The messages by which it leaves.
    pub fn leave(&mut self, out: &mut Out) {
        let ends = self.neighbours.predecessor.iter().chain(self.neighbours.successors.first());
        for one in ends {
            out.push((one.at, Message::Leave(self.me, self.neighbours.clone())));
        }
        self.joined = false;
        self.seeds.clear();
    }
}
