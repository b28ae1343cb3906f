//! Views and rights of users that are not admins: only their slices.
//!
//! Handlers get all data and filter it here. Every refusal passes [`hide`] in the end, which
//! replaces a text that names objects of others as a whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use axum::body::to_bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use europa_api::rest::{Applied, Event, NodeInfo, Object, ProblemDetails};
use europa_api::stats::NodeStats;
use europa_api::{
    Bundle, Documents, Kept, Key, Problem as Mistake, Problems, Rights, Role, Router,
};
use serde_json::Value;

use crate::problem::{OwnWords, Problem};
use crate::state::Api;
use crate::who::Who;

/// Roles on slices.
pub(crate) type Roles = BTreeMap<String, Role>;

/// Longest problem that is looked through.
const MOST_PROBLEM_BYTES: usize = 1 << 20;

/// The part of the node that a user may see.
pub(crate) struct View {
    documents: Arc<Documents>,
    roles: Arc<Roles>,
    name: String,
}

impl View {
    /// The caller's view; `None` for admins, which see everything.
    pub(crate) async fn of(api: &Api, who: &Who) -> Result<Option<View>, ProblemDetails> {
        let Some(roles) = who.roles() else { return Ok(None) };
        let documents = api.requests.accepted().await?.documents;
        Ok(Some(View { documents, roles, name: who.name().to_owned() }))
    }

    fn rights(&self) -> Rights<'_> {
        Rights::new(&self.documents, &self.roles)
    }

    fn sees_router(&self, name: &str) -> bool {
        name.split_once('/').is_some_and(|(slice, _)| self.roles.contains_key(slice))
    }

    /// The visible objects.
    pub(crate) fn objects(&self, objects: Vec<Object>) -> Vec<Object> {
        let rights = self.rights();
        let sees = |object: &Object| match object.kind.as_str() {
            "user" => object.name == self.name,
            kind => rights.sees(&Key::new(kind, object.name.as_str())),
        };
        let hidden = rights.hidden();
        objects.into_iter().filter(sees).map(|object| self.object(object, &hidden)).collect()
    }

    /// An object without messages that name hidden objects.
    fn object(&self, mut object: Object, hidden: &BTreeSet<String>) -> Object {
        if object.status.message.as_ref().is_some_and(|text| names_any(text, hidden)) {
            object.status.message = None;
        }
        let interfaces = object.status.details.get_mut("interfaces").and_then(Value::as_object_mut);
        for told in interfaces.into_iter().flat_map(|all| all.values_mut()) {
            let other = told.get("link_to").and_then(Value::as_str);
            if other.is_some_and(|router| !self.sees_router(router)) {
                told["link_to"] = Value::Null;
            }
        }
        object
    }

    /// The visible counters: of routers, links and queues of the user's slices.
    pub(crate) fn stats(&self, mut stats: NodeStats) -> NodeStats {
        stats.routers.retain(|router| self.sees_router(&router.name));
        stats.links.retain(|link| self.sees_router(&link.from));
        let sees = |end: &str| end.rsplit_once('.').is_some_and(|(of, _)| self.sees_router(of));
        stats.tunnels.retain(|tunnel| sees(&tunnel.end));
        let own = |slice: &Option<String>| {
            slice.as_ref().is_some_and(|slice| self.roles.contains_key(slice))
        };
        stats.queues.retain(|queue| own(&queue.slice));
        NodeStats {
            at_ns: stats.at_ns,
            routers: stats.routers,
            links: stats.links,
            tunnels: stats.tunnels,
            queues: stats.queues,
            ..NodeStats::default()
        }
    }

    /// The visible events: of the user's slices, and results of the user's own requests.
    pub(crate) fn events(&self, events: Vec<Event>) -> Vec<Event> {
        let (rights, hidden) = (self.rights(), self.rights().hidden());
        let sees = |event: &Event| match event.kind.as_str() {
            _ if event.who.as_ref() == Some(&self.name) => true,
            "router" => self.sees_router(&event.name),
            "user" => event.name == self.name,
            kind => rights.sees(&Key::new(kind, event.name.as_str())),
        };
        let shown = |mut event: Event| {
            if names_any(&event.message, &hidden) {
                event.message = "…".to_owned();
            }
            if event.who.as_ref() != Some(&self.name) {
                event.from = None;
            }
            event
        };
        events.into_iter().filter(sees).map(shown).collect()
    }

    /// The visible part of a change's result.
    pub(crate) fn applied(&self, mut applied: Applied) -> Applied {
        let rights = self.rights();
        let hidden = rights.hidden();
        let there = self.documents.iter().filter(|one| rights.sees(&one.key())).count() as u64;
        let changed = applied.changes.iter().filter(|one| rights.sees(&one.key())).count() as u64;
        applied.unchanged = there.saturating_sub(changed);
        applied.revision = 0;
        applied.steps.retain(|step| !names_any(step, &hidden));
        applied.warnings.retain(|warning| !names_any(warning, &hidden));
        applied
    }
}

