//! Requests and answers of a node's REST interface. docs/api.md lists the paths.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bundle::{Bundle, Key, NamedFile};
use crate::fault::Fault;
use crate::filters::{Action as FilterAction, Rule};
use crate::problem::{Problem, Problems};
use crate::source::Source;
use crate::user::Role;

/// A list of objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Objects {
    /// The objects, in the order in which they were made.
    pub items: Vec<Object>,
}

/// A document of the node's desired state, and the state of its object.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// `port`, `slice`, `link`, `host`, `router`, `filters`, `flow`, `user`.
    pub kind: String,
    /// The object's name; for a router `SLICE/NAME`.
    pub name: String,
    /// Number of times that the document was changed, counted from 1.
    pub generation: u64,
    /// The time of the last change, as RFC 3339 writes it.
    pub changed: String,
    /// The document, in the form of a YAML file.
    pub document: Value,
    /// Its result.
    pub status: Status,
}

/// The state of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// `running`, `starting`, `waiting`, `attached`, `missing`, `active`.
    pub state: String,
    /// The reason, if the state is not the desired one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Further facts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, Value>,
}

/// A YAML text to be applied.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SourceText {
    /// The text's name in messages. Files that the text names are first looked up in `files`,
    /// relative to this name.
    pub path: String,
    /// The YAML.
    pub text: String,
}

/// The body of `POST /v1/apply`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApplyRequest {
    /// YAML texts.
    pub sources: Vec<SourceText>,
    /// Files that they name, by path.
    #[serde(default)]
    pub files: BTreeMap<String, NamedFile>,
    /// Only check, and list the changes.
    #[serde(default)]
    pub dry_run: bool,
    /// Remove the objects that the texts do not name.
    #[serde(default)]
    pub prune: bool,
    /// Draw errors with colours.
    #[serde(default)]
    pub colour: bool,
}

impl From<Bundle> for ApplyRequest {
    fn from(bundle: Bundle) -> ApplyRequest {
        let sources = bundle.sources.into_iter().map(|source| SourceText {
            path: source.path.display().to_string(),
            text: source.text,
        });
        ApplyRequest { sources: sources.collect(), files: bundle.files, ..ApplyRequest::default() }
    }
}

impl ApplyRequest {
    /// The documents to apply.
    pub fn bundle(&self) -> Bundle {
        let sources = self.sources.iter();
        let sources =
            sources.map(|s| Source { path: s.path.clone().into(), text: s.text.clone() }).collect();
        Bundle { sources, files: self.files.clone() }
    }
}

/// The present or planned changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Whether the answer is only a prediction: the node changed nothing.
    pub dry_run: bool,
    /// Number of the resulting desired state; each change makes a new one.
    pub revision: u64,
    /// The differences, object by object.
    pub changes: Vec<Change>,
    /// Number of objects without changes.
    pub unchanged: u64,
    /// The steps, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Reports on ports.
    pub warnings: Vec<String>,
}

/// The change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is new.
    Add,
    /// Its document changes.
    Change,
    /// It is removed.
    Remove,
}

/// The change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The kind of change.
    pub action: Action,
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// How the change is carried out: `in place`, `hot swap`, `restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The fields of a changed document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl Change {
    /// The object's key.
    pub fn key(&self) -> Key {
        Key::new(&self.kind, self.name.clone())
    }
}

/// A changed field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// The field's path: `fast_path.routes[10.0.0.0/8].via`.
    pub path: String,
    /// The field's old value; `None` for a new field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The field's new value; `None` for a removed field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// An event of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The number of the former event plus one.
    pub sequence: u64,
    /// When, as RFC 3339 has it.
    pub time: String,
    /// The event reports a fault.
    pub warning: bool,
    /// Kind of the object: also `switch` and `node`.
    pub kind: String,
    /// The object's name; empty for switch and node.
    pub name: String,
    /// The kind of event, in one word, such as `Started`, `Ended`, `Applied`, `LinkDown`.
    pub reason: String,
    /// Text for users.
    pub message: String,
    /// The actor: `root`, a user, or `slice NAME` for programs of its slow paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The origin of the request: `local` for the Unix socket, an address and port for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// A value that was read from a handler, or that is written to one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandlerValue {
    /// The value.
    pub value: String,
}

