//! Elements that may have packets, and elements that may have room: Click's notifiers.
//!
//! Every round gives all tasks a turn, so no wake-up is needed. A signal tells whether a turn would
//! find work. A source reads it before it makes packets that a full queue would drop. Handlers
//! named `scheduled` show it to the user.

use crate::devices::Devices;
use crate::state::{Core, Port, Slot, UNCONNECTED, with_element};

/// Which signals an element has itself, other than "always".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notifies {
    /// [`crate::Element::has_packets`] tells whether its pull outputs have packets.
    pub packets: bool,
    /// [`crate::Element::has_room`] tells whether its push inputs have room.
    pub room: bool,
}

impl Notifies {
    /// No notification: the search continues with the elements beyond it.
    pub const NOTHING: Notifies = Notifies { packets: false, room: false };
    /// Whether there are packets.
    pub const PACKETS: Notifies = Notifies { packets: true, room: false };
    /// Whether there is room.
    pub const ROOM: Notifies = Notifies { packets: false, room: true };
    /// Both.
    pub const BOTH: Notifies = Notifies { packets: true, room: true };
}

/// The subject of a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum About {
    #[default]
    Packets,
    Room,
}

/// All elements that know whether there are packets at one end of a path, or room at the other.
/// [`crate::InitContext::upstream`] and [`crate::InitContext::downstream`] make it;
/// [`crate::Context::is_active`] reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    about: About,
    asked: Vec<Port>,
    /// Some path ends with an element that has no notification.
    always: bool,
}

impl Signal {
    /// The elements that are asked, with their ports.
    pub fn asked(&self) -> impl Iterator<Item = (usize, usize)> {
        self.asked.iter().map(|port| (port.element as usize, port.port as usize))
    }

    /// Whether it can ever be inactive.
    pub fn is_constant(&self) -> bool {
        self.always
    }
}

/// Searches for the elements that may have packets for a pull input.
pub(crate) fn upstream(core: &Core, elements: &[Slot], me: usize, port: usize) -> Signal {
    let wiring = &core.wiring;
    let sources = |element: usize| -> Vec<Port> {
        let inputs = wiring.inputs_of(element);
        inputs.filter_map(|input| wiring.sources.get(input).copied().flatten()).collect()
    };
    let first = wiring.inputs_of(me).nth(port).and_then(|input| wiring.sources.get(input));
    search(About::Packets, first.copied().flatten(), elements, |e| e.packets, sources)
}

/// Searches for the elements that may have room behind a push output.
pub(crate) fn downstream(core: &Core, elements: &[Slot], me: usize, port: usize) -> Signal {
    let wiring = &core.wiring;
    let target = |output: usize| -> Option<Port> {
        let input = wiring.targets.get(output).filter(|input| **input != UNCONNECTED)?;
        wiring.inputs.get(*input as usize).copied()
    };
    let targets = |element| wiring.outputs_of(element).filter_map(target).collect();
    let first = wiring.outputs_of(me).nth(port).and_then(target);
    search(About::Room, first, elements, |e| e.room, targets)
}

fn search(
    about: About,
    first: Option<Port>,
    elements: &[Slot],
    tells: impl Fn(Notifies) -> bool,
    beyond: impl Fn(usize) -> Vec<Port>,
) -> Signal {
    let mut signal = Signal { about, ..Signal::default() };
    let mut seen = vec![false; elements.len()];
    let mut open: Vec<Port> = first.into_iter().collect();
    while let Some(port) = open.pop() {
        let index = port.element as usize;
        // The asking element is out of its place while it runs. A path that leads back to it adds
        // nothing.
        let (Some(seen), Some(Some(element))) = (seen.get_mut(index), elements.get(index)) else {
            continue;
        };
        if tells(element.notifies()) {
            if !signal.asked.contains(&port) {
                signal.asked.push(port);
            }
        } else if !std::mem::replace(seen, true) {
            let next = beyond(index);
            signal.always |= next.is_empty();
            open.extend(next.into_iter().rev());
        }
    }
    // If no element was found, for example in a cycle of pulls, the answer is unknown.
    signal.always |= signal.asked.is_empty();
    signal
}

pub(crate) fn is_active(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    signal: &Signal,
) -> bool {
    let mut ask = |port: &Port| {
        let answer =
            with_element(core, elements, devices, port.element as usize, |e, context| match signal
                .about
            {
                About::Packets => e.has_packets(port.port as usize, context),
                About::Room => e.has_room(port.port as usize, context),
            });
        answer.unwrap_or(false)
    };
    signal.always || signal.asked.iter().any(&mut ask)
}
