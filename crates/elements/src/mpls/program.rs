//! The entries of a label table and the flows that begin at a router, as its signaller orders.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_label::{Bucket, Entry, Head, LspId, Model, Table};
use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use ipnet::IpNet;

use super::forward::{Counts, Outputs};
use crate::prelude::*;

/// Most LSPs: bounds the memory that a hostile signaller can take from its router.
const MOST_LSPS: usize = 1 << 17;
/// Most flows, and most prefixes of all flows together.
const MOST_FLOWS: usize = 4096;
const MOST_PREFIXES: usize = 65_536;
/// The next hop of the router's own prefixes; next hops of flows follow it.
const OWN: u16 = 1;

/// An LSP that passes, begins or ends here.
#[derive(Clone, Debug)]
pub(super) struct Lsp {
    pub(super) id: LspId,
    pub(super) entry: Entry,
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// A flow that begins here.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) head: Head,
    pub(super) bucket: Bucket,
    pub(super) lsp: Option<u32>,
}

/// All entries and flows.
pub(super) struct Program {
    table: Table,
    pub(super) lsps: Vec<Option<Lsp>>,
    free: Vec<u32>,
    by_id: BTreeMap<LspId, u32>,
    pub(super) flows: Vec<Flow>,
    own: Vec<IpNet>,
    prefixes4: Dir24,
    prefixes6: Multibit6,
    pub(super) model: Model,
    pub(super) outputs: Outputs,
    /// Longest packets of the interfaces.
    pub(super) mtus: Vec<usize>,
    pub(super) counts: Counts,
}

impl Default for Program {
    fn default() -> Self {
        Self::new(Model::Uniform, Vec::new(), Vec::new())
    }
}

impl Program {
    /// A program without LSPs. `own` are subnets and addresses of the router: packets to them do
    /// not follow a flow with a shorter prefix.
    pub(super) fn new(model: Model, mtus: Vec<usize>, own: Vec<IpNet>) -> Self {
        let mut program = Self {
            table: Table::new(),
            lsps: Vec::new(),
            free: Vec::new(),
            by_id: BTreeMap::new(),
            flows: Vec::new(),
            own,
            prefixes4: Dir24::default(),
            prefixes6: Multibit6::default(),
            model,
            outputs: Outputs::of(mtus.len()),
            mtus,
            counts: Counts::default(),
        };
        program.fill();
        program
    }

    /// The LSP of packets with a label.
    #[inline(always)]
    pub(super) fn lsp_of(&mut self, label: u32) -> Option<&mut Lsp> {
        self.lsps.get_mut(self.table.get(label)? as usize)?.as_mut()
    }

    /// The flow of a packet, by its destination.
    #[inline(always)]
    pub(super) fn flow_of(&self, packet: &Packet, is_v6: bool) -> Option<usize> {
        if self.flows.is_empty() {
            return None;
        }
        let found = match is_v6 {
            true => {
                self.prefixes6.lookup(u128::from_be_bytes(packet.annotation(annotation::DST_IP6)))
            }
            false => self.prefixes4.lookup(packet.dst_ip()),
        };
        usize::from(found?.get()).checked_sub(usize::from(OWN) + 1)
    }

    /// Takes over the entries and flows of another element.
    pub(super) fn take(&mut self, old: &mut Program) {
        let heads: Vec<Head> = old.flows.iter().map(|flow| flow.head.clone()).collect();
        for lsp in std::mem::take(&mut old.lsps).into_iter().flatten() {
            let (packets, bytes) = (lsp.packets, lsp.bytes);
            if self.set(lsp.id, Some(lsp.entry))
                && let Some(Some(new)) =
                    self.by_id.get(&lsp.id).and_then(|at| self.lsps.get_mut(*at as usize))
            {
                (new.packets, new.bytes) = (packets, bytes);
            }
        }
        self.set_flows(heads, 0);
        for (new, old) in self.flows.iter_mut().zip(&old.flows) {
            new.bucket = old.bucket;
        }
        self.counts = old.counts;
    }

    /// Whether an entry is valid here.
    fn is_sound(&self, entry: &Entry) -> bool {
        let allocated = 16..1 << 20;
        entry.incoming.is_none_or(|label| allocated.contains(&label))
            && entry.outgoing.is_none_or(|hop| {
                (hop.interface as usize) < self.mtus.len()
                    && (matches!(hop.label, 0 | 2 | 3) || allocated.contains(&hop.label))
            })
    }