/// About the node itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// Its name on this host.
    pub instance: String,
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Number of turns of the node's loop that took more than 5 ms of CPU time; all requests wait
    /// during a turn.
    #[serde(default)]
    pub long_turns: u64,
    /// The longest turn, in microseconds of CPU time.
    #[serde(default)]
    pub longest_turn_us: u64,
    /// The time when the node was started, as RFC 3339 writes it.
    pub since: String,
    /// Number of the desired state.
    pub revision: u64,
    /// `true` if `down` deletes the desired state.
    pub temporary: bool,
    /// `false` while documents are being carried out.
    pub settled: bool,
    /// Address and TCP port of `/metrics` for Prometheus, if it is enabled.
    pub metrics_at: Option<String>,
    /// Workers of the switch.
    pub workers: u32,
    /// Address and TCP port where the node accepts requests by TLS, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listens_at: Option<String>,
    /// Address and TCP port where users log in to routers by SSH, if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_at: Option<String>,
}

/// The caller's identity, as the node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Whoami {
    /// `root`, or the name of a user.
    pub name: String,
    /// It has all rights.
    pub admin: bool,
    /// Its role on each slice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Role>,
    /// Its address.
    pub from: String,
}

/// The body of `POST /v1/users/USER/tokens`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Time of validity, in seconds.
    pub seconds: u64,
    /// A note for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenInfo {
    /// The token's identifier, which is needed to revoke it.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// The time when the token was made, as RFC 3339 writes it.
    pub created: String,
    /// The time when the token expires, as RFC 3339 writes it.
    pub expires: String,
    /// A note for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A token that was just made. Only this answer contains its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MadeToken {
    /// The token's description.
    #[serde(flatten)]
    pub info: TokenInfo,
    /// The token, in the form for `Authorization: Bearer`.
    pub token: String,
}

/// A user's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    /// The tokens without expired ones, the oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// The body of `PUT /v1/lease`: the lease of this node in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Until when ports of routers with `without_lease: stop` carry frames, in nanoseconds of
    /// `CLOCK_BOOTTIME`. 0: the lease has ended. An earlier time than the present one has no effect.
    pub deadline_ns: u64,
}

/// The body of `POST /v1/slices/SLICE/filters`: the node makes all changes in one step, or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterChanges {
    /// First remove all rules that have numbers.
    #[serde(default)]
    pub replace: bool,
    /// First remove the rules with these numbers.
    #[serde(default)]
    pub remove: Vec<u32>,
    /// Filters to add, after the removals.
    #[serde(default)]
    pub add: Vec<NewFilter>,
    /// Filters to add, in the format of ClassBench.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classbench: Option<ClassBench>,
    /// Draw errors with colours.
    #[serde(default)]
    pub colour: bool,
}

/// A rule to add.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFilter {
    /// The filter's number. Default: one more than the highest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The rule.
    pub rule: Rule,
}

/// Filters in the format of ClassBench, one a line; the first has the highest priority.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassBench {
    /// The file's name in messages.
    pub file: String,
    /// Its content.
    pub text: String,
    /// The action of each.
    pub action: FilterAction,
}

/// Rules that were added and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterChanged {
    /// Numbers of rules that were added, in the order of the request.
    pub added: Vec<u32>,
    /// Number of removed filters.
    pub removed: u64,
}

/// A slice's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterList {
    /// Filters of documents, then filters with numbers.
    pub filters: Vec<FilterStatus>,
    /// Entries that they take.
    pub entries: u64,
    /// Entries that they may take.
    pub limit: u64,
}

/// A rule, and the packets and bytes that it has matched since the switch has had it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterStatus {
    /// Its document, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The rule's number, if it is in no document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The rule.
    pub rule: Rule,
    /// Entries that it takes.
    pub entries: u64,
    /// Packets that it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The changes, in lines for users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    /// The lines.
    pub lines: Vec<String>,
}

/// The reason why a request failed (RFC 9457), as `application/problem+json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemDetails {
    /// The kind of problem: `urn:europa:problem:configuration` and others.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem as text.
    pub title: Box<str>,
    /// HTTP's status.
    pub status: u16,
    /// The mistake of this occurrence.
    pub detail: String,
    /// Each mistake in a configuration.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub errors: Box<[Mistake]>,
    /// Objects and fields with faults that only the machine can find.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub faults: Box<[Fault]>,
    /// All mistakes with file, line, underlined text and hint, for a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<Box<str>>,
    /// Whether the texts contain only names that the caller has sent or may see.
    #[serde(skip)]
    pub own_words: bool,
}

/// A mistake in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mistake {
    /// The mistake.
    pub message: String,
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The label at the underlined text.
    pub label: String,
    /// A remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// The kind of problem of a change that failed and was undone.
const TAKEN_BACK: &str = "urn:europa:problem:taken-back";
const AS_BEFORE: &str = "Everything is as it was before.";

