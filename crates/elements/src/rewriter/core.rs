//! What all rewriters share: specifications, the table, the rewriting itself, handlers.

use std::any::Any;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use europa_engine::{
    Arguments, Batch, ConfigError, Context, Element, Flags, Handler, HandlerError, InitContext,
    Packet,
};
use europa_packet::checksum;
use europa_pool::packet::annotation;

use super::flows::{Flow, FlowId, Found, MAX_CAPACITY, Space, Table};
use super::pattern::Spec;
use super::{round_robin_ip_mapper::RoundRobinIPMapper, source_ip_hash_mapper::SourceIPHashMapper};
use crate::common::parse;
use crate::fields::{be16, be32, is_first, network, network_mut, set};

/// What makes a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Addresses and ports; TCP and UDP apart.
    TcpAndUdp,
    /// Addresses and ports of TCP.
    Tcp,
    /// Addresses and ports, whatever protocol has them.
    Udp,
    /// The source address, on the way back the destination address.
    Address,
    /// Both addresses.
    AddressPair,
    /// Addresses and identifier of ICMP echoes.
    Ping,
}

/// Bits of a flow's state: what has been seen.
const FORTH_DONE: u8 = 1;
const BACK_DONE: u8 = 2;
const FORTH_DATA: u8 = 4;
const BACK_DATA: u8 = 8;
/// In place of the first two, where nothing ends: packets seen, up to this many.
const STREAM: u8 = 3;

const SECOND_NS: u64 = 1_000_000_000;
const GC_TIMER: u32 = 0;

/// How long unused flows are kept, in seconds.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    usual: u64,
    /// TCP without data in both directions.
    no_data: u64,
    /// TCP that has ended in both directions.
    done: u64,
    /// UDP, and UDP with packets in both directions.
    udp: u64,
    udp_streaming: u64,
    guarantee: u64,
    udp_guarantee: u64,
    reap: u64,
}

/// The part of a rewriter that is not its name.
pub(crate) struct Rewriter {
    kind: Kind,
    specs: Vec<Spec>,
    /// By input: flows made, and flows that could not be made.
    counts: Vec<(u64, u64)>,
    /// Perhaps shared with other rewriters, and then bounded together.
    table: Rc<RefCell<Table>>,
    /// What its spaces in the table begin with.
    owner: u8,
    /// The rewriter whose table it uses, if not its own.
    host: Option<String>,
    timeouts: Timeouts,
    set_destination: bool,
    reply_annotation: Option<usize>,
}

/// What is to be done with a packet.
enum Fate {
    Drop,
    Output(usize),
}

/// What identifies a packet's flow.
struct Key {
    space: Space,
    id: FlowId,
    /// An echo request, not a reply.
    request: bool,
}

pub(crate) const HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("mappings").with(Flags::UNCOMMON),
    Handler::read("table_size"),
    Handler::read("nmappings").with(Flags::UNCOMMON),
    Handler::read("mapping_failures"),
    Handler::read("patterns"),
    Handler::read("size"),
    Handler::both("capacity"),
    Handler::button("clear"),
    Handler::both("pattern0"),
    Handler::both("pattern1"),
    Handler::both("pattern2"),
    Handler::both("pattern3"),
];

pub(crate) const TCP_HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("tcp_table"),
    Handler::read("udp_table"),
    Handler::read("tcp_lookup").with(Flags::PARAMETER),
    Handler::read("udp_lookup").with(Flags::PARAMETER),
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("tcp_mappings").with(Flags::UNCOMMON),
    Handler::read("udp_mappings").with(Flags::UNCOMMON),
    Handler::read("table_size"),
    Handler::read("nmappings").with(Flags::UNCOMMON),
    Handler::read("mapping_failures"),
    Handler::read("patterns"),
    Handler::read("size"),
    Handler::both("capacity"),
    Handler::button("clear"),
    Handler::both("pattern0"),
    Handler::both("pattern1"),
    Handler::both("pattern2"),
    Handler::both("pattern3"),
];

