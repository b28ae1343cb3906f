//! Uplinks of slow paths: devices in the namespace of the node, and one table of nftables.
//!
//! All of it is made by [`Uplinks::converge`], which may be called at any time: after a change,
//! after a failure half-way, and after another program has removed a part. It runs in threads.

mod forward;
mod nft;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use europa_api::{Documents, Router};
use europa_port::Namespace;
use europa_slowpath::environment::folder;
use europa_slowpath::namespace;
use europa_slowpath::uplink::{self, Addresses};
use europa_slowpath::users::Ids;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::table::Found;
use crate::kept::replace;
use crate::{Doing, Instance, NodeError};

pub(crate) use self::forward::findings;

/// The uplink of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Uplink {
    router: String,
    slice: String,
    /// That of its slow path's range of users, which no other slow path of the machine has.
    number: u32,
    /// All of it was made.
    is_made: bool,
}

impl Uplink {
    /// The name of its device in the namespace of the node.
    fn device(&self) -> String {
        uplink::outer_name(self.number)
    }

    fn addresses(&self) -> Addresses {
        Addresses::of(self.number)
    }
}

/// The uplinks of an instance, for a later node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// By router.
    uplinks: BTreeMap<String, Uplink>,
    /// The numbers of slices' ranges of ports.
    slices: BTreeMap<String, u32>,
}

impl Record {
    fn path(instance: &Instance) -> PathBuf {
        instance.directory().join("uplinks.json")
    }

    /// The record of this node or of a killed one. A truncated one was written before any object
    /// was made.
    fn read(instance: &Instance) -> Record {
        let text = fs::read(Record::path(instance)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, instance: &Instance) -> Result<(), NodeError> {
        let what = "writing down uplinks";
        let text = serde_json::to_vec(self).map_err(std::io::Error::from).doing(what)?;
        replace(&Record::path(instance), &text).doing(what)
    }

    fn remove(instance: &Instance) -> Result<(), NodeError> {
        match fs::remove_file(Record::path(instance)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).doing("removing the record of uplinks")
            }
            _ => Ok(()),
        }
    }

    fn is_empty(&self) -> bool {
        self.uplinks.is_empty() && self.slices.is_empty()
    }
}

/// The uplinks of a node that are whole: devices, addresses and rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uplinks {
    whole: Arc<Mutex<Record>>,
    /// Packets over the slices' limits, by the last reading.
    refused: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// The table of an instance.
fn table_name(instance: &Instance) -> String {
    format!("europa_{}", instance.name())
}

/// The namespace in which the node runs.
fn here() -> Result<Namespace, NodeError> {
    Namespace::current().doing("opening our network namespace")
}

impl Uplinks {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A document of a router, with its uplink only if that exists.
    pub(crate) fn as_made(&self, router: &Router) -> Router {
        let has = self.lock().uplinks.contains_key(&router.full_name());
        europa_plan::slow_paths::with_uplink(router, has)
    }

