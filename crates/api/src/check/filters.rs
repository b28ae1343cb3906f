//! Filters: checks the interfaces that they name, and the numbers of rules that slices reserve.

use crate::decode::nearest;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::filters::{InterfaceOf, Rule};
use crate::problem::Problem;
use crate::router::Router;
use crate::source::Place;

/// Most entries of filters in all slices together.
pub const MOST_FILTERS: u32 = 262_144;

/// Reports interfaces that no router of the slice has, and routers without the slow path that a
/// rule names.
pub(super) fn interfaces(draft: &Draft, problems: &mut Vec<Problem>) {
    // A missing object may be in an unreadable document.
    if !draft.complete {
        return;
    }
    for filters in &draft.documents.filters {
        for rule in filters.rules.0.iter() {
            let slice = &**filters.slice;
            problems.extend(unknown(&draft.documents, slice, rule, rule.place));
        }
    }
}

/// Reports the missing objects that a slice's rules name.
fn unknown(documents: &Documents, slice: &str, rule: &Rule, place: Place) -> Option<Problem> {
    for named in rule.interfaces() {
        if let Err((what, help)) = documents.interface_of(slice, named) {
            let problem = Problem::new(place, what).label("in this rule");
            return Some(match help {
                Some(help) => problem.help(help),
                None => problem,
            });
        }
    }
    if let Some(Err((what, help))) = rule.action.queue.map(|queue| documents.queue_of(slice, queue))
    {
        return Some(Problem::new(place, what).label("in this rule").help(help));
    }
    let leaves = rule.interface.as_ref().filter(|_| rule.action.slow_path)?;
    let router = documents.router_of(slice, &leaves.router)?;
    router.slow_path.is_none().then(|| {
        Problem::new(place, format!("router {} has no slow path", router.full_name()))
            .label("its packets cannot go there")
            .help("give the router a `slow_path`, or the rule another action")
    })
}

impl Documents {
    fn router_of(&self, slice: &str, name: &str) -> Option<&Router> {
        self.routers.iter().find(|router| &**router.slice == slice && &**router.name == name)
    }

    /// Checks that a slice has a queue of this number; queue 0 is that of each interface.
    ///
    /// # Errors
    /// The missing object, and a remedy.
    pub fn queue_of(&self, slice: &str, number: u16) -> Result<(), (String, String)> {
        let own = self.routers.iter().filter(|router| &**router.slice == slice);
        let interfaces = own.flat_map(|router| &router.interfaces.0);
        let queues = interfaces.flat_map(|(_, interface)| &interface.queues.0);
        let mut known: Vec<u16> = queues.map(|(known, _)| known.value.0).collect();
        if number == 0 || known.contains(&number) {
            return Ok(());
        }
        known.sort_unstable();
        let known: Vec<String> = known.iter().map(u16::to_string).collect();
        let help = match known.as_slice() {
            [] => "its interfaces have no `queues`".to_owned(),
            known => format!("it has: {}", known.join(", ")),
        };
        Err((format!("slice {slice:?} has no queue {number}"), help))
    }

    /// The router of an interface that a slice's rule names, and the index of the interface.
    ///
    /// # Errors
    /// The missing object, and a remedy.
    pub fn interface_of(
        &self,
        slice: &str,
        named: &InterfaceOf,
    ) -> Result<(&Router, usize), (String, Option<String>)> {
        let Some(router) = self.router_of(slice, &named.router) else {
            let own = self.routers.iter().filter(|router| &**router.slice == slice);
            let near = nearest(&named.router, own.map(|router| -> &str { &router.name }));
            return Err((
                format!("slice {slice:?} has no router {:?}", &*named.router),
                near.map(|near| format!("did you mean {near:?}?")),
            ));
        };
        let Some((index, _)) = router.interface(&named.interface) else {
            let names = router.interfaces.0.iter().map(|(name, _)| &***name);
            let all: Vec<&str> = names.clone().collect();
            let help = match nearest(&named.interface, names) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("it has: {}", all.join(", ")),
            };
            let name = router.full_name();
            let what = format!("router {name} has no interface {:?}", &*named.interface);
            return Err((what, Some(help)));
        };
        Ok((router, index))
    }
}

/// Refuses reservations whose sum exceeds the available resources.
pub(super) fn reservations(documents: &Documents, problems: &mut Vec<Problem>) {
    let mut left = MOST_FILTERS;
    for slice in &documents.slices {
        let Some(filters) = slice.reservation.as_ref().and_then(|own| own.filters) else {
            continue;
        };
        match left.checked_sub(filters.value) {
            Some(rest) => left = rest,
            None => {
                let message = format!("{} filters cannot be reserved", filters.value);
                let label = format!("{left} of {MOST_FILTERS} are left");
                let problem = Problem::new(filters.place, message).label(label);
                problems.push(problem.help("reserve fewer, here or in another slice"));
            }
        }
    }
}