impl Rewriter {
    pub(crate) fn new(kind: Kind) -> Rewriter {
        let long = if matches!(kind, Kind::TcpAndUdp | Kind::Tcp) { 24 * 3600 } else { 300 };
        let timeouts = Timeouts {
            usual: if kind == Kind::Address || kind == Kind::AddressPair { 7200 } else { long },
            no_data: 300,
            done: 240,
            udp: 300,
            udp_streaming: 300,
            guarantee: 5,
            udp_guarantee: 5,
            reap: 15 * 60,
        };
        Rewriter {
            kind,
            specs: Vec::new(),
            counts: Vec::new(),
            table: Rc::default(),
            owner: 0,
            host: None,
            timeouts,
            set_destination: true,
            reply_annotation: None,
        }
    }

    pub(crate) fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let times = &mut self.timeouts;
        let mut streaming = false;
        let seconds = |arguments: &mut Arguments<'_>, name| -> Result<Option<u64>, ConfigError> {
            Ok(arguments.keyword::<std::time::Duration>(name)?.map(|time| time.as_secs()))
        };
        let udp = self.kind == Kind::Udp;
        for name in [
            "TIMEOUT",
            "TCP_TIMEOUT",
            "TCP_NODATA_TIMEOUT",
            "TCP_DONE_TIMEOUT",
            "UDP_TIMEOUT",
            "UDP_STREAMING_TIMEOUT",
            "STREAMING_TIMEOUT",
            "GUARANTEE",
            "TCP_GUARANTEE",
            "UDP_GUARANTEE",
            "REAP_INTERVAL",
            "REAP_TIME",
            "REAP_TCP",
            "REAP_TCP_DONE",
        ] {
            let Some(time) = seconds(arguments, name)? else { continue };
            match name {
                "TIMEOUT" if udp => (times.usual, times.udp) = (time, time),
                "TIMEOUT" | "TCP_TIMEOUT" => times.usual = time,
                "TCP_NODATA_TIMEOUT" => times.no_data = time,
                "TCP_DONE_TIMEOUT" => times.done = time,
                "UDP_TIMEOUT" => times.udp = time,
                "UDP_STREAMING_TIMEOUT" | "STREAMING_TIMEOUT" => {
                    times.udp_streaming = time;
                    streaming = true;
                }
                "GUARANTEE" if udp => (times.guarantee, times.udp_guarantee) = (time, time),
                "GUARANTEE" | "TCP_GUARANTEE" => times.guarantee = time,
                "UDP_GUARANTEE" => times.udp_guarantee = time,
                "REAP_INTERVAL" | "REAP_TIME" => times.reap = time,
                _ => {}
            }
        }
        if !streaming {
            times.udp_streaming = times.udp;
        }
        self.set_destination = arguments.keyword("DST_ANNO")?.unwrap_or(true);
        if let Some(word) = arguments.keyword::<String>("REPLY_ANNO")? {
            self.reply_annotation = Some(match word.as_str() {
                "PAINT" => annotation::PAINT,
                word => arguments.value("REPLY_ANNO", 0, word)?,
            });
        }
        for name in ["CAPACITY", "MAPPING_CAPACITY"] {
            if let Some(word) = arguments.keyword::<String>(name)? {
                match word.parse::<usize>() {
                    Ok(most) => self.table.borrow_mut().capacity = most.min(MAX_CAPACITY),
                    Err(_) => self.host = Some(word),
                }
            }
        }
        let inputs = arguments.inputs();
        let texts = arguments.rest();
        if texts.len() != inputs {
            let message = format!("need {inputs} arguments, one per input port");
            return Err(ConfigError::other(message));
        }
        let (outputs, names) = (arguments.outputs(), arguments.names().clone());
        for (index, text) in texts {
            match Spec::parse(text, outputs, &names) {
                Ok(spec) => self.specs.push(spec),
                Err(error) => {
                    arguments.error(ConfigError::at(index, format!("input spec {index}: {error}")));
                }
            }
        }
        self.counts = vec![(0, 0); self.specs.len()];
        self.owner = self.table.borrow_mut().own();
        Ok(())
    }

    pub(crate) fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (input, spec) in self.specs.iter_mut().enumerate() {
            let Spec::Mapper(name, number) = spec else { continue };
            *number = context.find(name);
            let is_mapper =
                number.and_then(|number| context.element(number)).is_some_and(|element| {
                    let element: &mut dyn Any = element;
                    element.is::<RoundRobinIPMapper>() || element.is::<SourceIPHashMapper>()
                });
            if !is_mapper {
                let message = match number {
                    Some(_) => "element is not an IPMapper",
                    None => "unknown specification",
                };
                return Err(ConfigError::at(input, format!("input spec {input}: {message}")));
            }
        }
        if let Some(host) = &self.host {
            let found = context.find(host).and_then(|index| context.element(index));
            let found = found.and_then(of);
            let host = found.ok_or_else(|| ConfigError::other("bad MAPPING_CAPACITY"))?;
            self.table = host.table.clone();
            self.owner = self.table.borrow_mut().own();
        }
        self.set_alarm(context.now_ns(), |timer, at_ns| context.schedule(timer, at_ns));
        Ok(())
    }

    fn set_alarm(&self, now_ns: u64, schedule: impl FnOnce(u32, u64)) {
        if self.timeouts.reap > 0 {
            schedule(GC_TIMER, now_ns.saturating_add(self.timeouts.reap.saturating_mul(SECOND_NS)));
        }
    }

    /// Forgets what has expired, and what is too much.
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
        // Flows name inputs and outputs, which must be the same.
        let same = self.kind == old.kind && self.specs.len() == old.specs.len();
        if same && self.owner == old.owner {
            // Of rewriters that share a table, the first takes it over for all.
            if self.host.is_none() && old.host.is_none() {
                let (mut new, mut old) = (self.table.borrow_mut(), old.table.borrow_mut());
                let (capacity, owners) = (new.capacity, new.owners());
                std::mem::swap(&mut *new, &mut *old);
                new.capacity = capacity;
                new.set_owners(owners);
            }
            std::mem::swap(&mut self.counts, &mut old.counts);
        }
    }

    /// What a packet's flow is known by; `None` if rewriters of this kind leave it alone.
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
                let identifier = be16(rest, 4)?;
                let (a, b) = (identifier, identifier.wrapping_add(1));
                let (source_port, destination_port) = if request { (a, b) } else { (b, a) };
                (self.space(0), FlowId { source_port, destination_port, ..addresses })
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

    /// Where flows of a protocol stand in the table, if this rewriter tells protocols apart.
    fn space(&self, protocol: u8) -> Space {
        Space::from(self.owner) << 8 | Space::from(protocol)
    }

    /// Looks a flow up by what one of its packets says.
    fn find(&self, space: Space, id: FlowId) -> Option<Found> {
        let table = self.table.borrow();
        if self.kind != Kind::Address {
            return table.find(space, id);
        }
        let forth = FlowId { source: id.source, ..FlowId::default() };
        let back = FlowId { destination: id.destination, ..FlowId::default() };
        table.find(space, forth).or_else(|| table.find(space, back))
    }

    /// The flow of a TCP connection, made as for a packet that comes by `input` if that is given
    /// and there is none.
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

    /// The flow that an ICMP error on its way back is about, by the id that replies have.
    pub(super) fn find_reply(&self, protocol: u8, id: FlowId) -> Option<Found> {
        match (self.kind, protocol) {
            (Kind::TcpAndUdp, 6 | 17) => self.find(self.space(protocol), id),
            (Kind::Tcp, 6) | (Kind::Udp, 6 | 17 | 33) => self.find(self.space(0), id),
            (Kind::Ping, 1) => {
                let (source_port, destination_port) =
                    (id.source_port.wrapping_add(1), id.source_port);
                self.find(self.space(0), FlowId { source_port, destination_port, ..id })
            }
            (Kind::Address | Kind::AddressPair, _) => {
                self.find(self.space(0), FlowId { source_port: 0, destination_port: 0, ..id })
            }
            _ => None,
        }
    }

    /// Looks at a flow that was found, or changes it.
    pub(crate) fn flow<R>(&self, index: usize, call: impl FnOnce(&mut Flow) -> R) -> Option<R> {
        self.table.borrow_mut().get(index).map(call)
    }

    /// Makes a flow for a packet of none, as the input says.
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
        if let Some((count, failures)) = self.counts.get_mut(input) {
            *count += u64::from(made.is_some());
            *failures += u64::from(made.is_none());
        }
        made.map(|index| (index, false)).ok_or(Fate::Drop)
    }

    fn guarantee(&self, space: Space) -> u64 {
        let udp = space as u8 == 17 || self.kind == Kind::Udp;
        if udp { self.timeouts.udp_guarantee } else { self.timeouts.guarantee }
    }

    /// Seconds that a flow in this state is kept.
    fn keep(&self, space: Space, state: u8) -> u64 {
        let times = &self.timeouts;
        let both = |a, b| state & (a | b) == a | b;
        let udp = self.kind == Kind::Udp || self.kind == Kind::TcpAndUdp && space as u8 == 17;
        match self.kind {
            _ if udp && both(STREAM, BACK_DATA) => times.udp_streaming,
            _ if udp => times.udp,
            Kind::TcpAndUdp | Kind::Tcp if both(FORTH_DONE, BACK_DONE) => times.done,
            Kind::TcpAndUdp | Kind::Tcp if !both(FORTH_DATA, BACK_DATA) => times.no_data,
            _ => times.usual,
        }
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

    /// What becomes of packets that no flow can be made for.
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

    /// Lines about all flows of a protocol, or of all.
    fn lines(&self, protocol: Option<u8>, now_ns: u64) -> String {
        let (short, table) = (self.kind == Kind::Ping, self.table.borrow());
        let flows = table.flows().filter(|flow| {
            let wanted = protocol.is_none_or(|protocol| flow.protocol() == protocol);
            wanted && flow.owner() == self.owner
        });
        flows.flat_map(|flow| [false, true].map(|back| flow.text(back, now_ns, short))).collect()
    }

    fn spec_line(&self, input: usize) -> Option<String> {
        let spec = self.specs.get(input)?;
        Some(match self.counts.get(input) {
            Some((count, _)) if *count > 0 => format!("{spec} [{count}]\n"),
            _ => format!("{spec}\n"),
        })
    }

    /// What packets with `SADDR SPORT DADDR DPORT` become; nothing if they belong to no flow.
    fn look_up(&self, protocol: u8, handler: &str, text: &str) -> Result<String, HandlerError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || HandlerError::value(handler, text, "SADDR SPORT DADDR DPORT");
        let [source, source_port, destination, destination_port] = words[..] else {
            return Err(wrong());
        };
        let id = FlowId {
            source: parse::<Ipv4Addr>(handler, source)?.into(),
            source_port: parse(handler, source_port)?,
            destination: parse::<Ipv4Addr>(handler, destination)?.into(),
            destination_port: parse(handler, destination_port)?,
        };
        let space = self.space(if self.kind == Kind::TcpAndUdp { protocol } else { 0 });
        let Some((index, back)) = self.find(space, id) else { return Ok(String::new()) };
        let new = self.flow(index, |flow| flow.rewritten(back)).unwrap_or_default();
        let (from, to) = (Ipv4Addr::from(new.source), Ipv4Addr::from(new.destination));
        Ok(format!("{from} {} {to} {}", new.source_port, new.destination_port))
    }

    pub(crate) fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let now_ns = context.now_ns();
        let tcp = (self.kind == Kind::TcpAndUdp).then_some(6);
        Ok(match handler {
            "table" | "mappings" => self.lines(None, now_ns),
            "tcp_table" | "tcp_mappings" => self.lines(tcp, now_ns),
            "udp_table" | "udp_mappings" => self.lines(Some(17), now_ns),
            "table_size" | "nmappings" => {
                self.counts.iter().map(|(count, _)| count).sum::<u64>().to_string()
            }
            "mapping_failures" => {
                self.counts.iter().map(|(_, failed)| failed).sum::<u64>().to_string()
            }
            "size" => self.table.borrow().len().to_string(),
            "capacity" => self.table.borrow().capacity.to_string(),
            "lookup" | "tcp_lookup" => self.look_up(6, handler, parameter)?,
            "udp_lookup" => self.look_up(17, handler, parameter)?,
            "patterns" => (0..self.specs.len()).filter_map(|input| self.spec_line(input)).collect(),
            other => {
                let input = other.strip_prefix("pattern").and_then(|number| number.parse().ok());
                let line = input.and_then(|input| self.spec_line(input));
                return line.ok_or_else(|| HandlerError::NotFound(other.to_owned()));
            }
        })
    }

    pub(crate) fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let now_ns = context.now_ns();
        match handler {
            "capacity" => {
                let most = parse::<usize>(handler, value)?.min(MAX_CAPACITY);
                self.table.borrow_mut().capacity = most;
                self.shrink(now_ns);
            }
            "clear" => self.table.borrow_mut().shrink(0, now_ns),
            other => {
                let missing = || HandlerError::NotFound(other.to_owned());
                let input: usize = other
                    .strip_prefix("pattern")
                    .and_then(|number| number.parse().ok())
                    .ok_or_else(missing)?;
                let outputs = context.outputs();
                let spec = Spec::parse(value, outputs, context.address_names());
                let spec = spec.map_err(HandlerError::Other)?;
                if matches!(spec, Spec::Mapper(..)) {
                    return Err(HandlerError::Other("unknown specification".to_owned()));
                }
                *self.specs.get_mut(input).ok_or_else(missing)? = spec;
                self.table.borrow_mut().remove_input(self.owner, input);
                if let Some(counts) = self.counts.get_mut(input) {
                    *counts = (0, 0);
                }
            }
        }
        Ok(())
    }
}

