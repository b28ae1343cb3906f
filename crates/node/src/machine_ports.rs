//! Ports of the machine: reserved by slices, held by sockets of the node, and led to slow paths.
//!
//! | file     | concern                                                        |
//! |----------|----------------------------------------------------------------|
//! | `assign` | which reservation has which number and place, calculated       |
//! | `hold`   | sockets that hold the ports, and `ip_local_reserved_ports`     |
//! | `state`  | reservations, their sockets and the rows of the hook           |
//! | `look`   | what programs of a slow path bind, where there is no hook      |
//!
//! A program that binds a port in a slow path with an uplink takes a reservation of its slice: the
//! hook of `europa-substrate` decides at the bind. A change of places is the input of the table of
//! nftables in `uplinks`.

mod assign;
mod hold;
mod look;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use europa_api::rest::ProblemDetails;
use europa_api::{
    Documents, MachinePortList, MachinePortRequest, MachinePortState, MappedBy, PortNumber,
    PortProtocol,
};
use europa_substrate::{BIND_SLICES, Binds};

use self::assign::{Place, Reserved, choose, number, place, reserve};
use self::hold::{FREE, keep_from_others};
pub(crate) use self::state::Inside;
use self::state::{Hook, Record, State, file, pins};
use crate::doctor::{Finding, Verdict};
use crate::kept::replace;
use crate::{Doing, Instance, Lifetime, NodeError};

/// Packets to a port of the machine that go to a slow path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) protocol: PortProtocol,
    /// The port of the machine.
    pub(crate) port: u16,
    /// Addresses of the node; empty: all.
    pub(crate) addresses: Vec<IpAddr>,
    /// SLICE/ROUTER.
    pub(crate) router: String,
    /// The port in its slow path.
    pub(crate) inside: u16,
}

/// The ports of the machine of a node; clones share them.
#[derive(Clone, Default)]
pub(crate) struct MachinePorts(Arc<Mutex<State>>);

