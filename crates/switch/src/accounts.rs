//! Packets that a switch had taken from routers and not sent when it ended. They count as lost, so
//! that every packet that an interface offered was sent or has a cause.

use europa_substrate::layout::{Counters, MAX_INTERFACES};

use crate::tables::{Shared, count};

/// Packets that an interface has offered, minus those that were sent or dropped.
fn open(c: &Counters) -> i64 {
    let gone = [
        c.tx_packets,
        c.tx_elsewhere,
        c.tx_drop_source,
        c.tx_drop_address,
        c.tx_drop_vlan,
        c.tx_drop_length,
        c.tx_drop_pool,
        c.tx_drop_queue,
        c.tx_drop_device,
        c.tx_drop_link,
        c.tx_drop_filter,
        c.tx_drop_line,
        c.tx_drop_switch,
        c.tx_drop_fenced,
    ];
    gone.into_iter().fold(c.tx_offered, u64::wrapping_sub).cast_signed()
}

impl Shared {
    /// Closes the accounts of the former switch. `pending` are the interfaces of packets that it
    /// has published to the transmit program, which will still send them.
    pub(crate) fn close_accounts(&self, pending: impl IntoIterator<Item = u32>) {
        let mut lost: Vec<i64> = (0..MAX_INTERFACES)
            .map(|id| self.counters_of(id).map(|row| open(&row)).fold(0, i64::wrapping_add))
            .collect();
        for id in pending {
            if let Some(lost) = lost.get_mut(id as usize) {
                *lost -= 1;
            }
        }
        for (id, lost) in (0..).zip(lost) {
            match u64::try_from(lost) {
                Ok(0) => {}
                Ok(lost) => count!(self, id, tx_drop_switch, lost),
                // It had passed them on before it counted them as offered.
                Err(_) => count!(self, id, tx_offered, lost.unsigned_abs()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_what_was_sent_closes_the_account() {
        // A row with 1 in every counter: 14 results for one packet.
        let row = Counters {
            tx_packets: 1,
            tx_elsewhere: 1,
            tx_drop_source: 1,
            tx_drop_address: 1,
            tx_drop_vlan: 1,
            tx_drop_length: 1,
            tx_drop_pool: 1,
            tx_drop_queue: 1,
            tx_drop_device: 1,
            tx_drop_link: 1,
            tx_drop_filter: 1,
            tx_drop_line: 1,
            tx_drop_switch: 1,
            tx_drop_fenced: 1,
            tx_offered: 16,
            ..Counters::default()
        };
        assert_eq!(open(&row), 2);
        // Rows of different CPUs: a packet offered on one is counted as sent on another.
        let (offered, sent) =
            (Counters { tx_offered: 5, ..row }, Counters { tx_offered: 0, ..row });
        assert_eq!(open(&offered) + open(&sent), 5 - 28);
    }
}