    /// Makes the desired uplinks, removes all others, and makes the table.
    ///
    /// # Errors
    /// The first part that could not be made. A later call makes the rest.
    pub(crate) fn converge(
        &self,
        instance: &Instance,
        documents: &Documents,
    ) -> Result<(), NodeError> {
        let old = Record::read(instance);
        let wanted = wanted(instance, documents)?;
        if wanted.is_empty() && old.is_empty() {
            return Ok(());
        }
        // No uplink counts as complete until all are.
        *self.lock() = Record::default();
        let slices = wanted.values().map(|one| one.slice.as_str());
        let slices = table::number(&old.slices, slices).map_err(|slice| {
            let most = table::RANGES;
            NodeError::Refused(format!("slice {slice}: {most} slices have uplinks already"))
        })?;
        let mut all = Record { uplinks: wanted, slices };
        let here = here()?;
        let known = |one: &Uplink| {
            old.uplinks
                .get(&one.router)
                .is_some_and(|known| known.is_made && known.number == one.number)
        };
        let mut insides = BTreeMap::new();
        for router in documents.routers.iter().filter(|router| router.slow_path.is_some()) {
            let name = router.full_name();
            let inside = namespace::name(instance.name(), &router.slice, &router.name);
            let inside = Namespace::named(&inside).doing(format!("the uplink of {name}"))?;
            if let Some(one) = all.uplinks.get_mut(&name) {
                one.is_made = known(one)
                    && uplink::is_there(&inside, &here, one.number)
                        .doing(format!("looking at the uplink of {name}"))?;
            }
            insides.insert(name, inside);
        }
        let mut gone = old.uplinks.clone();
        gone.retain(|name, one| {
            all.uplinks.get(name).is_none_or(|wanted| wanted.number != one.number)
        });
        // Written first, so that a later clean-up finds the uplinks even if the node ends here.
        let mut during = all.clone();
        let before = gone.iter().map(|(name, one)| (format!("{name} before"), one.clone()));
        during.uplinks.extend(before);
        during.write(instance)?;
        for (name, one) in &gone {
            uplink::remove(&here, one.number).doing(format!("removing the uplink of {name}"))?;
            if let (Some(inside), None) = (insides.get(name), all.uplinks.get(name)) {
                uplink::remove_rules(inside).doing(format!("removing the uplink of {name}"))?;
            }
        }
        let table = table_name(instance);
        if all.uplinks.is_empty() {
            nft::delete(&table)?;
            return Record::remove(instance);
        }
        // No device exists without its rules.
        let found = nft::list(&table)?.map(|text| Found::parse(&text)).unwrap_or_default();
        let uplinks: Vec<Uplink> = all.uplinks.values().cloned().collect();
        nft::run(&table::script(&table, &uplinks, &all.slices, &found))?;
        for (name, one) in all.uplinks.iter_mut().filter(|(_, one)| !one.is_made) {
            let Some(inside) = insides.get(name) else { continue };
            // Remains of a killed node, or of a former slow path.
            let made = uplink::remove(&here, one.number)
                .and_then(|()| uplink::make(inside, &here, one.number));
            match made {
                // Programs there can prevent it repeatedly, which must not prevent changes of other
                // slices. The drift thread finds the loss, and then it is tried again.
                Err(error) if known(one) => tracing::warn!("the uplink of {name}: {error}"),
                made => made.doing(format!("making the uplink of {name}"))?,
            }
            one.is_made = true;
        }
        all.write(instance)?;
        *self.lock() = all;
        Ok(())
    }

    /// Takes over the uplinks of a killed node, if all of them exist and `is_adopted` holds for
    /// their routers. Otherwise the next change of the node repairs them.
    pub(crate) fn adopt(&self, instance: &Instance, is_adopted: impl Fn(&str) -> bool) {
        let old = Record::read(instance);
        let is_whole = old.uplinks.values().all(|one| one.is_made)
            && old.uplinks.keys().all(|router| is_adopted(router))
            && look(instance, &old).0.is_none();
        if is_whole {
            *self.lock() = old;
        }
    }

    /// Removes the device of a router whose slow path is removed. The next [`Uplinks::converge`]
    /// changes the table.
    pub(crate) fn remove(&self, router: &str) -> Result<(), NodeError> {
        let Some(one) = self.lock().uplinks.remove(router) else { return Ok(()) };
        uplink::remove(&here()?, one.number).doing(format!("removing the uplink of {router}"))
    }

    /// Marks them as incomplete, so that the next change repairs them. Returns whether there were
    /// any.
    pub(crate) fn lose(&self) -> bool {
        !std::mem::take(&mut *self.lock()).is_empty()
    }

    /// A part that another program has removed; it takes some milliseconds.
    pub(crate) fn lost(&self, instance: &Instance) -> Option<String> {
        let whole = self.lock().clone();
        if whole.is_empty() {
            return None;
        }
        let (lost, refused) = look(instance, &whole);
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        // A change meanwhile is the cause.
        lost.filter(|_| *self.lock() == whole)
    }

