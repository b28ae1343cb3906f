//! Connections without a valid token yet: few of one address, and few in total.
//!
//! If there are too many in total, the oldest is closed: a caller with a token needs its place only
//! for milliseconds, even with many other callers.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Places for connections that have proved nothing yet; clones share them.
#[derive(Clone)]
pub(crate) struct Strangers {
    most_of_one: usize,
    most: usize,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    /// In the order of arrival. The sender's end orders a connection to close.
    all: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
    of_one: HashMap<IpAddr, usize>,
}

impl Inside {
    fn leave(&mut self, number: u64) {
        let Some((address, _)) = self.all.remove(&number) else { return };
        if let Some(count) = self.of_one.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of_one.remove(&address);
            }
        }
    }
}

/// A place, free again when this is dropped.
pub(crate) struct Place {
    number: u64,
    inside: Arc<Mutex<Inside>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).leave(self.number);
    }
}

/// The network that counts as one address: for IPv6 a /64, which one customer has.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        v4 => v4,
    }
}

impl Strangers {
    /// Limits for one address, and in total.
    pub(crate) fn new(most_of_one: usize, most: usize) -> Strangers {
        Strangers { most_of_one, most, inside: Arc::default() }
    }

    /// A place, and a receiver that reports its loss to another connection; `None` if the address
    /// has too many.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<(Place, oneshot::Receiver<()>)> {
        let address = network(address);
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.of_one.get(&address).is_some_and(|count| *count >= self.most_of_one) {
            return None;
        }
        if inside.all.len() >= self.most
            && let Some(oldest) = inside.all.keys().next().copied()
        {
            inside.leave(oldest);
        }
        let (stay, gone) = oneshot::channel();
        let number = inside.next;
        inside.next += 1;
        inside.all.insert(number, (address, stay));
        *inside.of_one.entry(address).or_default() += 1;
        Some((Place { number, inside: Arc::clone(&self.inside) }, gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_and_places_come_back() {
        let strangers = Strangers::new(2, 3);
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let (first, mut gone) = strangers.enter(address(1)).expect("a place");
        let second = strangers.enter(address(1)).expect("a place");
        assert!(strangers.enter(address(1)).is_none());
        let third = strangers.enter(address(2)).expect("a place");
        assert!(gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        let fourth = strangers.enter(address(3)).expect("a place");
        assert!(gone.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        drop((first, second, third, fourth));
        let inside = strangers.inside.lock().expect("a lock");
        assert!(inside.all.is_empty() && inside.of_one.is_empty());
    }

    #[test]
    fn a_customer_has_one_network() {
        for (address, wanted) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(network(address).to_string(), wanted);
        }
    }
}
