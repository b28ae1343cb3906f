//! Converts values of one crate into the types of another.

use std::net::IpAddr;

use europa_label as label;
use europa_signal::wire::{Sender, Session};
use europa_signal::{
    Adjacency, Algorithm, Datagram, Demand, Entry, InterfaceId, Key, Label, LspKey, NextHop,
};

use crate::orders::{Digest, KeyPlan};

/// The fast path counts interfaces from 0, the state machine from 1.
pub(crate) fn interface(number: u32) -> InterfaceId {
    InterfaceId(number.saturating_add(1))
}

fn number(interface: InterfaceId) -> u32 {
    interface.0.saturating_sub(1)
}

pub(crate) fn key(plan: &KeyPlan) -> Key {
    Key {
        id: plan.id,
        algorithm: match plan.digest {
            Digest::Md5 => Algorithm::Md5,
            Digest::Sha1 => Algorithm::Sha1,
            Digest::Sha256 => Algorithm::Sha256,
        },
        secret: plan.secret.0.clone().into_bytes(),
        has_handshake: true,
    }
}

pub(crate) fn lsp_id(key: &LspKey) -> label::LspId {
    let LspKey { session, sender } = key;
    label::LspId {
        destination: session.destination,
        tunnel: session.tunnel,
        extended: session.extended,
        sender: sender.address,
        lsp: sender.lsp,
    }
}

pub(crate) fn lsp_key(id: &label::LspId) -> LspKey {
    let label::LspId { destination, tunnel, extended, sender: address, lsp } = *id;
    LspKey { session: Session { destination, tunnel, extended }, sender: Sender { address, lsp } }
}

pub(crate) fn to_label(entry: &Entry) -> label::Entry {
    let Entry { incoming, outgoing, demand } = entry;
    let peak = if demand.peak.is_finite() { demand.peak } else { 0.0 };
    label::Entry {
        incoming: incoming.map(Label::get),
        outgoing: outgoing.map(|hop| label::Hop {
            interface: number(hop.via.interface),
            via: hop.via.address,
            label: hop.label.get(),
        }),
        bucket: [demand.rate, demand.depth, peak],
        sizes: [demand.smallest, demand.largest],
    }
}

/// `None` if the entry is invalid.
pub(crate) fn from_label(entry: &label::Entry) -> Option<Entry> {
    let hop = |hop: label::Hop| {
        let via = Adjacency { interface: interface(hop.interface), address: hop.via };
        Some(NextHop { via, label: Label::new(hop.label)? })
    };
    let [rate, depth, peak] = entry.bucket;
    let [smallest, largest] = entry.sizes;
    let peak = if peak == 0.0 { f64::INFINITY } else { peak };
    Some(Entry {
        incoming: match entry.incoming {
            Some(label) => Some(Label::new(label).filter(|label| label.is_allocated())?),
            None => None,
        },
        outgoing: match entry.outgoing {
            Some(outgoing) => Some(hop(outgoing)?),
            None => None,
        },
        demand: Demand { rate, depth, peak, smallest, largest, guaranteed: None },
    })
}

pub(crate) fn datagram(from: Datagram) -> label::Datagram {
    label::Datagram {
        interface: number(from.via.interface),
        via: from.via.address,
        source: from.source,
        destination: from.destination,
        ttl: from.ttl,
        router_alert: from.router_alert,
        bytes: from.bytes,
    }
}

/// The next hop, for users.
pub(crate) fn via(entry: &Entry) -> Option<(usize, IpAddr, u32)> {
    let hop = entry.outgoing?;
    Some((number(hop.via.interface) as usize, hop.via.address, hop.label.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were() {
        let via = Adjacency { interface: InterfaceId(2), address: "10.0.0.2".parse().unwrap() };
        let demand = Demand {
            rate: 1e6,
            depth: 3e4,
            peak: f64::INFINITY,
            smallest: 64,
            largest: 1500,
            guaranteed: None,
        };
        for incoming in [None, Label::new(16)] {
            for outgoing in [None, Some(NextHop { via, label: Label::IMPLICIT_NULL })] {
                let entry = Entry { incoming, outgoing, demand };
                assert_eq!(from_label(&to_label(&entry)), Some(entry));
            }
        }
        let mut bad = to_label(&Entry { incoming: Label::new(16), outgoing: None, demand });
        bad.incoming = Some(3);
        assert_eq!(from_label(&bad), None);
    }
}
