//! Tracing: follows single packets through the graph, with the effects of each element.
//!
//! Without a trace, it costs one check a batch. With a trace, a batch with a traced packet is
//! split: the element gets that packet alone, and its outputs lead to the tracer's own work list
//! during the call. So the tracer knows which output each packet takes and which packets the
//! element makes. A packet is identified by its slot, which stays the same from ring to ring.

mod event;
mod told;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use europa_cbpf::Program;
use europa_pool::{Batch, Packet};

use crate::devices::{Devices, Interface, Refused};
use crate::state::{Core, Port, Slot, UNCONNECTED, with_element};
use crate::work::WorkList;

use self::told::{causes, drops, look_up};

pub use self::event::{Event, Fate, Fetched, Hop, What};

/// Most events that wait to be fetched.
const MAX_EVENTS: usize = 4096;
/// Most packets that are followed at the same time.
const MAX_MARKS: usize = 256;
/// A trace ends after this time without a request.
const LEASE_NS: u64 = 5_000_000_000;

/// A packet under observation.
struct Mark {
    number: u32,
    /// Its bytes at the last event.
    bytes: Vec<u8>,
}

pub(crate) struct Tracer {
    program: Program,
    /// Number of packets that may still be chosen.
    left: u32,
    snaplen: usize,
    marks: HashMap<u32, Mark>,
    numbers: u32,
    events: Vec<Event>,
    lost: u64,
    lease_ns: u64,
    now_ns: u64,
    wall_offset_ns: u64,
    /// The targets of outputs while an element is traced: each output has a separate one.
    targets: Vec<u32>,
    work: WorkList,
}

/// Shared by the core and the devices of a round.
pub(crate) type Trace = Rc<RefCell<Tracer>>;

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Tracer {
    /// Reads an order: `COUNT SNAPLEN PROGRAM`. The program has the form of `tcpdump -ddd`.
    pub(crate) fn parse(order: &str, core: &Core) -> Result<Trace, String> {
        let wanted = || "expected COUNT SNAPLEN PROGRAM".to_owned();
        let (count, rest) = order.trim().split_once(' ').ok_or_else(wanted)?;
        let (snaplen, program) = rest.split_once(' ').ok_or_else(wanted)?;
        let outputs = core.wiring.targets.len();
        Ok(Rc::new(RefCell::new(Tracer {
            program: program.parse().map_err(|error| format!("{error}"))?,
            left: count.parse().map_err(|_| wanted())?,
            snaplen: snaplen.parse::<usize>().map_err(|_| wanted())?.clamp(14, 16384),
            marks: HashMap::new(),
            numbers: 0,
            events: Vec::new(),
            lost: 0,
            lease_ns: core.now_ns + LEASE_NS,
            now_ns: core.now_ns,
            wall_offset_ns: core.wall_offset_ns,
            targets: (0..outputs as u32).collect(),
            work: WorkList::new(outputs),
        })))
    }

    /// Begins a round; false if the trace has ended.
    pub(crate) fn begin(&mut self, now_ns: u64) -> bool {
        self.now_ns = now_ns;
        now_ns < self.lease_ns
    }

    /// All events since the last call.
    pub(crate) fn fetch(&mut self, now_ns: u64) -> Fetched {
        self.lease_ns = now_ns.max(self.now_ns) + LEASE_NS;
        Fetched {
            left: self.left,
            under_way: self.marks.len() as u32,
            lost: std::mem::take(&mut self.lost),
            events: std::mem::take(&mut self.events),
        }
    }

    /// Adds an event. Returns its index, if there was room.
    fn note(&mut self, packet: u32, what: What) -> Option<usize> {
        if self.events.len() >= MAX_EVENTS {
            self.lost += 1;
            return None;
        }
        let at_ns = self.now_ns.wrapping_add(self.wall_offset_ns);
        self.events.push(Event { packet, at_ns, what });
        Some(self.events.len() - 1)
    }

    fn bytes(&self, packet: &Packet) -> Vec<u8> {
        let data = packet.data();
        data.get(..data.len().min(self.snaplen)).unwrap_or_default().to_vec()
    }

    /// Follows a packet from now on.
    fn mark(&mut self, packet: &Packet) -> Option<u32> {
        if self.marks.len() >= MAX_MARKS {
            return None;
        }
        self.numbers += 1;
        let mark = Mark { number: self.numbers, bytes: self.bytes(packet) };
        self.marks.insert(packet.slot(), mark);
        Some(self.numbers)
    }

    fn follows(&self, packet: &Packet) -> bool {
        self.marks.contains_key(&packet.slot())
    }

    /// Chooses among packets that have just been received.
    fn received(&mut self, interface: &str, packets: &[Packet]) {
        for packet in packets {
            // The slot contained another packet before.
            if let Some(mark) = self.marks.remove(&packet.slot()) {
                self.note(mark.number, What::Gone);
            }
            if self.left == 0 || !self.program.matches(packet.data(), packet.len()) {
                continue;
            }
            if let Some(number) = self.mark(packet) {
                self.left -= 1;
                let bytes = hexadecimal(&self.bytes(packet));
                self.note(number, What::Received { interface: interface.to_owned(), bytes });
            }
        }
    }

    /// Notes a packet that was pulled out of output `output` of element `from`.
    fn pulled(&mut self, name: &str, class: &str, output: u32, packet: &Packet) {
        let bytes = self.bytes(packet);
        let Some(mark) = self.marks.get_mut(&packet.slot()) else { return };
        let before = std::mem::replace(&mut mark.bytes, bytes);
        let number = mark.number;
        let after = (mark.bytes != before).then(|| hexadecimal(&mark.bytes));
        let hop = Hop {
            name: name.to_owned(),
            class: class.to_owned(),
            input: None,
            fate: Fate::Output(output),
            before: hexadecimal(&before),
            after,
            notes: Vec::new(),
        };
        self.note(number, What::Element(hop));
    }
}