/// What is known of a flow after one more packet.
fn seen(state: u8, kind: Kind, back: bool, header: &[u8], rest: &[u8]) -> u8 {
    let (done, data) = if back { (BACK_DONE, BACK_DATA) } else { (FORTH_DONE, FORTH_DATA) };
    if kind == Kind::Udp || header.get(9) != Some(&6) {
        return (state + u8::from(state & STREAM < STREAM)) | data;
    }
    let flags = rest.get(13).copied().unwrap_or(0);
    let headers = header.len() + rest.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let payload = headers < be16(header, 2).map_or(0, usize::from);
    let state = if flags & 4 != 0 {
        state | FORTH_DONE | BACK_DONE
    } else if flags & 1 != 0 {
        state | done
    } else if flags & 2 != 0 || payload {
        state & !done
    } else {
        state
    };
    if payload { state | data } else { state }
}

/// Writes addresses and ports, and corrects checksums by difference.
fn rewrite(packet: &mut Packet, kind: Kind, new: FlowId, back: bool) {
    match kind {
        Kind::Address if back => {
            crate::fields::set_address(packet, 16, new.destination.to_be_bytes());
            return;
        }
        Kind::Address => {
            crate::fields::set_address(packet, 12, new.source.to_be_bytes());
            return;
        }
        _ => {
            crate::fields::set_address(packet, 12, new.source.to_be_bytes());
            crate::fields::set_address(packet, 16, new.destination.to_be_bytes());
        }
    }
    let Some((header, rest)) = network_mut(packet) else { return };
    if !is_first(header) {
        return;
    }
    let changes: &[(usize, u16)] = match kind {
        Kind::AddressPair | Kind::Address => return,
        // The identifier: of a request the first, of a reply the second.
        Kind::Ping => {
            &[(4, if rest.first() == Some(&8) { new.source_port } else { new.destination_port })]
        }
        _ => &[(0, new.source_port), (2, new.destination_port)],
    };
    let at = match header.get(9) {
        Some(1) => 2,
        Some(6) if rest.len() >= 18 => 16,
        Some(17) if be16(rest, 6) != Some(0) => 6,
        _ => usize::MAX,
    };
    for (field, value) in changes {
        let Some(old) = be16(rest, *field) else { continue };
        set(rest, *field, value.to_be_bytes());
        if let Some(check) = be16(rest, at) {
            let check = checksum::update_u16(check, old, *value);
            // In ICMP 0xffff is right wherever 0 is, and also if all else is 0.
            let check = if at == 16 { check } else { checksum::udp(check) };
            set(rest, at, check.to_be_bytes());
        }
    }
}

/// The mechanism of an element, if it is a rewriter.
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

/// Writes what all rewriters' `Element` has in common.
macro_rules! rewriter_element {
    ($handlers:expr) => {
        fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
            self.0.configure(arguments)
        }

        fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
            self.0.initialize(context)
        }

        fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
            self.0.push(port, batch, context);
        }

        fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
            self.0.run_timer(context);
        }

        fn handlers(&self) -> &'static [Handler] {
            $handlers
        }

        fn read(
            &mut self,
            handler: &str,
            parameter: &str,
            context: &mut Context<'_>,
        ) -> Result<String, HandlerError> {
            self.0.read(handler, parameter, context)
        }

        fn write(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut Context<'_>,
        ) -> Result<(), HandlerError> {
            self.0.write(handler, value, context)
        }

        fn take_state(&mut self, old: &mut dyn Element) {
            if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Self>() {
                self.0.take_state(&mut old.0);
            }
        }
    };
}

pub(super) use rewriter_element;
