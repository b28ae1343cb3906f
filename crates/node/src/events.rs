//! Events: a bounded list that can be followed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use europa_api::rest::Event;
use tokio::sync::watch;

/// Events that are remembered.
const MOST: usize = 4096;

/// The events of a node; clones share them.
#[derive(Clone)]
pub(crate) struct Events {
    list: Arc<Mutex<VecDeque<Event>>>,
    last: Arc<watch::Sender<u64>>,
}

/// The time of now, for people and programs.
pub(crate) fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

impl Events {
    pub(crate) fn new() -> Events {
        Events { list: Arc::default(), last: Arc::new(watch::Sender::new(0)) }
    }

    /// Notes something that happened as it should.
    pub(crate) fn note(&self, kind: &str, name: &str, reason: &str, message: impl Into<String>) {
        self.push(false, kind, name, reason, message.into());
    }

    /// Notes something that should not have happened.
    pub(crate) fn warn(&self, kind: &str, name: &str, reason: &str, message: impl Into<String>) {
        self.push(true, kind, name, reason, message.into());
    }

    fn push(&self, warning: bool, kind: &str, name: &str, reason: &str, message: String) {
        if warning {
            tracing::warn!("{kind} {name}: {reason}: {message}");
        } else {
            tracing::info!("{kind} {name}: {reason}: {message}");
        }
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = *self.last.borrow() + 1;
        list.push_back(Event {
            sequence,
            time: now(),
            warning,
            kind: kind.to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
            message,
        });
        if list.len() > MOST {
            list.pop_front();
        }
        drop(list);
        self.last.send_replace(sequence);
    }

    /// Events after number `sequence`, the oldest first.
    pub(crate) fn after(&self, sequence: u64) -> Vec<Event> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().filter(|event| event.sequence > sequence).cloned().collect()
    }

    /// Tells when there is a newer one.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
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
        assert!(all[0].time.ends_with('Z') && all[0].time.len() == 24, "{}", all[0].time);
    }
}