/// The interfaces, while a trace observes their packets.
pub(crate) struct Watched<'a> {
    pub(crate) inner: &'a mut dyn Devices,
    pub(crate) trace: Trace,
}

impl Watched<'_> {
    fn name(&self, interface: usize) -> String {
        self.inner.interface(interface).map(|i| i.name.clone()).unwrap_or_default()
    }

    /// Sends packets with `give` and notes which traced packets were sent.
    fn leave(
        &mut self,
        interface: usize,
        batch: &mut Batch,
        give: impl FnOnce(&mut dyn Devices, &mut Batch),
        what: impl Fn(String, String) -> What,
    ) {
        let name = self.name(interface);
        let mut trace = self.trace.borrow_mut();
        let followed: Vec<(u32, Vec<u8>)> = batch
            .iter()
            .filter(|packet| trace.follows(packet))
            .map(|packet| (packet.slot(), trace.bytes(packet)))
            .collect();
        give(self.inner, batch);
        for (slot, bytes) in followed {
            if batch.iter().all(|packet| packet.slot() != slot)
                && let Some(mark) = trace.marks.remove(&slot)
            {
                trace.note(mark.number, what(name.clone(), hexadecimal(&bytes)));
            }
        }
    }
}

impl Devices for Watched<'_> {
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        let before = batch.len();
        self.inner.rx(interface, batch, max);
        if batch.len() > before {
            let name = self.name(interface);
            let new = batch.as_slice().get(before..).unwrap_or_default();
            self.trace.borrow_mut().received(&name, new);
        }
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        self.leave(
            interface,
            batch,
            |inner, batch| inner.tx(interface, batch),
            |interface, bytes| What::Sent { interface, bytes },
        );
    }

    fn to_host(&mut self, interface: usize, batch: &mut Batch, keep: u32) {
        self.leave(
            interface,
            batch,
            |inner, batch| inner.to_host(interface, batch, keep),
            |interface, _| What::Host { interface },
        );
    }

    fn to_sniffers(&mut self, interface: usize, batch: &mut Batch) {
        self.inner.to_sniffers(interface, batch);
    }

    fn take_refused(&mut self, interface: usize) -> Refused {
        self.inner.take_refused(interface)
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.inner.index(name)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.inner.interface(index)
    }
}

/// Notes packets pulled from `source`: those of `batch` from number `before` on.
#[cold]
pub(crate) fn pulled(core: &Core, source: Port, batch: &Batch, before: usize) {
    let Some(trace) = &core.trace else { return };
    let mut trace = trace.borrow_mut();
    let index = source.element as usize;
    let name = core.names.get(index).map_or("", String::as_str);
    let class = core.classes.get(index).copied().unwrap_or_default();
    for packet in batch.iter().skip(before) {
        trace.pulled(name, class, source.port, packet);
    }
}

/// Gives a batch with traced packets to the element of `input`, each traced packet alone. Without
/// traced packets, returns false and does nothing.
#[cold]
pub(crate) fn hand_over(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    input: u32,
    batch: &mut Batch,
) -> bool {
    let Some(trace) = core.trace.clone() else { return false };
    {
        let trace = trace.borrow();
        if trace.marks.is_empty() || !batch.iter().any(|packet| trace.follows(packet)) {
            return false;
        }
    }
    let Some(&Port { element, port }) = core.wiring.inputs.get(input as usize) else {
        return false;
    };
    let mut group = core.work.take_batch();
    let packets: Vec<Packet> = batch.drain().collect();
    for packet in packets {
        let followed = trace.borrow().follows(&packet);
        if followed {
            give(core, elements, devices, Port { element, port }, &mut group);
            watch(&trace, core, elements, devices, Port { element, port }, packet);
        } else {
            // As many as came fit.
            let _ = group.push(packet);
        }
    }
    give(core, elements, devices, Port { element, port }, &mut group);
    core.work.give_batch(group);
    true
}

