//! User parts of XDP programs.

use europa_api::Run;
use europa_pool::Geometry;
use europa_substrate::layout::CAGED;

use crate::interface::InterfacePlan;
use crate::router::{Place, RouterPlan};

/// The user part of a router's XDP program: a router of its own, whose interfaces send as those of its
/// router, and receive what the program redirects to a socket map.
pub(crate) fn user_part(
    document: &europa_api::Router,
    router: &RouterPlan,
    geometry: impl FnOnce(&europa_api::Router, &[InterfacePlan]) -> Geometry,
) -> Option<RouterPlan> {
    if document.run != Run::Kernel {
        return None;
    }
    let user = document.fast_path.xdp.as_ref()?.user.as_ref()?;
    let own = router.interfaces.iter().zip(&document.interfaces.0);
    let own = own.filter(|(_, (name, _))| !name.value.is_hidden()).map(|(planned, _)| planned);
    let interfaces: Vec<InterfacePlan> = own
        .map(|planned| {
            let mut planned = planned.clone();
            // Frames enter its pool by the program's verdict only. The link's ends are its router's.
            planned.spec.matches.clear();
            planned.spec.flags &= !CAGED;
            planned.link = None;
            planned
        })
        .collect();
    Some(RouterPlan {
        name: router.name.user_part(),
        place: Place::Program(user.program.iter().map(|word| word.value.clone()).collect()),
        cage: None,
        geometry: geometry(document, &interfaces),
        addresses: router.addresses.iter().take(interfaces.len()).copied().collect(),
        interfaces,
        busy: router.busy,
        cpus: router.cpus.clone(),
        configuration: String::new(),
        file: "user part".into(),
        description: None,
        grants: Vec::new(),
    })
}
