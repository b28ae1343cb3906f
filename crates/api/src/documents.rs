//! A whole configuration: the documents of one or several files.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::check;
use crate::decode::{Context, Decode, nearest};
use crate::filters::Filters;
use crate::host::Host;
use crate::link::Link;
use crate::port::Port;
use crate::problem::{Problem, Problems};
use crate::router::Router;
use crate::slice::Slice;
use crate::source::Source;
use crate::tree::{self, Node, Value};
use crate::values::Name;

/// One document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Document {
    /// A network device that Europa owns.
    Port(Port),
    /// A tenant.
    Slice(Slice),
    /// Joins two interfaces.
    Link(Box<Link>),
    /// An end system.
    Host(Box<Host>),
    /// A virtual router.
    Router(Box<Router>),
    /// Rules for what a slice's routers send.
    Filters(Filters),
}

/// All documents that were read together, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// Network devices.
    pub ports: Vec<Port>,
    /// Tenants.
    pub slices: Vec<Slice>,
    /// Links that were written; interfaces may name others.
    pub links: Vec<Link>,
    /// End systems.
    pub hosts: Vec<Host>,
    /// Virtual routers.
    pub routers: Vec<Router>,
    /// Rules for what slices' routers send.
    pub filters: Vec<Filters>,
}

impl Documents {
    /// Every document, ports first, then what needs them.
    pub fn iter(&self) -> impl Iterator<Item = Document> + '_ {
        let ports = self.ports.iter().cloned().map(Document::Port);
        let slices = self.slices.iter().cloned().map(Document::Slice);
        let links = self.links.iter().cloned().map(|link| Document::Link(Box::new(link)));
        let hosts = self.hosts.iter().cloned().map(|host| Document::Host(Box::new(host)));
        let routers = self.routers.iter().cloned().map(|router| Document::Router(Box::new(router)));
        let filters = self.filters.iter().cloned().map(Document::Filters);
        ports.chain(slices).chain(links).chain(hosts).chain(routers).chain(filters)
    }
}

/// What the checks must know of documents that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// What was read.
    pub(crate) documents: Documents,
    /// Kind and name of every document, readable or not: a name that stands in a
    /// broken document is not unknown.
    pub(crate) declared: HashSet<(String, String)>,
    /// Whether everything was read. If not, what seems to be missing may only be
    /// unreadable, and is not complained of.
    pub(crate) complete: bool,
    /// Kinds of which a document's name could not be read: what seems to be missing may be it.
    pub(crate) nameless: HashSet<&'static str>,
    /// For each router, whether all of it was read.
    pub(crate) whole: Vec<bool>,
}

pub(crate) const KINDS: [&str; 6] = ["port", "slice", "link", "host", "router", "filters"];

/// Reads and checks texts that belong together. On success no reference is dangling.
///
/// # Errors
/// Every mistake that was found.
pub fn parse(sources: &[Source]) -> Result<Documents, Problems> {
    let mut draft = Draft { complete: true, ..Draft::default() };
    let mut problems = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let mut context =
            Context { source: u32::try_from(index).unwrap_or(u32::MAX), problems: Vec::new() };
        draft.read(&source.text, &mut context);
        problems.append(&mut context.problems);
    }
    check::documents(&draft, &mut problems);
    if problems.is_empty() { Ok(draft.documents) } else { Err(Problems::new(problems, sources)) }
}

impl Draft {
    fn read(&mut self, text: &str, context: &mut Context) {
        for range in tree::documents(text) {
            match tree::parse(text, range) {
                Ok(Node { value: Value::Null, .. }) => {}
                Ok(node) => self.document(&node, context),
                Err(error) => {
                    let node = Node { value: Value::Null, span: error.span };
                    let problem = Problem::new(context.place(&node), error.message)
                        .label("this cannot be read as YAML")
                        .help(error.help);
                    context.report(problem);
                    self.is_vague(&KINDS);
                }
            }
        }
    }

    /// Notes that documents of these kinds may be there and are not known.
    fn is_vague(&mut self, kinds: &[&'static str]) {
        self.complete = false;
        self.nameless.extend(kinds);
    }

    fn document(&mut self, node: &Node, context: &mut Context) {
        let before = context.problems.len();
        let Value::Map(entries) = &node.value else {
            context.wrong_type(node, "a document with `kind` and `name`");
            self.is_vague(&KINDS);
            return;
        };
        let text_of = |field: &str| {
            let is = |key: &Node| matches!(&key.value, Value::Text(text) if text == field);
            let (_, value) = entries.iter().find(|(key, _)| is(key))?;
            match &value.value {
                Value::Text(text) => Some((text.as_str(), context.place(value))),
                _ => None,
            }
        };
        let Some((kind, place)) = text_of("kind") else {
            let is = |key: &Node| matches!(&key.value, Value::Text(text) if text == "kind");
            let problem = match entries.iter().find(|(key, _)| is(key)) {
                Some((key, Node { value: Value::Null, .. })) => {
                    Problem::new(context.place(key), "`kind` has no value")
                        .label("a value is missing")
                }
                Some((_, value)) => {
                    let found = value.value.describe();
                    let message = format!("expected a kind of document, found {found}");
                    Problem::new(context.place(value), message).label("no kind of document")
                }
                None => Problem::new(context.place(node), "a document needs a `kind`")
                    .label("`kind` is missing"),
            };
            context.report(problem.help(format!("`kind:` is one of {}", KINDS.join(", "))));
            self.is_vague(&KINDS);
            return;
        };
        match text_of("name").filter(|(name, _)| name.parse::<Name>().is_ok()) {
            Some((name, _)) => {
                self.declared.insert((kind.to_owned(), name.to_owned()));
            }
            None => self.nameless.extend(KINDS.iter().find(|known| **known == kind)),
        }
        match kind {
            "port" => self.documents.ports.extend(Port::decode(node, context)),
            "slice" => self.documents.slices.extend(Slice::decode(node, context)),
            "link" => self.documents.links.extend(Link::decode(node, context)),
            "host" => {
                let host = Host::decode(node, context);
                if context.problems.len() > before {
                    self.nameless.insert("port");
                }
                // A host's interfaces make ports, which nobody else declares.
                for (_, interface) in host.iter().flat_map(|host| &host.interfaces.0) {
                    if let Some(port) = &interface.port {
                        self.declared.insert(("port".to_owned(), port.to_string()));
                    }
                }
                self.documents.hosts.extend(host);
            }
            "router" => {
                if let Some(router) = Router::decode(node, context) {
                    self.documents.routers.push(router);
                    self.whole.push(context.problems.len() == before);
                }
            }
            "filters" => self.documents.filters.extend(Filters::decode(node, context)),
            other => {
                let problem = Problem::new(place, format!("{other:?} is no kind of document"))
                    .label(format!("expected one of {}", KINDS.join(", ")));
                context.report(match nearest(other, KINDS) {
                    Some(kind) => problem.help(format!("did you mean `{kind}`?")),
                    None => problem,
                });
                self.is_vague(&KINDS);
            }
        }
        self.complete &= context.problems.len() == before;
    }
}