/// Gives packets to an element as the engine does; the rest is added to the work list.
fn give(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    to: Port,
    batch: &mut Batch,
) {
    if batch.is_empty() {
        return;
    }
    let index = to.element as usize;
    if let Some(account) = core.accounts.get_mut(index) {
        account.batches += 1;
        account.packets += batch.len() as u64;
    }
    core.forward = UNCONNECTED;
    with_element(core, elements, devices, index, |element, context| {
        element.push(to.port as usize, batch, context);
        if context.core.forward == UNCONNECTED {
            batch.clear();
        }
    });
    let next = std::mem::replace(&mut core.forward, UNCONNECTED);
    if next != UNCONNECTED {
        core.work.push_batch(next, batch);
    }
}

/// Gives one packet to an element and notes the result.
fn watch(
    trace: &Trace,
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    to: Port,
    packet: Packet,
) {
    let index = to.element as usize;
    let slot = packet.slot();
    let mut notes: Vec<String> =
        look_up(core, elements, devices, index, &packet).into_iter().collect();
    let drops_before = drops(core, elements, devices, index);
    let name = core.names.get(index).cloned().unwrap_or_default();
    let (event, number) = {
        let mut trace = trace.borrow_mut();
        let before = trace.bytes(&packet);
        let number = trace.marks.get(&slot).map_or(0, |mark| mark.number);
        let hop = Hop {
            name: name.clone(),
            class: core.classes.get(index).copied().unwrap_or_default().to_owned(),
            input: Some(to.port),
            fate: Fate::Dropped,
            before: hexadecimal(&before),
            after: None,
            notes: Vec::new(),
        };
        (trace.note(number, What::Element(hop)), number)
    };
    let live = |core: &Core| {
        let arena = &core.arena;
        arena.capacity() as i64 - arena.free() as i64 - arena.away() as i64
    };
    let live_before = live(core);
    let mut batch = Batch::new();
    // A new batch has room.
    let _ = batch.push(packet);
    let (mut targets, mut work) = {
        let mut trace = trace.borrow_mut();
        let targets = std::mem::take(&mut trace.targets);
        (targets, std::mem::replace(&mut trace.work, WorkList::new(0)))
    };
    std::mem::swap(&mut core.wiring.targets, &mut targets);
    std::mem::swap(&mut core.work, &mut work);
    if let Some(account) = core.accounts.get_mut(index) {
        account.batches += 1;
        account.packets += 1;
    }
    core.forward = UNCONNECTED;
    with_element(core, elements, devices, index, |element, context| {
        element.push(to.port as usize, &mut batch, context);
        if context.core.forward == UNCONNECTED {
            batch.clear();
        }
    });
    let next = std::mem::replace(&mut core.forward, UNCONNECTED);
    if next != UNCONNECTED {
        core.work.push_batch(next, &mut batch);
    }
    std::mem::swap(&mut core.wiring.targets, &mut targets);
    std::mem::swap(&mut core.work, &mut work);
    let live_after = live(core);

    let base = core.wiring.output_base.get(index).copied().unwrap_or(0);
    let (mut emitted, mut found) = (0, None);
    while let Some(mut out) = work.pop() {
        let real = core.wiring.targets.get(out.input as usize).copied().unwrap_or(UNCONNECTED);
        for packet in out.batch.drain() {
            emitted += 1;
            let mut trace = trace.borrow_mut();
            if packet.slot() == slot {
                let bytes = trace.bytes(&packet);
                found = Some((out.input - base, real, bytes.clone()));
                if let Some(mark) = trace.marks.get_mut(&slot) {
                    mark.bytes = bytes;
                }
            } else if !trace.follows(&packet)
                && let Some(made) = trace.mark(&packet)
            {
                let bytes = hexadecimal(&trace.bytes(&packet));
                let element = name.clone();
                trace.note(made, What::Made { from: number, element, bytes });
            }
            drop(trace);
            if real != UNCONNECTED {
                core.work.push(real, packet);
            } else {
                core.ledger.lose(index, (out.input - base) as usize, 1);
                trace_end(&mut core.trace, packet.slot());
            }
        }
        work.give_batch(out.batch);
    }
    let drops_after = drops(core, elements, devices, index);
    let mut trace = trace.borrow_mut();
    (trace.targets, trace.work) = (targets, work);
    let left = !trace.marks.contains_key(&slot) && found.is_none();
    let (fate, after) = match found {
        Some((output, UNCONNECTED, bytes)) => (Fate::Unconnected(output), Some(bytes)),
        Some((output, _, bytes)) => (Fate::Output(output), Some(bytes)),
        None if left => (Fate::Left, None),
        None if live_after - live_before - emitted + 1 > 0 => (Fate::Kept, None),
        None => (Fate::Dropped, None),
    };
    if matches!(fate, Fate::Dropped) {
        trace.marks.remove(&slot);
        notes.extend(causes(&drops_before, &drops_after));
    }
    if let Some(Event { what: What::Element(hop), .. }) =
        event.and_then(|event| trace.events.get_mut(event))
    {
        hop.fate = fate;
        hop.notes = notes;
        hop.after = after.map(|bytes| hexadecimal(&bytes)).filter(|after| *after != hop.before);
    }
}

/// Stops following a packet.
fn trace_end(trace: &mut Option<Trace>, slot: u32) {
    if let Some(trace) = trace {
        trace.borrow_mut().marks.remove(&slot);
    }
}
