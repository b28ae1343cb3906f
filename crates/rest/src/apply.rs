//! `/v1/apply`, and `PUT` and `DELETE` of single objects: desired state changes.

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::routing::{post, put};
use axum::{Extension, Json, Router};
use europa_api::rest::{Applied, ApplyRequest, ProblemDetails, SourceText};
use europa_api::{Bundle, Documents, Kept, Key, Rights, Verdict};
use europa_compile::compile_text;
use europa_control::{Accepted, Refusal, Submission};
use europa_node::check_machine;
use europa_node::store::Stored;
use serde::Deserialize;

use crate::objects::{kind, missing, objects};
use crate::owners::{Owned, Roles, View};
use crate::problem::{Answer, Problem};
use crate::state::Api;
use crate::who::Who;
use crate::{elsewhere, noted};

/// Most checks of a change that other changes overtake.
const TRIES: usize = 16;

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/apply", post(apply))
        .route("/v1/{kinds}/{name}", put(put_one).delete(delete_one))
        .route("/v1/{kinds}/{slice}/{name}", put(put_router).delete(delete_router))
}

/// Options in the query, for requests whose body is plain YAML.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    prune: bool,
}

/// Options of a change to one object.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionsOfOne {
    #[serde(default)]
    dry_run: bool,
}

/// The change of desired state.
enum Wish {
    Apply(ApplyRequest),
    Delete { key: Key, dry_run: bool },
}

