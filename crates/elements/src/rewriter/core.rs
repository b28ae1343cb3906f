//! The common part of all rewriters: finds or makes a packet's flow, and rewrites the packet.

pub(super) mod element;
mod handlers;
mod headers;
mod settings;

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use europa_engine::{Batch, Context, Element, Packet};

use self::headers::{rewrite, seen};
use self::settings::Timeouts;
use super::flows::{Flow, FlowId, Found, Space, Table};
use super::pattern::Spec;
use super::{round_robin_ip_mapper::RoundRobinIPMapper, source_ip_hash_mapper::SourceIPHashMapper};
use crate::shared::fields::{be16, be32, is_first, network, network_mut};

/// The parameters of a new flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Addresses and ports; TCP and UDP have separate flows.
    TcpAndUdp,
    /// Addresses and ports of TCP.
    Tcp,
    /// Addresses and ports, of any protocol.
    Udp,
    /// The source address; in replies the destination address.
    Address,
    /// Both addresses.
    AddressPair,
    /// Addresses and identifier of ICMP echoes.
    Ping,
}

const SECOND_NS: u64 = 1_000_000_000;
const GC_TIMER: u32 = 0;

/// The part of a rewriter that does not depend on its class.
pub(crate) struct Rewriter {
    kind: Kind,
    specs: Vec<Spec>,
    /// By input: number of flows that could not be made.
    pub(super) failures: Vec<u64>,
    /// The table of flows. Rewriters may share it, and then share its limit.
    pub(super) table: Rc<RefCell<Table>>,
    /// Number of this rewriter in the table; a part of its keys.
    owner: u8,
    /// The rewriter whose table is used, if it is another one.
    host: Option<String>,
    timeouts: Timeouts,
    set_destination: bool,
    reply_annotation: Option<usize>,
}

/// The verdict for a packet.
enum Fate {
    Drop,
    Output(usize),
}

/// The identity of a packet's flow.
struct Key {
    space: Space,
    id: FlowId,
    /// An echo request, not a reply.
    request: bool,
}

impl Rewriter {
    pub(crate) fn new(kind: Kind) -> Rewriter {
        Rewriter {
            kind,
            specs: Vec::new(),
            failures: Vec::new(),
            table: Rc::default(),
            owner: 0,
            host: None,
            timeouts: Timeouts::of(kind),
            set_destination: true,
            reply_annotation: None,
        }
    }

    fn set_alarm(&self, now_ns: u64, schedule: impl FnOnce(u32, u64)) {
        if self.timeouts.reap > 0 {
            schedule(GC_TIMER, now_ns.saturating_add(self.timeouts.reap.saturating_mul(SECOND_NS)));
        }
    }

    /// Removes expired flows, and flows above the limit.
    fn shrink(&self, now_ns: u64) {
        let mut table = self.table.borrow_mut();
        let most = table.capacity;
        table.shrink(most, now_ns);
    }

    pub(crate) fn run_timer(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        self.shrink(now_ns);
        self.set_alarm(now_ns, |timer, at_ns| context.schedule(timer, at_ns));
    }

    pub(crate) fn take_state(&mut self, old: &mut Rewriter) {
        // Flows name inputs and outputs, so these must be the same in both elements.
        let same = self.kind == old.kind && self.specs.len() == old.specs.len();
        if same && self.owner == old.owner {
            // If rewriters share a table, the first one takes it over for all.
            if self.host.is_none() && old.host.is_none() {
                let (mut new, mut old) = (self.table.borrow_mut(), old.table.borrow_mut());
                let (capacity, owners) = (new.capacity, new.owners());
                std::mem::swap(&mut *new, &mut *old);
                new.capacity = capacity;
                new.set_owners(owners);
            }
            std::mem::swap(&mut self.failures, &mut old.failures);
        }
    }

