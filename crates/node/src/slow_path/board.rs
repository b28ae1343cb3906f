//! The programs of a slow path that serve others.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of starts of some programs.
pub(super) type Times = HashMap<String, u64>;

/// The messages between keepers of one slow path.
#[derive(Default)]
pub(super) struct Board {
    programs: Mutex<HashMap<String, State>>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    times: u64,
    is_up: bool,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program serves from now on.
    pub(super) fn up(&self, name: &str) {
        let mut programs = self.lock();
        let state = programs.entry(name.to_owned()).or_default();
        state.times += u64::from(!state.is_up);
        state.is_up = true;
        drop(programs);
        self.changed.notify_all();
    }

    /// A program has ended, or is about to.
    pub(super) fn down(&self, name: &str) {
        self.lock().entry(name.to_owned()).or_default().is_up = false;
        self.changed.notify_all();
    }

    /// A program has ended and is not restarted: if it has succeeded, it serves.
    pub(super) fn done(&self, name: &str, well: bool) {
        if well { self.up(name) } else { self.down(name) }
    }

    /// How often each of `needs` has come up.
    ///
    /// # Errors
    /// One that does not serve.
    pub(super) fn times(&self, needs: &[String]) -> Result<Times, String> {
        let programs = self.lock();
        let of = |name: &String| match programs.get(name) {
            Some(State { is_up: true, times }) => Ok((name.clone(), *times)),
            _ => Err(name.clone()),
        };
        needs.iter().map(of).collect()
    }

    /// The first of `needs` that no longer serves, or has been restarted since.
    pub(super) fn first_changed(&self, since: &Times, needs: &[String]) -> Option<String> {
        let programs = self.lock();
        // A program that it did not need at its start is not needed later.
        let same = |name: &&String| {
            since.get(*name).is_none_or(|times| {
                programs.get(*name).is_some_and(|now| now.is_up && now.times == *times)
            })
        };
        needs.iter().find(|name| !same(name)).cloned()
    }

    /// Waits for a change, with a time limit.
    pub(super) fn wait(&self, most: Duration) {
        // A woken thread looks again, so changes in between do no harm.
        drop(self.changed.wait_timeout(self.lock(), most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_another_goes_with_it() {
        let board = Board::default();
        let needs = ["zebra".to_owned()];
        assert_eq!(board.times(&needs), Err("zebra".to_owned()));
        board.up("zebra");
        let times = board.times(&needs).expect("it is up");
        board.up("zebra");
        assert_eq!(board.first_changed(&times, &needs), None, "it has not ended");
        board.down("zebra");
        assert_eq!(board.first_changed(&times, &needs), Some("zebra".to_owned()));
        board.up("zebra");
        assert_eq!(board.first_changed(&times, &needs), Some("zebra".to_owned()), "another one");
        // Needed only since its start, so there is no restart to follow.
        assert_eq!(board.first_changed(&Times::new(), &needs), None);
        board.done("setup", true);
        board.done("broken", false);
        assert!(board.times(&["setup".to_owned()]).is_ok());
        assert_eq!(board.times(&["broken".to_owned()]), Err("broken".to_owned()));
    }
}
