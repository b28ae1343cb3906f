//! The state of the ports of the machine: reservations, their sockets, and the rows of the hook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use europa_api::MappedBy;
use europa_port::Namespace;
use europa_slowpath::uplink::Addresses;
use europa_substrate::{BindHolder, BindPlace, BindRow, Binds};
use serde::{Deserialize, Serialize};

use super::assign::{Place, Reserved, choose};
use super::hold::{FREE, Held, keep_from_others};
use super::look;
use crate::kept::replace;
use crate::{Doing, Instance, Lifetime, NodeError};

/// A slow path that can have ports of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    /// The number of its uplink.
    pub(crate) number: u32,
    pub(crate) namespace: Namespace,
    /// Numbers for `any` reservations of its slice.
    pub(crate) range: RangeInclusive<u16>,
}

/// The facts that a later node needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The numbers of slices in the tables of the hook.
    pub(super) slices: BTreeMap<String, u32>,
    pub(super) ports: Vec<Reserved>,
    /// Numbers that this node has put into `ip_local_reserved_ports`.
    pub(super) kept: BTreeSet<u16>,
}

#[derive(Default)]
pub(super) struct State {
    /// The file of the record; `None` before the node runs, and after its end.
    pub(super) file: Option<PathBuf>,
    pub(super) pins: PathBuf,
    pub(super) record: Record,
    pub(super) held: Held,
    /// Slow paths with uplinks, by router.
    pub(super) insides: BTreeMap<String, Inside>,
    pub(super) hook: Hook,
}

/// How binds are noticed.
#[derive(Default)]
pub(super) enum Hook {
    /// Not needed yet.
    #[default]
    Unknown,
    Attached(Binds),
    /// The sockets are looked at.
    Missing,
}

pub(super) fn file(instance: &Instance, lifetime: Lifetime) -> PathBuf {
    instance.state(lifetime).with_file_name("machine-ports.json")
}

pub(super) fn pins(instance: &Instance) -> PathBuf {
    instance.directory().join("binds")
}

impl Record {
    pub(super) fn read(path: &Path) -> Record {
        serde_json::from_slice(&fs::read(path).unwrap_or_default()).unwrap_or_default()
    }
}

impl State {
    /// Attaches the hook at the first need.
    pub(super) fn attach(&mut self) {
        if let (Hook::Unknown, false) = (&self.hook, self.record.ports.is_empty()) {
            self.hook = match Binds::open(&self.pins) {
                Ok(binds) => Hook::Attached(binds),
                Err(error) => {
                    tracing::warn!("sockets of slow paths are looked at once a second: {error}");
                    Hook::Missing
                }
            };
        }
    }

    fn row(&self, one: &Reserved) -> Option<BindRow> {
        // A program's place is the hook's own to set.
        let place = one.place.as_ref().filter(|place| place.by != MappedBy::Program);
        let holder = place.and_then(|place| {
            let number = self.insides.get(&place.router)?.number;
            Some(BindHolder { router: u16::try_from(number).ok()?, inside: place.inside })
        });
        Some(BindRow {
            protocol: one.protocol.number(),
            port: one.number()?,
            any: one.any,
            fixed: holder.is_some(),
            holder,
            sockets: 0,
        })
    }

    /// Writes the row of a reservation, if the hook does not have it so already.
    pub(super) fn write_row(&self, one: &Reserved) -> Result<(), NodeError> {
        let (Hook::Attached(binds), Some(slice)) = (&self.hook, self.record.slices.get(&one.slice))
        else {
            return Ok(());
        };
        let (wanted, found) = (self.row(one), binds.row(*slice, one.row)?);
        let same = match (wanted, found) {
            (Some(wanted), Some(found)) => {
                let kind = |row: &BindRow| (row.protocol, row.port, row.any, row.fixed);
                kind(&wanted) == kind(&found)
                    && (!wanted.fixed || wanted.holder == found.holder)
                    && (wanted.fixed || found.holder.is_none_or(|holder| self.is_there(holder)))
            }
            (wanted, found) => wanted == found,
        };
        if same { Ok(()) } else { Ok(binds.set_row(*slice, one.row, wanted)?) }
    }

    /// Whether a holder's router has an uplink.
    fn is_there(&self, holder: BindHolder) -> bool {
        self.insides.values().any(|inside| inside.number == u32::from(holder.router))
    }