    /// The key of a packet's flow; `None` if rewriters of this kind ignore it.
    fn key(&self, packet: &Packet) -> Option<Key> {
        let (header, rest) = network(packet)?;
        let (source, destination) = (be32(header, 12)?, be32(header, 16)?);
        let protocol = *header.get(9)?;
        let addresses = FlowId { source, destination, ..FlowId::default() };
        let mut request = false;
        let (space, id) = match self.kind {
            Kind::Address | Kind::AddressPair => (self.space(0), addresses),
            Kind::Ping => {
                if protocol != 1 || !is_first(header) || !matches!(rest.first(), Some(0 | 8)) {
                    return None;
                }
                request = rest.first() == Some(&8);
                (self.space(0), addresses.ping(be16(rest, 4)?, !request))
            }
            Kind::TcpAndUdp | Kind::Tcp | Kind::Udp => {
                let known = match self.kind {
                    Kind::TcpAndUdp => matches!(protocol, 6 | 17),
                    Kind::Tcp => protocol == 6,
                    _ => matches!(protocol, 6 | 17 | 33),
                };
                if !known || !is_first(header) || rest.len() < 8 {
                    return None;
                }
                let space = if self.kind == Kind::TcpAndUdp { protocol } else { 0 };
                let space = self.space(space);
                let (source_port, destination_port) = (be16(rest, 0)?, be16(rest, 2)?);
                (space, FlowId { source_port, destination_port, ..addresses })
            }
        };
        Some(Key { space, id, request })
    }

    /// The table's space for flows of a protocol, if this rewriter distinguishes protocols.
    fn space(&self, protocol: u8) -> Space {
        Space::from(self.owner) << 8 | Space::from(protocol)
    }

    /// Finds a flow by one of its packets.
    fn find(&self, space: Space, id: FlowId) -> Option<Found> {
        let table = self.table.borrow();
        if self.kind != Kind::Address {
            return table.find(space, id);
        }
        let forth = FlowId { source: id.source, ..FlowId::default() };
        let back = FlowId { destination: id.destination, ..FlowId::default() };
        table.find(space, forth).or_else(|| table.find(space, back))
    }

    /// The flow of a TCP connection. If it does not exist and `input` is given, makes it as for a
    /// packet from `input`.
    pub(crate) fn connection(
        &mut self,
        id: FlowId,
        input: Option<usize>,
        packet: &Packet,
        context: &mut Context<'_>,
    ) -> Option<Found> {
        let space = match self.kind {
            Kind::TcpAndUdp => self.space(6),
            Kind::Tcp | Kind::Udp => self.space(0),
            _ => return None,
        };
        let found = self.find(space, id);
        match (found, input) {
            (None, Some(input)) => {
                let key = Key { space, id, request: false };
                self.make(input, &key, packet, context).ok()
            }
            (found, _) => found,
        }
    }

    pub(crate) fn inputs(&self) -> usize {
        self.specs.len()
    }

    /// The flow of a replied-to packet that an ICMP error is about, by the id of replies.
    pub(super) fn find_reply(&self, protocol: u8, id: FlowId) -> Option<Found> {
        match (self.kind, protocol) {
            (Kind::TcpAndUdp, 6 | 17) => self.find(self.space(protocol), id),
            (Kind::Tcp, 6) | (Kind::Udp, 6 | 17 | 33) => self.find(self.space(0), id),
            (Kind::Ping, 1) => self.find(self.space(0), id.ping(id.source_port, true)),
            (Kind::Address | Kind::AddressPair, _) => {
                self.find(self.space(0), FlowId { source_port: 0, destination_port: 0, ..id })
            }
            _ => None,
        }
    }

    /// Calls a function with a flow that was found, which it may change.
    pub(crate) fn flow<R>(&self, index: usize, call: impl FnOnce(&mut Flow) -> R) -> Option<R> {
        self.table.borrow_mut().get(index).map(call)
    }

