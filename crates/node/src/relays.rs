//! Packets that hosts send over lines with a rate, delay or losses, or to other machines.
//!
//! A router's packets pass the switch, which delays and loses them. A host's packets go straight
//! from its line into the router's pool. Where the link has an effect on them, they go into a pool
//! of the switch's own instead, and from there over the link.
//!
//! | file     | concern                                                  |
//! |----------|----------------------------------------------------------|
//! | `relay`  | one relay: its pool, its interfaces                      |
//! | `make`   | a relay that comes                                       |
//! | `change` | other effects of a link                                  |
//! | `adopt`  | takes over the relays of a killed node                   |
//! | `remove` | a relay that goes                                        |

mod adopt;
mod change;
mod make;
mod relay;
mod remove;

use std::ops::Deref;

pub(crate) use self::relay::Relay;

/// See the file. Other parts read relays, and cannot change them.
#[derive(Default)]
pub(crate) struct Relays {
    all: Vec<Relay>,
}

impl Deref for Relays {
    type Target = [Relay];

    fn deref(&self) -> &[Relay] {
        &self.all
    }
}

impl Relays {
    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}
