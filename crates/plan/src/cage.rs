//! XDP programs of routers with `run: kernel`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use europa_api::{Choice, Documents, Programs, Router, Run};
use europa_cage::kernel::{Rights, Settings};
use europa_substrate::layout::CAGE_DEVICES;

use crate::interface::InterfacePlan;

/// The program of a router, and how it is loaded.
#[derive(Clone, PartialEq, Eq)]
pub struct CagePlan {
    /// Origin of the object, for messages.
    pub file: String,
    /// The field of the document that names the object.
    pub field: &'static str,
    /// The object.
    pub object: Arc<Vec<u8>>,
    /// Its part of the document.
    pub settings: Settings,
    /// The program's rights.
    pub rights: Rights,
    /// Number of the router's interfaces on which the program runs: the first ones.
    pub interfaces: usize,
}

impl std::fmt::Debug for CagePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CagePlan")
            .field("file", &self.file)
            .field("bytes", &self.object.len())
            .field("settings", &self.settings)
            .field("rights", &self.rights)
            .finish_non_exhaustive()
    }
}

/// The program of a router, if it has one.
pub(crate) fn cage(router: &Router, documents: &Documents) -> Result<Option<CagePlan>, String> {
    let Some(Choice::Xdp(xdp, object)) = router.fast_path.value.choice() else { return Ok(None) };
    if router.run != Run::Kernel {
        return Ok(None);
    }
    let slice = documents.slices.iter().find(|slice| slice.name == router.slice);
    let rights = match slice.map(|slice| slice.programs).unwrap_or_default() {
        Programs::None => return Err("its slice says `programs: none`".into()),
        Programs::Tenant => Rights::Tenant,
        Programs::Operator => Rights::Operator,
    };
    let bytes = BASE64.decode(object.text.trim());
    let bytes = bytes.map_err(|error| format!("{}: its base64 is broken: {error}", object.file))?;
    let mut settings = Settings {
        program: xdp.program.as_ref().map(|name| name.value.clone()),
        ..Settings::default()
    };
    for (name, value) in &xdp.constants.0 {
        settings.constants.push((name.value.clone(), value.value.clone()));
    }
    for (map, entries) in &xdp.maps.0 {
        let all = entries.0.iter();
        let all =
            all.map(|(key, value)| (map.value.clone(), key.value.clone(), value.value.clone()));
        settings.entries.extend(all);
    }
    for (map, entries) in &xdp.tail_calls.0 {
        for (index, program) in &entries.0 {
            let number = index.value.parse().map_err(|_| {
                format!(
                    "tail_calls: an index of '{}' is a number, not '{}'",
                    map.value, index.value
                )
            })?;
            settings.tail_calls.push((map.value.clone(), number, program.value.clone()));
        }
    }
    let own = router.interfaces.0.iter().filter(|(name, _)| !name.value.is_hidden()).count();
    if own >= CAGE_DEVICES as usize {
        return Err(format!("a kernel router has at most {} interfaces", CAGE_DEVICES - 1));
    }
    Ok(Some(CagePlan {
        file: object.file.clone(),
        field: xdp.file().map_or("object", |(field, _)| field),
        object: Arc::new(bytes),
        settings,
        rights,
        interfaces: own,
    }))
}

/// Whether an interface is possible for a kernel router; otherwise the field and the reason.
/// `is_relayed`: its link has an effect on packets of the host at its other end.
pub(crate) fn check_interface(
    plan: &InterfacePlan,
    is_relayed: bool,
) -> Result<(), (&'static str, String)> {
    let isolated = "which a router with `run: isolated` may have";
    if is_relayed {
        let why = "this link does something to what its host sends, which would go by the program";
        return Err(("link", format!("{why}; a router with `run: isolated` may have it")));
    }
    if plan.tunnel.is_some() {
        return Err(("match", format!("it is in a VXLAN, {isolated}")));
    }
    Ok(())
}
