//! One loop over a batch for several elements.

use europa_pool::{Batch, Packet, STOP};

use crate::context::Context;
use crate::devices::Devices;
use crate::element::Element;
use crate::state::{Core, Port, Slot, UNCONNECTED, Wiring};

/// Most stages of a pass.
pub const STAGES: usize = 8;

/// The elements of a pass by stage; stages may be empty.
pub type Members = [Option<Box<dyn Element>>; STAGES];

/// By stage: the output that leads to the next member.
pub type Main = [u16; STAGES];

/// The result of one of a pass's stages for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(u32);

impl Verdict {
    /// The packet continues to the next stage.
    pub const ON: Verdict = Verdict(0);
    /// The element takes this packet, and all that follow it in the batch, by its own
    /// [`Element::push`]. It has not changed or counted the packet.
    pub const ALONE: Verdict = Verdict(STOP);

    /// The packet leaves the pass by this output, or is dropped if the output is unconnected.
    #[inline(always)]
    pub const fn out(port: u16) -> Verdict {
        Verdict(1 << 16 | port as u32)
    }

    /// The result code of this verdict of this stage in [`Batch::sift`].
    #[inline(always)]
    pub const fn code(self, stage: usize) -> u32 {
        if self.0 == 0 { 0 } else { self.0 | (stage as u32) << 20 }
    }
}

fn stage_of(code: u32) -> usize {
    (code >> 20) as usize & (STAGES - 1)
}

/// An element that can be a stage of a pass: its effect on a packet does not depend on the packets
/// before and behind it.
pub trait Each: Element {
    /// Prepares for a batch.
    #[inline(always)]
    fn begin(&mut self, context: &Context<'_>) {
        let _ = context;
    }

    /// Handles one packet as [`Element::push`] does. `main` is the output by which packets stay in
    /// the pass: 0 for all elements with one output.
    fn each(&mut self, packet: &mut Packet, main: u16) -> Verdict;
}

/// Where and why a pass ended: packets kept, and the code of the verdict.
pub type Stop = (usize, u32);

/// A loop that does the work of several successive elements, packet by packet: each packet's bytes
/// and annotations are loaded once for all of them.
///
/// The elements stay unchanged. They keep their state and handlers, and the engine accounts each
/// packet to each of them. Packets that reach an element in the middle by another path go to that
/// element. Only the order of packets that leave by *different* outputs differs. On each path
/// packets keep their order, even after a packet that an element takes alone ([`Verdict::ALONE`]):
/// that packet and all after it leave the pass together.
pub trait Pass: Sync {
    /// Whether an element can be this stage.
    fn fits(&self, stage: usize, element: &mut dyn Element) -> bool;

    /// Whether the pass may continue from any output of this stage.
    fn branches(&self, stage: usize) -> bool;

    /// Whether the pass is faster for a batch that starts with this packet.
    fn suits(&self, members: &mut Members, main: &Main, first: &Packet) -> bool;

    /// Passes packets from number `start` on through all stages below `limit`. Earlier packets are
    /// finished.
    fn run(
        &self,
        members: &mut Members,
        batch: &mut Batch,
        start: usize,
        limit: usize,
        fused: &mut Fused<'_, '_>,
    ) -> Option<Stop>;

    /// Sends packets that have passed all stages: by [`Context::forward`] or similar.
    fn finish(&self, members: &mut Members, batch: &mut Batch, context: &mut Context<'_>);
}

/// The surroundings of a pass's loop.
pub struct Fused<'a, 'b> {
    context: &'a mut Context<'b>,
    chain: &'a Chain,
    /// By stage: number of packets that have left the pass at that stage.
    left: [usize; STAGES],
}

impl<'b> Fused<'_, 'b> {
    /// The surroundings of elements before the first packet.
    #[inline(always)]
    pub fn context(&self) -> &Context<'b> {
        self.context
    }

    /// See [`Main`].
    #[inline(always)]
    pub fn main(&self) -> &Main {
        &self.chain.main
    }

    /// Sends a packet to the output of its verdict.
    pub fn leave(&mut self, packet: Packet, code: u32) {
        let stage = stage_of(code);
        if let (Some(left), Some(member)) =
            (self.left.get_mut(stage), self.chain.members.get(stage))
        {
            *left += 1;
            self.context.me = *member as usize;
            self.context.push((code & 0xffff) as usize, packet);
        }
    }
}