    /// Makes a flow for a packet without one, by the input's specification.
    fn make(
        &mut self,
        input: usize,
        key: &Key,
        packet: &Packet,
        context: &mut Context<'_>,
    ) -> Result<Found, Fate> {
        let id = match self.kind {
            Kind::Address => FlowId { source: key.id.source, ..FlowId::default() },
            _ => key.id,
        };
        let ping = self.kind == Kind::Ping;
        let shared = self.table.clone();
        let mut table = shared.borrow_mut();
        let choice = match self.specs.get_mut(input) {
            None | Some(Spec::Drop) => return Err(Fate::Drop),
            Some(Spec::Pass(output)) => return Err(Fate::Output(*output)),
            Some(Spec::Keep(outputs)) => Some((id, *outputs)),
            Some(Spec::Pattern(pattern, outputs)) => {
                pattern.rewrite(id, &table, key.space, ping).map(|new| (new, *outputs))
            }
            Some(Spec::Mapper(_, number)) => {
                let element = number.and_then(|number| context.element(number));
                element.and_then(|element| {
                    let element: &mut dyn Any = element;
                    if let Some(mapper) = element.downcast_mut::<RoundRobinIPMapper>() {
                        return mapper.rewrite(id, &table, key.space, ping);
                    }
                    let mapper = element.downcast_mut::<SourceIPHashMapper>()?;
                    mapper.rewrite(id, &table, key.space, ping)
                })
            }
        };
        let now_ns = context.now_ns();
        let made = choice.and_then(|(new, outputs)| {
            let new = match self.kind {
                Kind::Address => FlowId { source: new.source, ..FlowId::default() },
                _ => new,
            };
            let annotation = self.reply_annotation.map_or(0, |at| packet.annotation::<1>(at)[0]);
            let flow = Flow {
                space: key.space,
                ids: [id, new.reverse()],
                outputs,
                input,
                reply_annotation: annotation,
                state: 0,
                guaranteed_ns: now_ns
                    .saturating_add(self.guarantee(key.space).saturating_mul(SECOND_NS)),
                expires_ns: now_ns
                    .saturating_add(self.keep(key.space, 0).saturating_mul(SECOND_NS)),
                noted: (true, 0),
                deltas: None,
            };
            table.add(flow, now_ns)
        });
        if let Some(failures) = self.failures.get_mut(input) {
            *failures += u64::from(made.is_none());
        }
        made.map(|index| (index, false)).ok_or(Fate::Drop)
    }

    fn handle(&mut self, input: usize, packet: &mut Packet, context: &mut Context<'_>) -> Fate {
        let found = match self.key(packet) {
            Some(key) => match self.find(key.space, key.id) {
                Some(found) => Ok(found),
                // A reply starts nothing.
                None if self.kind == Kind::Ping && !key.request => Err(self.pass(input)),
                None => self.make(input, &key, packet, context),
            },
            None => Err(self.pass(input)),
        };
        let (index, back) = match found {
            Ok(found) => found,
            Err(fate) => return fate,
        };
        let (kind, reply_annotation) = (self.kind, self.reply_annotation);
        let mut table = self.table.borrow_mut();
        let Some(flow) = table.get(index) else { return Fate::Drop };
        let (new, output, annotation) =
            (flow.rewritten(back), flow.output(back), flow.reply_annotation);
        if let Some((header, rest)) = network(packet) {
            flow.state = seen(flow.state, kind, back, header, rest);
        }
        let (space, state) = (flow.space, flow.state);
        rewrite(packet, kind, new, back);
        if let Some(deltas) = &mut flow.deltas
            && let Some((_, segment)) = network_mut(packet)
        {
            deltas.apply(back, segment);
        }
        if self.set_destination
            && let Some(destination) = network(packet).and_then(|(header, _)| be32(header, 16))
        {
            packet.set_dst_ip(destination);
        }
        if let Some(at) = reply_annotation.filter(|_| back) {
            packet.set_annotation(at, [annotation]);
        }
        let now_ns = context.now_ns();
        let (guarantee, keep) = (self.guarantee(space), self.keep(space, state));
        let after = |seconds: u64| now_ns.saturating_add(seconds.saturating_mul(SECOND_NS));
        table.keep(index, after(guarantee), after(keep));
        Fate::Output(output)
    }

    /// The verdict for packets whose flow cannot be made.
    fn pass(&self, input: usize) -> Fate {
        match self.specs.get(input) {
            Some(Spec::Pass(output)) => Fate::Output(*output),
            _ => Fate::Drop,
        }
    }

    pub(crate) fn push(&mut self, input: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for mut packet in batch.drain() {
            if let Fate::Output(output) = self.handle(input, &mut packet, context) {
                context.push(output, packet);
            }
        }
    }
}

/// The rewriter inside an element, if there is one.
pub(crate) fn of(element: &mut dyn Element) -> Option<&mut Rewriter> {
    let element: &mut dyn Any = element;
    macro_rules! first_of {
        ($($class:ty),*) => {{
            $(if element.is::<$class>() {
                return element.downcast_mut::<$class>().map(|found| &mut found.0);
            })*
            None
        }};
    }
    first_of!(
        super::ip_rewriter::IPRewriter,
        super::udp_rewriter::UDPRewriter,
        super::tcp_rewriter::TCPRewriter,
        super::ip_addr_rewriter::IPAddrRewriter,
        super::ip_addr_pair_rewriter::IPAddrPairRewriter,
        super::icmp_ping_rewriter::ICMPPingRewriter
    )
}
