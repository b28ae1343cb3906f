//! Events: a bounded list that can be followed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use europa_api::rest::Event;
use tokio::sync::watch;

/// Most stored events.
const MOST: usize = 4096;

/// The actor of a request, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// `root`, a user, or `slice NAME`.
    pub who: String,
    /// `local`, or an address and port.
    pub from: String,
}

/// An event with a number that reveals nothing about other events: microseconds since 1970, each
/// larger than the former one.
#[derive(Clone, Debug)]
struct Stamped {
    event: Event,
    stamp_us: u64,
}

/// The events of a node; clones share them.
#[derive(Clone)]
pub struct Events {
    list: Arc<Mutex<VecDeque<Stamped>>>,
    last: Arc<watch::Sender<u64>>,
}

/// The present time, for users and programs.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

impl Events {
    pub(crate) fn new() -> Events {
        Events { list: Arc::default(), last: Arc::new(watch::Sender::new(0)) }
    }

    /// Notes a normal event.
    pub(crate) fn note(&self, kind: &str, name: &str, reason: &str, message: impl Into<String>) {
        self.push(false, (kind, name), reason, message.into(), None);
    }

    /// Notes a change that a caller has asked for.
    pub fn asked(&self, by: By, object: (&str, &str), reason: &str, message: String) {
        self.push(false, object, reason, message, Some(by));
    }

    /// Notes a request that was refused.
    pub fn refused(&self, by: By, object: (&str, &str), reason: &str, message: String) {
        self.push(true, object, reason, message, Some(by));
    }

    /// Notes a fault.
    pub(crate) fn warn(&self, kind: &str, name: &str, reason: &str, message: impl Into<String>) {
        self.push(true, (kind, name), reason, message.into(), None);
    }

    fn push(
        &self,
        warning: bool,
        (kind, name): (&str, &str),
        reason: &str,
        message: String,
        by: Option<By>,
    ) {
        let asked =
            by.as_ref().map_or(String::new(), |by| format!(" ({} from {})", by.who, by.from));
        if warning {
            tracing::warn!("{kind} {name}: {reason}: {message}{asked}");
        } else {
            tracing::info!("{kind} {name}: {reason}: {message}{asked}");
        }
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = *self.last.borrow() + 1;
        let now_us = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0);
        let stamp_us = list.back().map_or(0, |last| last.stamp_us + 1).max(now_us);
        let event = Event {
            sequence,
            time: now(),
            warning,
            kind: kind.to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
            message,
            who: by.as_ref().map(|by| by.who.clone()),
            from: by.map(|by| by.from),
        };
        list.push_back(Stamped { event, stamp_us });
        if list.len() > MOST {
            list.pop_front();
        }
        drop(list);
        self.last.send_replace(sequence);
    }

    /// Events after number `sequence`, the oldest first.
    pub fn after(&self, sequence: u64) -> Vec<Event> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let after = list.iter().filter(|one| one.event.sequence > sequence);
        after.map(|one| one.event.clone()).collect()
    }

    /// Events after the one with this stamp, which replaces their number.
    pub fn after_stamp(&self, stamp_us: u64) -> Vec<Event> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let after = list.iter().filter(|one| one.stamp_us > stamp_us);
        after.map(|one| Event { sequence: one.stamp_us, ..one.event.clone() }).collect()
    }

    /// Notifies about newer events.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_numbered() {
        let events = Events::new();
        for number in 0..MOST + 10 {
            events.note("router", "red/r1", "Started", number.to_string());
        }
        let all = events.after(0);
        assert_eq!(all.len(), MOST);
        assert_eq!((all[0].sequence, all[0].message.as_str()), (11, "10"));
        assert_eq!(events.after((MOST + 9) as u64).len(), 1);
        assert_eq!(*events.watch().borrow(), (MOST + 10) as u64);
        let stamped = events.after_stamp(0);
        assert!(stamped.is_sorted_by(|a, b| a.sequence < b.sequence));
        let by = By { who: "alice".into(), from: "192.0.2.1:7".into() };
        events.asked(by, ("slice", "red"), "Changed", "router red/r1".into());
        let last = events.after_stamp(stamped[MOST - 1].sequence);
        assert_eq!((last.len(), last[0].who.as_deref()), (1, Some("alice")));
        assert!(all[0].time.ends_with('Z') && all[0].time.len() == 24, "{}", all[0].time);
    }
}