impl MachinePorts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the reservations of the node's record.
    pub(crate) fn open(&self, instance: &Instance, lifetime: Lifetime) {
        let mut state = self.lock();
        let file = file(instance, lifetime);
        state.record = Record::read(&file);
        state.file = Some(file);
        state.pins = pins(instance);
    }

    /// From now on nothing changes any more.
    pub(crate) fn end(&self) {
        self.lock().file = None;
    }

    /// Whether there are reservations to follow.
    pub(crate) fn is_in_use(&self) -> bool {
        let state = self.lock();
        state.file.is_some() && !state.record.ports.is_empty()
    }

    /// The pins of the hook; `None` without it.
    pub(crate) fn hook(&self) -> Option<PathBuf> {
        match &self.lock().hook {
            Hook::Attached(binds) => Some(binds.pins().to_owned()),
            _ => None,
        }
    }

    /// Has all reservations of documents: numbers, sockets, rows of the hook. `insides` are the
    /// slow paths with uplinks, by router.
    ///
    /// # Errors
    /// A new reservation cannot be had.
    pub(crate) fn converge(
        &self,
        documents: &Documents,
        insides: BTreeMap<String, Inside>,
    ) -> Result<(), NodeError> {
        let mut state = self.lock();
        if state.file.is_none() {
            return Ok(());
        }
        let old = std::mem::take(&mut state.record.ports);
        let mut ports = reserve(&old, documents);
        if old.is_empty() && ports.is_empty() {
            return Ok(());
        }
        state.held.retain(&ports);
        // Numbers that are said come before those that the node chooses.
        let (mut said, mut chosen): (Vec<_>, Vec<_>) = ports.iter_mut().partition(|one| !one.any);
        for one in said.iter_mut().chain(&mut chosen) {
            let own =
                insides.iter().find(|(router, _)| router.split('/').next() == Some(&*one.slice));
            let range = own.map_or(FREE, |(_, inside)| inside.range.clone());
            state.held.hold(one, range);
        }
        place(&mut ports, documents, |router| insides.contains_key(router));
        let is_new = |one: &&Reserved| {
            !old.iter().any(|known| known.slice == one.slice && known.row == one.row)
        };
        let refused = ports.iter().filter(is_new).find_map(|one| {
            let why = one.message.as_ref()?;
            let (slice, protocol) = (&one.slice, one.protocol.word());
            Some(format!("slice {slice}: {protocol} port {} of the machine: {why}", one.port))
        });
        if let Some(refused) = refused {
            state.held.retain(&old);
            state.record.ports = old;
            return Err(NodeError::Refused(refused));
        }
        state.record.slices = number(&state.record.slices, &ports, BIND_SLICES);
        state.record.ports = ports;
        state.insides = insides;
        state.attach();
        state.write_rows(&old)?;
        state.notice();
        state.write()
    }

    /// Takes what programs have bound into account, and tries again what could not be had. Whether
    /// anything has changed.
    pub(crate) fn refresh(&self) -> bool {
        let mut state = self.lock();
        if state.file.is_none() {
            return false;
        }
        let before = state.record.ports.clone();
        state.retry();
        state.notice();
        let changed = state.record.ports != before;
        if changed && let Err(error) = state.write() {
            tracing::warn!("ports of the machine: {error}");
        }
        changed
    }

    /// Where packets to reserved ports go.
    pub(crate) fn forwards(&self) -> Vec<Forward> {
        let state = self.lock();
        let of = |one: &Reserved| {
            let place = one.place.as_ref()?;
            state.insides.contains_key(&place.router).then_some(())?;
            Some(Forward {
                protocol: one.protocol,
                port: one.number()?,
                addresses: one.addresses.clone(),
                router: place.router.clone(),
                inside: place.inside,
            })
        };
        state.record.ports.iter().filter_map(of).collect()
    }

    /// The reservations of a slice.
    pub(crate) fn list(&self, slice: &str) -> MachinePortList {
        let state = self.lock();
        let own = state.record.ports.iter().filter(|one| one.slice == slice);
        let noticed_by = if matches!(state.hook, Hook::Attached(_)) { "hook" } else { "look" };
        MachinePortList { items: own.map(shown).collect(), noticed_by: noticed_by.to_owned() }
    }

    /// Leads a reserved port to a slow path. The caller then makes the rules.
    ///
    /// # Errors
    /// The slice has no such reservation, or the router no uplink.
    pub(crate) fn map(
        &self,
        slice: &str,
        request: &MachinePortRequest,
    ) -> Result<MachinePortState, ProblemDetails> {
        let mut state = self.lock();
        let router = format!("{slice}/{}", request.router);
        if !state.insides.contains_key(&router) {
            let detail = format!("there is no router {} with an uplink", request.router);
            return Err(ProblemDetails::not_found(detail));
        }
        if request.inside == 0 {
            return Err(ProblemDetails::configuration("there is no port 0 inside".to_owned()));
        }
        let ports = &mut state.record.ports;
        let at = match request.port {
            PortNumber::Any => choose(ports, slice, request.protocol, &router, request.inside),
            PortNumber::Fixed(port) => ports.iter().position(|one| {
                one.slice == slice && one.protocol == request.protocol && one.port == port
            }),
        };
        let protocol = request.protocol.word();
        let Some(one) = at.and_then(|at| ports.get_mut(at)) else {
            let what = format!("slice {slice} has no free reservation of {protocol}");
            let detail = format!("{what} port {}", request.port);
            return Err(ProblemDetails::not_found(detail));
        };
        let is_mine = |place: &Place| place.router == router && place.inside == request.inside;
        if one.place.as_ref().is_some_and(|place| place.by != MappedBy::Program && !is_mine(place))
        {
            let detail = format!("{protocol} port {} is in use already", one.port);
            return Err(ProblemDetails::conflict(detail));
        }
        if one.place.as_ref().is_none_or(|place| place.by != MappedBy::Document) {
            let by = MappedBy::Request;
            one.place = Some(Place { router, inside: request.inside, by });
        }
        let (one, state_shown) = (one.clone(), shown(one));
        let done = state.write_row(&one).and_then(|()| state.write());
        done.map_err(|error| ProblemDetails::failed(error.to_string()))?;
        Ok(state_shown)
    }

    /// Ends what [`MachinePorts::map`] has begun.
    ///
    /// # Errors
    /// No request has led this port anywhere.
    pub(crate) fn unmap(
        &self,
        slice: &str,
        protocol: PortProtocol,
        port: u16,
    ) -> Result<(), ProblemDetails> {
        let mut state = self.lock();
        let one = state.record.ports.iter_mut().find(|one| {
            let by = one.place.as_ref().map(|place| place.by);
            let same = one.slice == slice && one.protocol == protocol && one.port == port;
            same && by == Some(MappedBy::Request)
        });
        let Some(one) = one else {
            let detail = format!("no request has {} port {port}", protocol.word());
            return Err(ProblemDetails::not_found(detail));
        };
        one.place = None;
        let one = one.clone();
        let done = state.write_row(&one).and_then(|()| state.write());
        done.map_err(|error| ProblemDetails::failed(error.to_string()))
    }
}

fn shown(one: &Reserved) -> MachinePortState {
    let place = one.place.as_ref();
    let router = place.and_then(|place| place.router.split_once('/'));
    MachinePortState {
        protocol: one.protocol,
        port: one.port,
        any: one.any,
        addresses: one.addresses.clone(),
        router: router.map(|(_, name)| name.to_owned()),
        inside: place.map(|place| place.inside),
        by: place.map(|place| place.by),
        message: one.message.clone(),
    }
}

/// Gives back what an instance has taken of the machine. Its processes must have ended. Numbers of a
/// lasting node stay in its record.
pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
    Binds::remove(&pins(instance))?;
    for lifetime in [Lifetime::Temporary, Lifetime::Lasting] {
        let path = file(instance, lifetime);
        let mut record = Record::read(&path);
        if !record.kept.is_empty() {
            let what = "giving ports of the machine back";
            keep_from_others(&record.kept, &BTreeSet::new()).doing(what)?;
            record.kept.clear();
            let text = serde_json::to_vec(&record).map_err(std::io::Error::from).doing(what)?;
            replace(&path, &text).doing(what)?;
        }
        if lifetime == Lifetime::Temporary {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).doing("removing the record of ports of the machine");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether binds of slow paths' programs are noticed at once: a check for `europa doctor`.
pub(crate) fn finding() -> Finding {
    let (verdict, detail) = match Binds::test() {
        Ok(()) => {
            (Verdict::Works, "what programs of slow paths bind is noticed at once".to_owned())
        }
        Err(error) => (
            Verdict::Limited,
            format!(
                "{error}; sockets of slow paths are looked at once a second, and a port leads to a \
                 program a second after its bind"
            ),
        ),
    };
    Finding { what: "ports of the machine".to_owned(), verdict, detail }
}
