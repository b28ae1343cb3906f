//! Documents that are read but not yet checked.

use std::collections::HashSet;

use crate::cluster_node::ClusterNode;
use crate::decode::{Context, Decode, nearest};
use crate::documents::Documents;
use crate::filters::Filters;
use crate::flow::Flow;
use crate::host::Host;
use crate::link::Link;
use crate::port::Port;
use crate::problem::Problem;
use crate::router::Router;
use crate::slice::Slice;
use crate::source::Source;
use crate::tree::{self, Node, Value};
use crate::user::User;
use crate::values::Name;

/// The documents and facts that the checks need, including facts about unreadable documents.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The readable part.
    pub(crate) documents: Documents,
    /// Kind and name of every document, readable or not, so that the name of an invalid document is
    /// not reported as unknown.
    pub(crate) declared: HashSet<(String, String)>,
    /// Whether all documents are readable. If not, a missing object may be in an unreadable
    /// document, and is not reported.
    pub(crate) complete: bool,
    /// Kinds of documents with unreadable names: a missing object may be one of these.
    pub(crate) nameless: HashSet<&'static str>,
    /// For each router, whether all of it was read.
    pub(crate) whole: Vec<bool>,
    /// For each host, whether all of it was read.
    pub(crate) whole_hosts: Vec<bool>,
}

const KINDS: [&str; 9] =
    ["port", "slice", "link", "host", "router", "filters", "flow", "user", "node"];

impl Draft {
    /// The readable documents of these texts, and the mistakes.
    pub(crate) fn of(sources: &[Source]) -> (Draft, Vec<Problem>) {
        let mut draft = Draft { complete: true, ..Draft::default() };
        let mut problems = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let mut context =
                Context { source: u32::try_from(index).unwrap_or(u32::MAX), problems: Vec::new() };
            draft.read(&source.text, &mut context);
            problems.append(&mut context.problems);
        }
        (draft, problems)
    }

    fn read(&mut self, text: &str, context: &mut Context) {
        for range in tree::documents(text) {
            match tree::parse(text, range) {
                Ok(Node { value: Value::Null, .. }) => {}
                Ok(node) => self.document(&node, context),
                Err(error) => {
                    let node = Node::new(Value::Null, error.span);
                    let problem = Problem::new(context.place(&node), error.message)
                        .label("this cannot be read as YAML")
                        .help(error.help);
                    context.report(problem);
                    self.is_vague(&KINDS);
                }
            }
        }
    }

    /// Records that unreadable documents of these kinds may exist.
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
                let whole = context.problems.len() == before;
                if !whole {
                    self.nameless.insert("port");
                }
                self.whole_hosts.extend(host.iter().map(|_| whole));
                // A host's interfaces make ports, which have no documents.
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
            "flow" => self.documents.flows.extend(Flow::decode(node, context)),
            "user" => self.documents.users.extend(User::decode(node, context)),
            "node" => self.documents.nodes.extend(ClusterNode::decode(node, context)),
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