/// The facts about the node that every user may know.
pub(crate) fn node(info: NodeInfo) -> NodeInfo {
    NodeInfo {
        instance: info.instance,
        version: info.version,
        since: info.since,
        settled: true,
        listens_at: info.listens_at,
        ssh_at: info.ssh_at,
        ..NodeInfo::default()
    }
}

/// Whether a text has one of these names as a word.
fn names_any(text: &str, names: &BTreeSet<String>) -> bool {
    words(text).any(|word| names.contains(word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(move |c| !is_part(c))
}

/// A problem without names of others' objects. Names that the caller has sent (`said`) stay: a
/// replacement would show that such objects exist.
pub(crate) async fn hide(api: &Api, roles: &Roles, said: &str, response: Response) -> Response {
    let is_problem = response.headers().get(header::CONTENT_TYPE);
    let is_problem = is_problem.is_some_and(|kind| kind == "application/problem+json");
    if !is_problem || response.extensions().get::<OwnWords>().is_some() {
        return response;
    }
    let (status, body) = (response.status(), response.into_body());
    let bytes = to_bytes(body, MOST_PROBLEM_BYTES).await.unwrap_or_default();
    let accepted = api.requests.accepted().await;
    let hidden = accepted.ok().map(|accepted| {
        let mut hidden = Rights::new(&accepted.documents, roles).hidden();
        for word in words(said) {
            hidden.remove(word);
        }
        hidden
    });
    let mut problem: ProblemDetails = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
        ProblemDetails::new("failed", "It was tried and failed", status.as_u16(), "")
    });
    let text = String::from_utf8_lossy(&bytes);
    // Without a list of hidden names, as the node ends, any text may contain one.
    if hidden.is_none_or(|hidden| names_any(&text, &hidden)) {
        let detail = match problem.status {
            404 => "there is no such thing",
            _ => "this cannot be done beside what others have on this node",
        };
        problem = ProblemDetails {
            detail: detail.to_owned(),
            errors: Box::default(),
            faults: Box::default(),
            rendered: None,
            ..problem
        };
    }
    Problem(problem).into_response()
}

/// The documents and roles behind a user's request.
pub(crate) struct Owned<'a> {
    pub(crate) documents: &'a Documents,
    pub(crate) roles: &'a Roles,
    pub(crate) kept: &'a [Kept],
    pub(crate) colour: bool,
}

