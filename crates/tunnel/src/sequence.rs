//! Numbers of received packets: finds lost, late and repeated packets.

/// A packet that is late by fewer numbers than this is accepted once.
pub const WINDOW: u32 = 64;

/// The order of a packet among the received ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The packet has the newest number.
    Newest,
    /// The packet arrived after a later one.
    Late,
    /// The packet arrived before, or is too late to be checked: the caller drops it.
    Twice,
}

/// The numbers of a sender's session. Numbers are compared by their distance (RFC 1982), so that
/// the sequence continues with 0 after the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The newest number; `None` before the first packet.
    newest: Option<u32>,
    /// The newest number and the numbers before it that have arrived, one bit each.
    come: u64,
    /// Numbers that have not arrived. A late packet lowers the count by one.
    pub lost: u64,
    /// Packets that arrived after later ones.
    pub reordered: u64,
}

impl Numbers {
    /// Notes that the sender has restarted: its next packet may have any number.
    pub fn restart(&mut self) {
        (self.newest, self.come) = (None, 0);
    }

    /// Notes the number of a received packet.
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
            // 0 follows the largest number.
            (&[u32::MAX, 1, 0], &[Newest, Newest, Late], 0, 1),
            // The last packet is too late to be checked.
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