/// No element.
const NONE: u32 = u32::MAX;

/// Elements of a graph that a pass fits.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    pass: &'static dyn Pass,
    /// By stage: the element.
    members: [u32; STAGES],
    /// By stage: its input; `None` for the first member.
    inputs: [u32; STAGES],
    main: Main,
    length: usize,
    last: u32,
}

/// By input: the longest chain that starts there.
pub(crate) fn chains(
    passes: &[&'static dyn Pass],
    elements: &mut [Slot],
    wiring: &Wiring,
) -> Vec<Option<Chain>> {
    let longest = |input: u32| {
        let chains = passes.iter().filter_map(|pass| {
            let empty = Chain {
                pass: *pass,
                members: [NONE; STAGES],
                inputs: [NONE; STAGES],
                main: [0; STAGES],
                length: 0,
                last: NONE,
            };
            extend(empty, 0, input, elements, wiring)
        });
        // A pass with a single element would be slower.
        chains.max_by_key(|chain| chain.length).filter(|chain| chain.length > 1)
    };
    (0..wiring.inputs.len() as u32).map(longest).collect()
}

/// The chain extended by the element of this input, and its possible successors.
fn extend(
    mut chain: Chain,
    from: usize,
    input: u32,
    elements: &mut [Slot],
    wiring: &Wiring,
) -> Option<Chain> {
    let Port { element, port: 0 } = *wiring.inputs.get(input as usize)? else { return None };
    if chain.members.contains(&element) {
        return None;
    }
    let slot = elements.get_mut(element as usize)?.as_deref_mut()?;
    let stage = (from..STAGES).find(|stage| chain.pass.fits(*stage, slot))?;
    *chain.members.get_mut(stage)? = element;
    if chain.length > 0 {
        *chain.inputs.get_mut(stage)? = input;
    }
    chain.length += 1;
    chain.last = element;
    let outputs = match wiring.output_base.get(element as usize..element as usize + 2) {
        Some([start, end]) => wiring.targets.get(*start as usize..*end as usize)?,
        _ => return Some(chain),
    };
    let tried = if chain.pass.branches(stage) { outputs.len() } else { 1 };
    let mut longest = chain;
    for (output, target) in outputs.iter().enumerate().take(tried) {
        let mut with = chain;
        *with.main.get_mut(stage)? = output as u16;
        if *target != UNCONNECTED
            && let Some(found) = extend(with, stage + 1, *target, elements, wiring)
            && found.length > longest.length
        {
            longest = found;
        }
    }
    Some(longest)
}

impl Chain {
    /// Gives a batch to the pass. Returns the next input for the rest of the batch, or
    /// [`UNCONNECTED`]; `None` if the batch must pass from element to element.
    #[inline]
    pub(crate) fn run(
        &self,
        core: &mut Core,
        elements: &mut [Slot],
        devices: &mut dyn Devices,
        batch: &mut Batch,
    ) -> Option<u32> {
        // The pass would overtake packets that wait inside the chain.
        if core.work.len() > 0 && self.inputs.iter().any(|input| core.work.is_waiting(*input)) {
            return None;
        }
        let mut members = Members::default();
        let mut found = 0;
        for (place, member) in members.iter_mut().zip(&self.members) {
            // NONE lies beyond all elements.
            if let Some(slot) = elements.get_mut(*member as usize) {
                *place = slot.take();
                found += usize::from(place.is_some());
            }
        }
        // An element is missing if it has panicked.
        let suits = found == self.length
            && batch
                .as_slice()
                .first()
                .is_some_and(|p| self.pass.suits(&mut members, &self.main, p));
        let mut next = None;
        if suits {
            let outer = core.ledger.enter(core.arena.freed(), self.last as usize);
            let mut context = Context { core, elements, devices, me: self.last as usize };
            self.go(&mut members, batch, &mut context);
            let forward = std::mem::replace(&mut core.forward, UNCONNECTED);
            if forward == UNCONNECTED {
                batch.clear();
            }
            core.ledger.leave(core.arena.freed(), outer);
            next = Some(forward);
        }
        for (place, member) in members.iter_mut().zip(&self.members) {
            if let Some(slot) = elements.get_mut(*member as usize) {
                *slot = place.take();
            }
        }
        next
    }

    #[inline]
    fn go(&self, members: &mut Members, batch: &mut Batch, context: &mut Context<'_>) {
        context.core.forward = UNCONNECTED;
        match self.pass(members, batch, 0, STAGES, context) {
            None => {
                context.me = self.last as usize;
                self.pass.finish(members, batch, context);
            }
            Some(stop) => self.part(stop, members, batch, context),
        }
    }

    /// Runs the pass on packets from `start` on, and accounts them to the members.
    #[inline]
    fn pass(
        &self,
        members: &mut Members,
        batch: &mut Batch,
        start: usize,
        limit: usize,
        context: &mut Context<'_>,
    ) -> Option<Stop> {
        let before = batch.len();
        let mut fused = Fused { context, chain: self, left: [0; STAGES] };
        let stop = self.pass.run(members, batch, start, limit, &mut fused);
        let left = fused.left;
        let (end, ended) = match stop {
            Some((kept, code)) => (kept, Some(stage_of(code))),
            None => (batch.len(), None),
        };
        // The count of the former stage: kept packets, packets that left, and the packet that ended
        // the pass.
        let mut count = end - start + left.iter().sum::<usize>() + usize::from(ended.is_some());
        debug_assert!(count <= before);
        for (stage, (member, left)) in self.members.iter().zip(left).enumerate().take(limit) {
            count -= usize::from(ended == Some(stage));
            if let Some(account) = context.core.accounts.get_mut(*member as usize)
                && count > 0
            {
                account.batches += 1;
                account.packets += count as u64;
            }
            count -= left;
        }
        stop
    }

    /// Handles a pass that ended at a packet that an element takes alone. Earlier packets continue.
    /// This packet and later ones must keep their order, so all of them go to that element's
    /// `push`, through the stages before it if necessary.
    #[cold]
    #[inline(never)]
    fn part(
        &self,
        stop: Stop,
        members: &mut Members,
        batch: &mut Batch,
        context: &mut Context<'_>,
    ) {
        let mut limit = STAGES;
        let mut stop = Some(stop);
        let mut done = context.take_batch();
        while let Some((kept, code)) = stop {
            batch.move_front(kept, &mut done);
            self.deliver(limit, members, &mut done, context);
            limit = stage_of(code);
            // The packet that ended the pass has reached its element.
            stop = self.pass(members, batch, 1, limit, context);
        }
        self.deliver(limit, members, batch, context);
        context.give_batch(done);
    }

    /// Gives packets at a stage to its element, or sends them on.
    fn deliver(
        &self,
        stage: usize,
        members: &mut Members,
        batch: &mut Batch,
        context: &mut Context<'_>,
    ) {
        if batch.is_empty() {
            return;
        }
        match (self.members.get(stage), members.get_mut(stage)) {
            (Some(member), Some(Some(element))) => {
                context.me = *member as usize;
                if let Some(account) = context.core.accounts.get_mut(context.me) {
                    account.batches += 1;
                    account.packets += batch.len() as u64;
                }
                let outer = context.core.ledger.enter(context.core.arena.freed(), context.me);
                element.push(0, batch, context);
                if context.core.forward == UNCONNECTED {
                    batch.clear();
                }
                context.core.ledger.leave(context.core.arena.freed(), outer);
            }
            _ => {
                context.me = self.last as usize;
                self.pass.finish(members, batch, context);
            }
        }
        let next = std::mem::replace(&mut context.core.forward, UNCONNECTED);
        if next != UNCONNECTED {
            context.core.work.push_batch(next, batch);
        }
        batch.clear();
    }
}
