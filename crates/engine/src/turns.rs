//! The order of tasks with different shares.
//!
//! Stride scheduling with Click's numbers. Each task has a *pass*; the task with the smallest pass
//! is next. A turn increases the pass by the task's stride, which is shorter for a larger share. So
//! the turns of a task with a large share are spread between those of others.

use std::collections::VecDeque;

/// Stride of a task with one ticket.
const STRIDE: u32 = 1 << 16;

/// The position of a task in the order.
#[derive(Clone, Copy, Debug)]
struct Place {
    pass: u32,
    task: usize,
}

impl Place {
    /// Compares passes, which wrap around: a number is later if it is less than half of the range
    /// ahead.
    fn is_after(self, pass: u32) -> bool {
        self.pass.wrapping_sub(pass).cast_signed() > 0
    }
}

/// Tasks, the next one first.
#[derive(Debug, Default)]
pub(crate) struct Turns(VecDeque<Place>);

impl Turns {
    /// The next task; there are as many tasks as `tickets`.
    pub(crate) fn next(&mut self, tickets: &dyn Fn(usize) -> u32, tasks: usize) -> Option<usize> {
        for task in self.0.len()..tasks {
            let pass = self.0.front().map_or(0, |first| first.pass);
            self.enter(pass, task, tickets(task));
        }
        let Place { pass, task } = self.0.pop_front()?;
        self.enter(pass, task, tickets(task));
        Some(task)
    }

    /// Inserts a task by its pass, after others with the same pass.
    fn enter(&mut self, pass: u32, task: usize, tickets: u32) {
        let pass = pass.wrapping_add(STRIDE / tickets.clamp(1, STRIDE));
        let place = self.0.partition_point(|other| !other.is_after(pass));
        self.0.insert(place, Place { pass, task });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(tickets: &[u32], count: usize) -> Vec<usize> {
        let mut turns = Turns::default();
        let of = |task| tickets[task];
        (0..count).map(|_| turns.next(&of, tickets.len()).unwrap()).collect()
    }

    #[test]
    fn turns_lie_between_those_of_others() {
        assert_eq!(order(&[1024, 1024, 1024], 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(order(&[1024, 2048], 8), [0, 1, 0, 1, 1, 0, 1, 1]);
        // The same as in Click.
        assert_eq!(order(&[1024, 2048, 3072], 12), [0, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0]);
        assert_eq!(order(&[], 0), [0; 0]);
        assert_eq!(Turns::default().next(&|_| 1, 0), None);
    }

    #[test]
    fn shares_are_kept_beyond_the_largest_number() {
        let count = 300_000;
        let order = order(&[1, 3, 32768], count);
        let of = |wanted: usize| order.iter().filter(|task| **task == wanted).count();
        assert_eq!(of(0) + of(1) + of(2), count);
        // 65536 / 32768 is 2: the first has one turn for 32,768 turns of the last.
        assert!((8..=10).contains(&of(0)), "{}", of(0));
        assert!((26..=29).contains(&of(1)), "{}", of(1));
    }
}