/// Applies these texts; objects that are not named stay, unless they are pruned. Answers when
/// routers run. A failed check changes nothing.
#[utoipa::path(post, path = "/v1/apply", tag = "objects",
    params(("dry_run" = Option<bool>, Query, description = "Only return the changes, and change nothing"),
        ("prune" = Option<bool>, Query, description = "Remove objects that the texts do not name")),
    request_body(description = "An ApplyRequest, or YAML as application/yaml",
        content = ref("#/components/schemas/ApplyRequest")),
    responses(
        (status = 200, description = "The changes", body = ref("#/components/schemas/Applied")),
        (status = 422, description = "Mistakes; nothing was changed",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json"),
        (status = 500, description = "The change failed and was undone",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn apply(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Query(options): Query<Options>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<Applied> {
    let mut request = if is_yaml(&headers) {
        let text = utf8(&body)?;
        let sources = vec![SourceText { path: "the request".into(), text }];
        ApplyRequest { sources, ..ApplyRequest::default() }
    } else {
        serde_json::from_slice(&body).map_err(|error| {
            ProblemDetails::bad_request(format!("the body is no ApplyRequest: {error}"))
        })?
    };
    request.dry_run |= options.dry_run;
    request.prune |= options.prune;
    carry_out(&api, &who, Wish::Apply(request)).await
}

/// Applies the document of one object that is not a router.
#[utoipa::path(put, path = "/v1/{kinds}/{name}", tag = "objects",
    params(("kinds" = String, Path, description = "ports, slices, links, hosts, filters or users"),
        ("name" = String, Path, description = "Its name"),
        ("dry_run" = Option<bool>, Query, description = "Only return the changes, and change nothing")),
    request_body(description = "The document, as JSON or YAML",
        content = ref("#/components/schemas/Document")),
    responses(
        (status = 200, description = "The changes", body = ref("#/components/schemas/Applied")),
        (status = 422, description = "Mistakes; nothing was changed",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn put_one(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((kinds, name)): Path<(String, String)>,
    Query(options): Query<OptionsOfOne>,
    body: Bytes,
) -> Answer<Applied> {
    put_document(&api, &who, Key::new(kind(&kinds)?, name), options, &body).await
}

/// Makes one router be as given.
#[utoipa::path(put, path = "/v1/routers/{slice}/{name}", tag = "objects",
    params(("slice" = String, Path, description = "The slice that owns it"),
        ("name" = String, Path, description = "Its name"),
        ("dry_run" = Option<bool>, Query, description = "Only return the changes, and change nothing")),
    request_body(description = "The document, as JSON or YAML",
        content = ref("#/components/schemas/Document")),
    responses(
        (status = 200, description = "The changes", body = ref("#/components/schemas/Applied")),
        (status = 422, description = "Mistakes; nothing was changed",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn put_router(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((kinds, slice, name)): Path<(String, String, String)>,
    Query(options): Query<OptionsOfOne>,
    body: Bytes,
) -> Answer<Applied> {
    let key = Key::new(kind(&kinds)?, format!("{slice}/{name}"));
    put_document(&api, &who, key, options, &body).await
}

/// Removes one object that is not a router.
#[utoipa::path(delete, path = "/v1/{kinds}/{name}", tag = "objects",
    params(("kinds" = String, Path, description = "ports, slices, links, hosts, filters or users"),
        ("name" = String, Path, description = "Its name"),
        ("dry_run" = Option<bool>, Query, description = "Only return the changes, and change nothing")),
    responses(
        (status = 200, description = "The changes", body = ref("#/components/schemas/Applied")),
        (status = 422, description = "Other objects need it; nothing was changed",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn delete_one(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((kinds, name)): Path<(String, String)>,
    Query(OptionsOfOne { dry_run }): Query<OptionsOfOne>,
) -> Answer<Applied> {
    let key = Key::new(kind(&kinds)?, name);
    carry_out(&api, &who, Wish::Delete { key, dry_run }).await
}

/// Removes one router.
#[utoipa::path(delete, path = "/v1/routers/{slice}/{name}", tag = "objects",
    params(("slice" = String, Path, description = "The slice that owns it"),
        ("name" = String, Path, description = "Its name"),
        ("dry_run" = Option<bool>, Query, description = "Only return the changes, and change nothing")),
    responses(
        (status = 200, description = "The changes", body = ref("#/components/schemas/Applied")),
        (status = 422, description = "Other objects need it; nothing was changed",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn delete_router(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((kinds, slice, name)): Path<(String, String, String)>,
    Query(OptionsOfOne { dry_run }): Query<OptionsOfOne>,
) -> Answer<Applied> {
    let key = Key::new(kind(&kinds)?, format!("{slice}/{name}"));
    carry_out(&api, &who, Wish::Delete { key, dry_run }).await
}

async fn put_document(
    api: &Api,
    who: &Who,
    key: Key,
    options: OptionsOfOne,
    body: &Bytes,
) -> Answer<Applied> {
    let sources = vec![SourceText { path: "the request".into(), text: utf8(body)? }];
    let request = ApplyRequest { sources, dry_run: options.dry_run, ..ApplyRequest::default() };
    let found = request.bundle().keys();
    if found.is_empty() {
        // A text that cannot be read has no name.
        request
            .bundle()
            .documents()
            .map_err(|problems| ProblemDetails::of(&problems, false).in_own_words())?;
    }
    if found.len() != 1 || !found.contains(&key) {
        let mut names: Vec<String> = found.iter().map(ToString::to_string).collect();
        names.sort();
        return Err(ProblemDetails::bad_request(format!(
            "the path names {key}, the body {}",
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        ))
        .in_own_words()
        .into());
    }
    carry_out(api, who, Wish::Apply(request)).await
}

fn is_yaml(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.contains("yaml"))
}

fn utf8(body: &Bytes) -> Result<String, Problem> {
    String::from_utf8(body.to_vec())
        .map_err(|_| ProblemDetails::bad_request("the body is no UTF-8").into())
}

/// Checks a change against the present desired state, and passes it to the loop; repeats this if
/// the state has changed meanwhile.
async fn carry_out(api: &Api, who: &Who, wish: Wish) -> Answer<Applied> {
    let wish = std::sync::Arc::new(wish);
    // One after the other: only other interfaces can change the state between check and change.
    let _turn = api.turn.lock().await;
    for _ in 0..TRIES {
        let Accepted { revision: base, stored, documents } = api.requests.accepted().await?;
        if let Wish::Delete { key, .. } = &*wish {
            may_delete(api, who, key, &stored, &documents).await?;
        }
        let checking = {
            let wish = wish.clone();
            let owner = who.roles().map(|roles| (documents, roles));
            let own = elsewhere::own_names(&api.instance);
            move || {
                let owner = owner.as_ref().map(|(all, roles)| (&**all, &**roles));
                check(&wish, base, &stored, owner, &own)
            }
        };
        // Reading a large configuration takes long, so another thread does it.
        let submission = tokio::task::spawn_blocking(checking)
            .await
            .map_err(|error| ProblemDetails::failed(error.to_string()))??;
        // Changes by other programs: this one repairs them.
        api.requests.look_at_hosts(&api.instance).await?;
        let outcome = api.requests.submit(submission).await?;
        match outcome {
            Ok(applied) => {
                noted::applied(api, who, &applied);
                let view = View::of(api, who).await?;
                return Ok(Json(match view {
                    Some(view) => view.applied(applied),
                    None => applied,
                }));
            }
            Err(Refusal::Stale) => {}
            Err(Refusal::Problem(problem)) => {
                return Err(match &*wish {
                    Wish::Apply(request) => problem.located(&request.bundle(), request.colour),
                    Wish::Delete { .. } => *problem,
                }
                .into());
            }
        }
    }
    Err(ProblemDetails::conflict("desired state changes all the time; try again").into())
}

/// Checks that the object exists and that the caller may remove it.
async fn may_delete(
    api: &Api,
    who: &Who,
    key: &Key,
    stored: &[Stored],
    documents: &Documents,
) -> Result<(), Problem> {
    let verdict = match who.roles() {
        Some(roles) => Rights::new(documents, &roles).may_delete(key),
        None => Verdict::Allowed,
    };
    let there = stored.iter().any(|stored| stored.key == *key);
    match verdict {
        Verdict::Allowed if there => Ok(()),
        Verdict::Forbidden(why) => Err(ProblemDetails::forbidden(why).into()),
        Verdict::Allowed | Verdict::Unknown => {
            let kind: &'static str =
                crate::objects::KINDS.iter().find(|k| k.1 == key.kind).map_or("", |k| k.1);
            Err(missing(kind, &key.name, &objects(api, who, kind).await?).into())
        }
    }
}

/// Checks a wish. `owner`: documents and roles of a caller that is no admin. `own`: names of this
/// node.
fn check(
    wish: &Wish,
    base: u64,
    stored: &[Stored],
    owner: Option<(&Documents, &Roles)>,
    own: &[String],
) -> Result<Submission, Problem> {
    let mut kept: Vec<Kept> = stored.iter().map(Stored::kept).collect();
    let all = kept.clone();
    let (bundle, prune, dry_run, colour) = match wish {
        Wish::Apply(request) => {
            let mut bundle = request.bundle();
            // The command line has compiled sources with their own headers. Other clients send
            // texts.
            bundle.compile(|path, text| match compile_text(path, text) {
                Ok(compiled) => Ok(compiled.object),
                Err(error) => Err(error.to_string()),
            });
            (bundle, request.prune, request.dry_run, request.colour)
        }
        Wish::Delete { key, dry_run } => {
            // Without them, generated text of other documents would be wrong: report which objects
            // need it.
            let all = Bundle::default().merge(&kept).ok();
            if let Some(why) = all.and_then(|all| all.needed(key)) {
                return Err(ProblemDetails::configuration(why).into());
            }
            kept.retain(|kept| kept.key != *key);
            (Bundle::default(), false, *dry_run, false)
        }
    };
    let mut documents = match owner {
        Some((documents, roles)) => {
            let owned = Owned { documents, roles, kept: &all, colour };
            if prune {
                let gone = owned.prunable();
                kept.retain(|kept| !gone.contains(&kept.key));
            }
            owned.check(&bundle, &kept, check_machine)?
        }
        None if prune => bundle
            .replace(&kept, check_machine)
            .map_err(|problems| ProblemDetails::of(&problems, colour))?,
        None => bundle
            .merge_checked(&kept, check_machine)
            .map_err(|problems| ProblemDetails::of(&problems, colour))?,
    };
    if let Some(problems) = elsewhere::refused(&documents, own, &bundle.sources) {
        return Err(ProblemDetails::of(&problems, colour).into());
    }
    let kept = documents.iter().map(|document| Kept::of(&document)).collect::<Result<_, _>>();
    let kept = kept.map_err(|error| ProblemDetails::failed(error.to_string()))?;
    documents.complete();
    Ok(Submission { base, documents, kept, dry_run, at: europa_node::now() })
}
