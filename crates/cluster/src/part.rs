//! The part of a cluster that one node runs, as documents for that node. Pure.

use std::collections::{BTreeMap, BTreeSet};

use europa_api::rest::{ApplyRequest, SourceText};
use europa_api::{Document, Kept, Key, Link, NamedFile, Router};
use serde_json::{Value, json};

use crate::error::{ClusterError, Result};
use crate::place::homes;
use crate::tunnels::{Ends, PORT, ends};
use crate::whole::Whole;

/// Documents of one node, and the files that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// JSON of each document with its name in messages, in the order of the documents.
    pub documents: Vec<(String, String)>,
    /// Files by path.
    pub files: BTreeMap<String, String>,
}

impl Part {
    /// The request that makes the node run exactly this part.
    pub fn request(&self, dry_run: bool) -> ApplyRequest {
        let sources = self.documents.iter();
        let text =
            |(path, text): &(String, String)| SourceText { path: path.clone(), text: text.clone() };
        let files = self.files.iter();
        ApplyRequest {
            sources: sources.map(text).collect(),
            files: files.map(|(p, t)| (p.clone(), NamedFile::Text(t.clone()))).collect(),
            dry_run,
            prune: true,
            ..ApplyRequest::default()
        }
    }
}

/// A node with the slices and ends of links on it.
struct Here<'w> {
    whole: &'w Whole,
    node: &'w str,
    slices: BTreeSet<String>,
    ends: Ends,
}

/// The part of a node. Links whose other end is on another node get a `tunnel`. Generated addresses
/// are written into the documents, because they depend on all documents.
///
/// # Errors
/// A tunnel needs nodes' addresses that are missing.
pub fn part(whole: &Whole, node: &str) -> Result<Part> {
    let here = Here::new(whole, node);
    let configurations: BTreeMap<&Key, &Kept> =
        whole.kept.iter().filter(|k| k.configuration.is_some()).map(|k| (&k.key, k)).collect();
    let mut part = Part::default();
    let mut said = BTreeSet::new();
    for document in whole.documents.iter() {
        let key = document.key();
        let Some(value) = here.document(&document)? else { continue };
        let folder = key.to_string().replace([' ', '/'], ".");
        if let Some(kept) = configurations.get(&key)
            && let (Document::Router(router), Some(own)) = (&document, &kept.configuration)
        {
            let fast_path = &router.fast_path.value;
            let xdp = fast_path.xdp.as_ref().and_then(|xdp| xdp.value.file());
            if let Some(file) = fast_path.click_file.as_ref().or(xdp.map(|(_, file)| file)) {
                let path = std::path::Path::new(&folder).join(&file.value);
                part.files.insert(path.display().to_string(), own.text.clone());
            }
        }
        if key.kind == "link" {
            said.insert(key.name.clone());
        }
        part.documents.push((format!("{folder}/document"), value.to_string()));
    }
    // Links without documents of their own.
    for link in here.ends.keys().filter(|link| !said.contains(*link)) {
        if let Some(tunnel) = here.tunnel(link)? {
            let value = json!({"kind": "link", "name": link, "tunnel": tunnel});
            part.documents.push((format!("link.{link}/document"), value.to_string()));
        }
    }
    Ok(part)
}

