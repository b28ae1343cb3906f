//! Numbers of received packets: which have not come, which came late, which came twice.

/// A packet that is late by fewer numbers than this is taken, once.
pub const WINDOW: u32 = 64;

/// The order in which a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It has the newest number.
    Newest,
    /// It came after a later one.
    Late,
    /// It came before, or too late to tell: the caller drops it.
    Twice,
}

/// The numbers of a sender's session. Numbers are compared by their distance (RFC 1982), so that
/// the sequence goes on behind the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The newest number; none before the first packet.
    newest: Option<u32>,
    /// The newest number and those before it that have come, a bit each.
    come: u64,
    /// Numbers that have not come, less those that came late.
    pub lost: u64,
    /// Packets that came after later ones.
    pub reordered: u64,
}

impl Numbers {
    /// A sender restarts: its next number may be any.
    pub fn restart(&mut self) {
        (self.newest, self.come) = (None, 0);
    }

    /// Notes a number.
    pub fn note(&mut self, number: u32) -> Order {
        let Some(newest) = self.newest else {
            (self.newest, self.come) = (Some(number), 1);
            return Order::Newest;
        };
        let ahead = number.wrapping_sub(newest);
        if ahead != 0 && ahead < 1 << 31 {
            self.lost += u64::from(ahead - 1);
            self.come = if ahead < WINDOW { self.come << ahead | 1 } else { 1 };
            self.newest = Some(number);
            return Order::Newest;
        }
        let behind = newest.wrapping_sub(number);
        if behind >= WINDOW || self.come & 1 << behind != 0 {
            return Order::Twice;
        }
        self.come |= 1 << behind;
        self.reordered += 1;
        // A number from before the first one was not counted as lost.
        self.lost = self.lost.saturating_sub(1);
        Order::Late
    }
}

#[cfg(test)]
mod tests {
    use super::Order::{Late, Newest, Twice};
    use super::*;

    #[test]
    fn gaps_late_ones_and_doubles_are_counted() {
        for (numbers, orders, lost, reordered) in [
            (&[5, 6, 7][..], &[Newest, Newest, Newest][..], 0, 0),
            (&[5, 8, 9], &[Newest, Newest, Newest], 2, 0),
            (&[5, 8, 7, 6, 9], &[Newest, Newest, Late, Late, Newest], 0, 2),
            (&[5, 8, 7, 7, 8], &[Newest, Newest, Late, Twice, Twice], 1, 1),
            (&[5, 5], &[Newest, Twice], 0, 0),
            // Behind the largest number comes 0.
            (&[u32::MAX, 1, 0], &[Newest, Newest, Late], 0, 1),
            // Too late to tell.
            (&[1, 65, 2, 1], &[Newest, Newest, Late, Twice], 62, 1),
            (&[1, 1000, 900], &[Newest, Newest, Twice], 998, 0),
        ] {
            let mut state = Numbers::default();
            let found: Vec<Order> = numbers.iter().map(|number| state.note(*number)).collect();
            assert_eq!(found, orders, "{numbers:?}");
            assert_eq!((state.lost, state.reordered), (lost, reordered), "{numbers:?}");
        }
    }

    #[test]
    fn a_new_session_loses_nothing() {
        let mut state = Numbers::default();
        assert_eq!([state.note(7), state.note(9)], [Newest, Newest]);
        state.restart();
        assert_eq!([state.note(1), state.note(2)], [Newest, Newest]);
        assert_eq!(state.lost, 1);
    }
}