fn mistakes(problems: &Problems) -> Box<[Mistake]> {
    let mistake = |problem: &Problem| {
        let (line, column) = problem.line_column();
        Mistake {
            message: problem.message.clone(),
            file: problem.file().to_owned(),
            line,
            column,
            label: problem.label.clone(),
            help: problem.help.clone(),
        }
    };
    problems.iter().map(mistake).collect()
}

impl ProblemDetails {
    /// A problem of one of the kinds in docs/api.md.
    pub fn new(kind: &str, title: &str, status: u16, detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails {
            kind: format!("urn:europa:problem:{kind}"),
            title: title.into(),
            status,
            detail: detail.into(),
            ..ProblemDetails::default()
        }
    }

    /// Mistakes in a configuration.
    pub fn of(problems: &Problems, colour: bool) -> ProblemDetails {
        ProblemDetails {
            errors: mistakes(problems),
            rendered: Some(problems.render(colour).into()),
            ..ProblemDetails::configuration(problems.to_string())
        }
    }

    /// The same problem, with the place of its faults in `texts`.
    #[must_use]
    pub fn located(mut self, texts: &Bundle, colour: bool) -> ProblemDetails {
        let (problems, elsewhere) = texts.locate(&self.faults);
        if problems.iter().len() == 0 || self.rendered.is_some() {
            return self;
        }
        self.errors = mistakes(&problems);
        let mut rendered = problems.render(colour);
        for fault in elsewhere {
            rendered += &format!("{fault}\n");
        }
        if self.kind == TAKEN_BACK {
            rendered += AS_BEFORE;
        }
        self.rendered = Some(rendered.into());
        self
    }

    /// An attempt that failed and was undone.
    pub fn taken_back(why: &str) -> ProblemDetails {
        let detail = format!("{}\n{AS_BEFORE}", why.trim_end());
        ProblemDetails { kind: TAKEN_BACK.into(), ..ProblemDetails::failed(detail) }
    }

    /// Adds the object at fault.
    #[must_use]
    pub fn faults(mut self, faults: impl Into<Box<[Fault]>>) -> ProblemDetails {
        self.faults = faults.into();
        self
    }

    /// A configuration that cannot be.
    pub fn configuration(detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails::new("configuration", "The configuration is not right", 422, detail)
    }

    /// An object that does not exist.
    pub fn not_found(detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails::new("not-found", "There is no such thing", 404, detail)
    }

    /// An operation that the present state does not permit.
    pub fn conflict(detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails::new("conflict", "This cannot be done now", 409, detail)
    }

    /// A request without a valid token.
    pub fn unauthenticated() -> ProblemDetails {
        let detail = "this needs a valid token: see `europa help login`";
        ProblemDetails::new("unauthenticated", "The node does not know you", 401, detail)
    }

    /// An operation that the caller is not allowed to do.
    pub fn forbidden(detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails::new("forbidden", "You may not do this", 403, detail)
    }

    /// Marks that the texts contain only names that the caller has sent or may see.
    #[must_use]
    pub fn in_own_words(self) -> ProblemDetails {
        ProblemDetails { own_words: true, ..self }
    }

    /// Replaces the text for users.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails { detail: detail.into(), ..self }
    }

    /// The same problem with another kind; the mistakes are kept.
    #[must_use]
    pub fn as_kind(self, other: ProblemDetails) -> ProblemDetails {
        let ProblemDetails { kind, title, status, .. } = other;
        ProblemDetails { kind, title, status, ..self }
    }

    /// An attempt that failed.
    pub fn failed(detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails::new("failed", "It was tried and failed", 500, detail)
    }

    /// A request that makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> ProblemDetails {
        ProblemDetails::new("bad-request", "The request makes no sense", 400, detail)
    }
}

impl std::fmt::Display for ProblemDetails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.rendered.as_deref().unwrap_or(&self.detail).trim_end())
    }
}

impl std::error::Error for ProblemDetails {}

/// JSON Schemas of the requests and answers, for the OpenAPI description.
pub fn schemas() -> serde_json::Map<String, Value> {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    macro_rules! add {
        ($($type:ty),* $(,)?) => { $( generator.subschema_for::<$type>(); )* };
    }
    add!(
        Objects,
        Object,
        ApplyRequest,
        Applied,
        Event,
        HandlerValue,
        FilterChanged,
        FilterChanges,
        FilterList,
        crate::lsp::LspList,
        NodeInfo,
        Lease,
        Said,
        Whoami,
        NewToken,
        MadeToken,
        TokenList,
        ProblemDetails,
        crate::stats::NodeStats,
        crate::Document,
    );
    generator.take_definitions(true)
}