impl Owned<'_> {
    /// Stored documents that a user may prune.
    pub(crate) fn prunable(&self) -> HashSet<Key> {
        let rights = Rights::new(self.documents, self.roles);
        self.kept.iter().map(|kept| &kept.key).filter(|key| rights.owns(key)).cloned().collect()
    }

    /// Checks a user's texts, first with the documents that the user sees, then with all documents.
    pub(crate) fn check(
        &self,
        bundle: &Bundle,
        stay: &[Kept],
        machine: impl Fn(&Router, &mut Vec<Mistake>) + Copy,
    ) -> Result<Documents, ProblemDetails> {
        let rights = Rights::new(self.documents, self.roles);
        let visible = rights.visible(stay);
        let written = bundle.written(&visible).map_err(|problems| self.own(bundle, problems))?;
        let texts = bundle.keys();
        let alone = bundle.merge(&visible).map_err(|problems| {
            // A forbidden field is more important than a missing file.
            self.refused(bundle, rights.refused(&written, &texts))
                .unwrap_or_else(|| self.own(bundle, problems))
        })?;
        let before: BTreeMap<&Key, &Kept> = self.kept.iter().map(|one| (&one.key, one)).collect();
        // An equal text of an invisible object counts as a change, so that equality is not
        // revealed.
        let is_changed =
            |kept: &Kept| !rights.sees(&kept.key) || before.get(&kept.key) != Some(&kept);
        let own = alone.iter().filter(|one| texts.contains(&one.key()));
        let own = own.filter_map(|document| Kept::of(&document).ok()).filter(is_changed);
        let changed: HashSet<Key> = own.map(|kept| kept.key).collect();
        if let Some(problem) = self.refused(bundle, rights.refused(&written, &changed)) {
            return Err(problem);
        }
        bundle.merge_checked(&visible, machine).map_err(|problems| self.own(bundle, problems))?;
        let after = bundle
            .merge_checked(stay, machine)
            .map_err(|problems| self.conflict(bundle, problems))?;
        let taken = rights.taken(&after, &changed);
        if !taken.is_empty() {
            return Err(self.in_use(Problems::new(taken, &bundle.sources)));
        }
        Ok(after)
    }

    fn refused(&self, bundle: &Bundle, refused: Vec<Mistake>) -> Option<ProblemDetails> {
        let first = refused.first()?.to_string();
        let problems = Problems::new(refused, &bundle.sources);
        Some(self.told(&problems).as_kind(ProblemDetails::forbidden("")).detail(first))
    }

    fn told(&self, problems: &Problems) -> ProblemDetails {
        ProblemDetails::of(problems, self.colour).in_own_words()
    }

    fn in_use(&self, problems: Problems) -> ProblemDetails {
        let detail = "something of this name is in use";
        self.told(&problems).as_kind(ProblemDetails::conflict("")).detail(detail)
    }

    /// Mistakes in the user's own texts, unchanged.
    fn own(&self, bundle: &Bundle, problems: Problems) -> ProblemDetails {
        let elsewhere = |problem: &Mistake| problem.place.source as usize >= bundle.sources.len();
        match problems.iter().any(elsewhere) {
            true => self.conflict(bundle, problems),
            false => self.told(&problems),
        }
    }

    /// The places of mistakes that only documents of others cause, without details of these.
    fn conflict(&self, bundle: &Bundle, problems: Problems) -> ProblemDetails {
        let own = problems.iter().filter(|one| (one.place.source as usize) < bundle.sources.len());
        let own = own.map(|one| {
            Mistake::new(one.place, "this cannot be beside what others have on this node")
                .label("in use, or not to be had")
        });
        let problems = Problems::new(own.collect(), &bundle.sources);
        let detail = "this cannot be beside what others have on this node";
        let told = match problems.iter().next() {
            Some(_) => self.told(&problems),
            None => ProblemDetails::conflict(detail).in_own_words(),
        };
        told.as_kind(ProblemDetails::conflict("")).detail(detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_words() {
        let names = BTreeSet::from(["blue".to_owned(), "r-1".to_owned()]);
        for (text, wanted) in [
            ("router blue/x is there", true),
            ("`blue`", true),
            ("blues and r-1x", false),
            ("at red/r-1.in:", true),
            ("", false),
        ] {
            assert_eq!(names_any(text, &names), wanted, "{text}");
        }
    }
}