    /// Sets or removes the entry of an LSP. Returns whether that succeeded.
    pub(super) fn set(&mut self, id: LspId, entry: Option<Entry>) -> bool {
        let old = self.by_id.get(&id).copied();
        let Some(entry) = entry else {
            if let Some(at) = old {
                self.remove(id, at);
            }
            return true;
        };
        if !self.is_sound(&entry) || (old.is_none() && self.by_id.len() >= MOST_LSPS) {
            return false;
        }
        // A label is one LSP's alone.
        if let Some(label) = entry.incoming
            && self.table.get(label).is_some_and(|at| Some(at) != old)
        {
            return false;
        }
        let at = old.unwrap_or_else(|| match self.free.pop() {
            Some(at) => at,
            None => {
                self.lsps.push(None);
                self.lsps.len() as u32 - 1
            }
        });
        let Some(place) = self.lsps.get_mut(at as usize) else { return false };
        let before = place.as_ref().and_then(|lsp| lsp.entry.incoming);
        if let Some(label) = entry.incoming
            && self.table.insert(label, at).is_err()
        {
            return false;
        }
        if let Some(label) = before.filter(|label| Some(*label) != entry.incoming) {
            self.table.remove(label);
        }
        match place {
            Some(lsp) => lsp.entry = entry,
            None => *place = Some(Lsp { id, entry, packets: 0, bytes: 0 }),
        }
        self.by_id.insert(id, at);
        self.attach_flows(Some(id));
        true
    }

    fn remove(&mut self, id: LspId, at: u32) {
        self.by_id.remove(&id);
        let gone = self.lsps.get_mut(at as usize).and_then(Option::take);
        if let Some(label) = gone.and_then(|lsp| lsp.entry.incoming) {
            self.table.remove(label);
        }
        self.free.push(at);
        self.attach_flows(Some(id));
    }

    /// Replaces the flows that begin here.
    pub(super) fn set_flows(&mut self, heads: Vec<Head>, now_ns: u64) {
        let same = self.flows.len() == heads.len()
            && self
                .flows
                .iter()
                .zip(&heads)
                .all(|(flow, head)| flow.head.prefixes == head.prefixes);
        let old = std::mem::take(&mut self.flows);
        let mut prefixes = 0;
        for mut head in heads.into_iter().take(MOST_FLOWS) {
            prefixes += head.prefixes.len();
            if prefixes > MOST_PREFIXES {
                head.prefixes.clear();
            }
            let [rate, depth] = head.police;
            let bucket = match old.iter().find(|flow| flow.head.name == head.name) {
                Some(flow) if flow.head.police == head.police => flow.bucket,
                Some(flow) => flow.bucket.change(rate, depth),
                None => Bucket::new(rate, depth, now_ns),
            };
            self.flows.push(Flow { head, bucket, lsp: None });
        }
        self.attach_flows(None);
        if !same {
            self.fill();
        }
    }

    /// Assigns LSPs to flows: to all flows, or only to those of this LSP.
    fn attach_flows(&mut self, of: Option<LspId>) {
        for flow in self.flows.iter_mut().filter(|flow| of.is_none() || flow.head.lsp == of) {
            flow.lsp = flow.head.lsp.and_then(|id| self.by_id.get(&id).copied());
        }
    }

    /// Fills the tables of prefixes again.
    fn fill(&mut self) {
        (self.prefixes4, self.prefixes6) = (Dir24::default(), Multibit6::default());
        let own = self.own.iter().map(|net| (*net, OWN));
        let flows = self.flows.iter().zip(OWN + 1..);
        let flows = flows
            .flat_map(|(flow, number)| flow.head.prefixes.iter().map(move |net| (*net, number)));
        // A prefix that is both a flow's and a subnet of the router belongs to the flow.
        for (net, number) in own.chain(flows) {
            let Some(number) = NextHop::new(number) else { continue };
            // If a table is full, packets follow the routes.
            match (net.network(), net.prefix_len()) {
                (IpAddr::V4(address), bits) => {
                    if let Ok(prefix) = europa_packet::Ipv4Prefix::new(address, bits) {
                        let _ = self.prefixes4.insert(prefix, number);
                    }
                }
                (IpAddr::V6(address), bits) => {
                    if let Ok(prefix) = europa_packet::Ipv6Prefix::new(address, bits) {
                        let _ = self.prefixes6.insert(prefix, number);
                    }
                }
            }
        }
    }

    /// The present entries.
    pub(super) fn entries(&self) -> Vec<(LspId, Entry)> {
        self.lsps.iter().flatten().map(|lsp| (lsp.id, lsp.entry)).collect()
    }
}
