//! The received rates of slices: keeps the meters of the receive programs as the documents have
//! them.

use std::collections::BTreeMap;

use europa_api::{Documents, Fault, Key};
use europa_substrate::Substrate;
use europa_substrate::layout::MAX_METERS;

use crate::NodeError;
use crate::routers::Router;

/// A slice and a port.
type Pair = (String, String);

struct Meter {
    number: u32,
    /// The present setting of the programs; `None` before the first.
    bits: Option<u64>,
}

/// All meters.
#[derive(Default)]
pub(crate) struct Meters {
    made: BTreeMap<Pair, Meter>,
    /// Whether meters of a killed node have been searched.
    looked: bool,
}

/// Routers' interfaces on ports: whose they are, and their numbers.
fn on_ports(routers: &[Router]) -> impl Iterator<Item = (Pair, u32)> {
    routers.iter().flat_map(|router| {
        let slice = router.plan.name.slice();
        let all = router.plan.interfaces.iter().zip(&router.interfaces);
        all.filter_map(move |(interface, id)| {
            Some(((slice.to_owned(), interface.to.port()?.to_string()), *id))
        })
    })
}

/// The rates of the documents, in bits a second.
fn wanted(documents: &Documents) -> BTreeMap<Pair, u64> {
    let slices = documents.slices.iter();
    let reservations = slices.filter_map(|slice| Some((slice, slice.reservation.as_ref()?)));
    let parts = reservations.flat_map(|(slice, reservation)| {
        reservation.ports.0.iter().filter_map(move |(port, part)| {
            let pair = (slice.name.to_string(), port.to_string());
            Some((pair, part.rate_in?.bits_per_second))
        })
    });
    parts.collect()
}

/// Whether the machine has a meter for each slice and port that names a rate.
///
/// # Errors
/// There are too many; names the first slice without a meter.
pub(crate) fn check(documents: &Documents) -> Result<(), NodeError> {
    let most = MAX_METERS as usize - 1;
    let Some(((slice, port), _)) = wanted(documents).into_iter().nth(most) else { return Ok(()) };
    let why = format!("there are {most} meters for rates of what comes in, and this is one more");
    let path = ["reservation", "ports", &port, "rate_in"];
    Err(Fault::new(Key::new("slice", slice), &path, why).label("no meter is left").into())
}

impl Meters {
    /// Sets the meters of the receive programs. Costs little without a change.
    pub(crate) fn follow(
        &mut self,
        substrate: &Substrate,
        documents: &Documents,
        routers: &[Router],
    ) {
        let wanted = wanted(documents);
        if wanted.is_empty() && self.made.is_empty() && self.looked {
            return;
        }
        if !std::mem::replace(&mut self.looked, true) {
            self.find(substrate, routers);
        }
        for (pair, bits) in &wanted {
            let Some(meter) = self.meter(pair) else {
                tracing::warn!("no meter is left for what comes in by {} for {}", pair.1, pair.0);
                continue;
            };
            if meter.bits != Some(*bits) {
                substrate.set_meter(meter.number, Some(*bits));
                meter.bits = Some(*bits);
            }
        }
        for (pair, id) in on_ports(routers) {
            let made = self.made.get(&pair).filter(|_| wanted.contains_key(&pair));
            let number = made.map_or(0, |meter| meter.number);
            if substrate.meter_of(id) != number {
                substrate.police(id, number);
            }
        }
        self.made.retain(|pair, meter| {
            let stays = wanted.contains_key(pair);
            if !stays {
                substrate.set_meter(meter.number, None);
            }
            stays
        });
    }

    /// The meters of a killed node: the programs still use them.
    fn find(&mut self, substrate: &Substrate, routers: &[Router]) {
        for (pair, id) in on_ports(routers) {
            let number = substrate.meter_of(id);
            if number != 0 && !self.made.values().any(|meter| meter.number == number) {
                self.made.entry(pair).or_insert(Meter { number, bits: None });
            }
        }
    }

    fn meter(&mut self, pair: &Pair) -> Option<&mut Meter> {
        if !self.made.contains_key(pair) {
            let taken = |number| self.made.values().any(|meter| meter.number == number);
            let number = (1..MAX_METERS).find(|number| !taken(*number))?;
            self.made.insert(pair.clone(), Meter { number, bits: None });
        }
        self.made.get_mut(pair)
    }
}