    /// The facts about a router's uplink for users.
    pub(crate) fn status(&self, router: &str) -> Option<serde_json::Value> {
        let whole = self.lock();
        let one = whole.uplinks.get(router)?;
        let own = one.addresses();
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = refused.get(&one.slice).copied().unwrap_or(0);
        let (first, last) = table::ports(whole.slices.get(&one.slice).copied()?);
        Some(json!({
            "device": one.device(),
            "addresses": [own.v4, own.v6],
            "gateways": [own.gateway4, own.gateway6],
            "ports": format!("{first}-{last}"),
            "over_limit": refused,
        }))
    }
}

/// The desired uplinks, by router.
fn wanted(
    instance: &Instance,
    documents: &Documents,
) -> Result<BTreeMap<String, Uplink>, NodeError> {
    let has = |router: &&Router| router.slow_path.as_ref().is_some_and(|one| one.has_uplink());
    let of = |router: &Router| -> Result<(String, Uplink), NodeError> {
        let name = router.full_name();
        let ids = Ids::of(&folder(&instance.directory(), &name));
        let number = ids.doing(format!("the users of {name}"))?.number();
        let slice = router.slice.to_string();
        let one = Uplink { router: name.clone(), slice, number, is_made: false };
        Ok((name, one))
    };
    documents.routers.iter().filter(has).map(of).collect()
}

/// A missing part of a record, and packets over the limits of slices.
fn look(instance: &Instance, record: &Record) -> (Option<String>, BTreeMap<String, u64>) {
    let table = table_name(instance);
    let uplinks: Vec<Uplink> = record.uplinks.values().cloned().collect();
    let found = match nft::list(&table) {
        Ok(text) => text.map(|text| Found::parse(&text)).unwrap_or_default(),
        Err(error) => {
            tracing::warn!("uplinks: {error}");
            return (None, BTreeMap::new());
        }
    };
    let lost = match found.is_whole(&uplinks, &record.slices) {
        true => uplinks
            .iter()
            .find(|one| is_lost(instance, one))
            .map(|one| format!("the device {} of router {}", one.device(), one.router)),
        false => Some(format!("rules of the table {table} of nftables")),
    };
    (lost, found.refused)
}

/// Whether the devices of an uplink are missing, although its slow path exists.
fn is_lost(instance: &Instance, one: &Uplink) -> bool {
    let inside = format!("europa.{}.{}", instance.name(), one.router.replace('/', "."));
    let (Ok(here), Ok(inside)) = (here(), Namespace::named(&inside)) else { return false };
    !uplink::is_there(&inside, &here, one.number).unwrap_or(true)
}

/// Removes devices and table of an instance. Its processes must have ended.
pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
    let old = Record::read(instance);
    if old.is_empty() {
        return Record::remove(instance);
    }
    let here = here()?;
    for one in old.uplinks.values() {
        uplink::remove(&here, one.number)
            .doing(format!("removing the uplink of {}", one.router))?;
    }
    nft::delete(&table_name(instance))?;
    Record::remove(instance)
}

/// The reason why the machine cannot have an uplink, and the remedy.
pub(crate) fn refused() -> Option<(String, String)> {
    if !nft::is_there() {
        return Some((
            "an uplink needs the program nft".into(),
            "install the package nftables".into(),
        ));
    }
    let device = uplink::unforwarded()?;
    Some((
        format!("this machine does not forward packets that come in by {device}"),
        format!(
            "run `sysctl -w {}=1`; net.ipv4.ip_forward is the same for all devices",
            forwarding(&device)
        ),
    ))
}

/// The name of the parameter that lets Linux forward the packets a device receives.
fn forwarding(device: &str) -> String {
    // sysctl(8) writes a dot of a name as a slash.
    format!("net.ipv4.conf.{}.forwarding", device.replace('.', "/"))
}