    /// Writes all rows and namespaces, and clears those of `old` reservations.
    pub(super) fn write_rows(&self, old: &[Reserved]) -> Result<(), NodeError> {
        let Hook::Attached(binds) = &self.hook else { return Ok(()) };
        let ports = &self.record.ports;
        for one in old {
            let stays = |new: &Reserved| new.slice == one.slice && new.row == one.row;
            if !ports.iter().any(stays)
                && let Some(slice) = self.record.slices.get(&one.slice)
            {
                binds.set_row(*slice, one.row, None)?;
            }
        }
        for one in ports {
            self.write_row(one)?;
        }
        let mut places = Vec::new();
        for (router, inside) in &self.insides {
            let slice = router.split('/').next().unwrap_or_default();
            let (Some(slice), Ok(number)) =
                (self.record.slices.get(slice), u16::try_from(inside.number))
            else {
                continue;
            };
            let cookie = inside.namespace.cookie().doing(format!("the namespace of {router}"))?;
            let Addresses { v4, v6, .. } = Addresses::of(inside.number);
            places.push((cookie, BindPlace { slice: *slice, router: number, v4, v6 }));
        }
        Ok(binds.set_places(&places)?)
    }

    /// Reads what programs have bound.
    pub(super) fn notice(&mut self) {
        match &self.hook {
            Hook::Attached(_) => self.read_rows(),
            Hook::Missing => self.look(),
            Hook::Unknown => {}
        }
    }

    fn read_rows(&mut self) {
        let Hook::Attached(binds) = &self.hook else { return };
        for one in &mut self.record.ports {
            let is_said = one.place.as_ref().is_some_and(|place| place.by != MappedBy::Program);
            let Some(slice) = self.record.slices.get(&one.slice).filter(|_| !is_said) else {
                continue;
            };
            let row = binds.row(*slice, one.row).unwrap_or_else(|error| {
                tracing::warn!("ports of the machine: {error}");
                None
            });
            let holder = row.and_then(|row| row.holder);
            one.place = holder.and_then(|holder| {
                let number = u32::from(holder.router);
                let (router, _) =
                    self.insides.iter().find(|(_, inside)| inside.number == number)?;
                let by = MappedBy::Program;
                Some(Place { router: router.clone(), inside: holder.inside, by })
            });
        }
    }

    /// Looks at the sockets of all slow paths.
    fn look(&mut self) {
        let mut waiting = BTreeMap::new();
        for (router, inside) in &self.insides {
            match look::waiting(&inside.namespace) {
                Ok(found) => drop(waiting.insert(router.clone(), found)),
                Err(error) => tracing::warn!("sockets of {router}: {error}"),
            }
        }
        let ports = &mut self.record.ports;
        for one in ports.iter_mut() {
            let protocol = one.protocol;
            let is_gone = |place: &Place| {
                let has = waiting.get(&place.router);
                place.by == MappedBy::Program
                    && !has.is_some_and(|all| all.contains(&(protocol, place.inside)))
            };
            if one.place.as_ref().is_some_and(is_gone) {
                one.place = None;
            }
        }
        for (router, found) in waiting {
            let slice = router.split('/').next().unwrap_or_default().to_owned();
            for (protocol, inside) in found {
                let chosen = choose(ports, &slice, protocol, &router, inside);
                if let Some(one) = chosen.and_then(|at| ports.get_mut(at))
                    && one.place.is_none()
                {
                    let by = MappedBy::Program;
                    one.place = Some(Place { router: router.clone(), inside, by });
                }
            }
        }
    }

    /// Tries to hold what another program had.
    pub(super) fn retry(&mut self) {
        let mut ports = std::mem::take(&mut self.record.ports);
        let failed = ports.iter_mut().filter(|one| one.message.is_some());
        failed.for_each(|one| self.held.hold(one, FREE));
        self.record.ports = ports;
        for one in self.record.ports.iter().filter(|one| one.message.is_none()) {
            if let Err(error) = self.write_row(one) {
                tracing::warn!("ports of the machine: {error}");
            }
        }
    }

    /// Writes the record, and keeps the kernel from giving the numbers away.
    pub(super) fn write(&mut self) -> Result<(), NodeError> {
        let Some(file) = &self.file else { return Ok(()) };
        let wanted: BTreeSet<u16> = self.record.ports.iter().filter_map(Reserved::number).collect();
        let before = std::mem::replace(&mut self.record.kept, wanted);
        let what = "writing down ports of the machine";
        let text = serde_json::to_vec(&self.record).map_err(std::io::Error::from).doing(what)?;
        replace(file, &text).doing(what)?;
        keep_from_others(&before, &self.record.kept)
            .doing("keeping ports of the machine from other programs")
    }
}