impl<'w> Here<'w> {
    fn new(whole: &'w Whole, node: &'w str) -> Here<'w> {
        let mut here = Here { whole, node, slices: BTreeSet::new(), ends: ends(&whole.documents) };
        let routers = whole.documents.routers.iter();
        let own = routers.filter(|r| here.has(&Key::new("router", r.full_name())));
        here.slices = own.map(|router| router.slice.to_string()).collect();
        here
    }

    /// Whether a router, host or port is on this node.
    fn has(&self, key: &Key) -> bool {
        self.whole.places.get(key).is_some_and(|place| place.node == self.node)
    }

    /// The end of a link that is here.
    fn end(&self, link: &str) -> Option<&Key> {
        self.ends.get(link)?.iter().map(|(owner, _)| owner).find(|owner| self.has(owner))
    }

    /// A document in the form for this node, or `None` if the node does not need it.
    fn document(&self, document: &Document) -> Result<Option<Value>> {
        let key = document.key();
        let is_here = match document {
            Document::Port(_) | Document::Host(_) | Document::Router(_) => self.has(&key),
            Document::Slice(_) => self.slices.contains(&key.name),
            Document::Filters(filters) => self.slices.contains(&*filters.slice.value),
            Document::Flow(flow) => {
                self.has(&Key::new("router", format!("{}/{}", flow.slice, flow.from)))
            }
            Document::User(_) => true,
            Document::Link(_) => self.end(&key.name).is_some(),
            Document::Node(_) => false,
        };
        if !is_here {
            return Ok(None);
        }
        let mut written = match document {
            Document::Link(link) => self.link(link)?,
            other => value(other)?,
        };
        if let Some(fields) = written.as_object_mut() {
            fields.remove("node");
            fields.remove("takeover");
        }
        match document {
            Document::Router(router) => self.router(router, &mut written),
            Document::Slice(_) => self.slice(&mut written),
            Document::User(_) => {
                if let Some(roles) = written.get_mut("roles").and_then(Value::as_object_mut) {
                    roles.retain(|slice, _| self.slices.contains(slice));
                }
            }
            Document::Filters(filters) => {
                let on_this =
                    |name: &str| self.has(&Key::new("router", format!("{}/{name}", filters.slice)));
                let mut own = filters
                    .rules
                    .0
                    .iter()
                    .map(|rule| rule.interfaces().all(|interface| on_this(&interface.router)));
                if let Some(rules) = written.get_mut("rules").and_then(Value::as_array_mut) {
                    rules.retain(|_| own.next().unwrap_or(true));
                }
            }
            _ => {}
        }
        Ok(Some(written))
    }

    /// A router's ports on this node, and whether they stop without a lease.
    fn router(&self, router: &Router, written: &mut Value) {
        let homes = homes(&self.whole.documents, router);
        let standby = homes.is_some_and(|homes| homes.is_standby(self.node));
        if let Some(interfaces) = written.get_mut("interfaces").and_then(Value::as_object_mut) {
            for interface in interfaces.values_mut().filter_map(Value::as_object_mut) {
                let other = interface.remove("standby");
                if let Some(other) = other.filter(|_| standby) {
                    interface.insert("port".to_owned(), other);
                }
            }
        }
        if let Some(fields) = written.as_object_mut() {
            fields.remove("without_lease");
            if router.stops_without_lease() {
                fields.insert("without_lease".to_owned(), json!("stop"));
            }
        }
    }

    /// Limits a slice's reservation to ports of this node.
    fn slice(&self, written: &mut Value) {
        let Some(reservation) = written.get_mut("reservation").and_then(Value::as_object_mut)
        else {
            return;
        };
        let Some(ports) = reservation.get_mut("ports").and_then(Value::as_object_mut) else {
            return;
        };
        ports.retain(|port, _| self.has(&Key::new("port", port.as_str())));
        if ports.is_empty() {
            reservation.remove("ports");
        }
    }

    /// Converts a link. If it leads to another node, only the direction from its end on this node
    /// is kept.
    fn link(&self, link: &Link) -> Result<Value> {
        let name = link.name.to_string();
        let (Some(tunnel), Some(end)) = (self.tunnel(&name)?, self.end(&name)) else {
            return value(&Document::Link(Box::new(link.clone())));
        };
        let own = Link {
            name: link.name.clone(),
            a: None,
            addresses: link.addresses,
            both: link.line_from(&end.name),
            a_to_b: None,
            b_to_a: None,
            ..link.clone()
        };
        let mut written = value(&Document::Link(Box::new(own)))?;
        written["tunnel"] = tunnel;
        Ok(written)
    }

    /// The tunnel of a link with one end here and one on another node.
    fn tunnel(&self, link: &str) -> Result<Option<Value>> {
        let Some(tunnel) = self.whole.tunnels.get(link) else { return Ok(None) };
        let Some((other, send, receive)) = tunnel.seen_from(self.node) else { return Ok(None) };
        let address = |node: &str| {
            self.whole.address(node).ok_or_else(|| {
                ClusterError::Refused(format!(
                    "link {link} leads to node {node}, which has no document"
                ))
            })
        };
        Ok(Some(json!({
            "local": address(self.node)?.to_string(),
            "remote": address(other)?.to_string(),
            "port": PORT,
            "id": tunnel.id,
            "epoch": tunnel.epoch,
            "send_key": send,
            "receive_key": receive,
        })))
    }
}

fn value(document: &Document) -> Result<Value> {
    serde_json::to_value(document).map_err(|error| ClusterError::Damaged {
        key: document.key().to_string(),
        error: error.to_string(),
    })
}
