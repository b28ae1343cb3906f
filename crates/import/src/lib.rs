//! Topologies of other tools, turned into Europa's YAML.
//!
//! [`containerlab`] reads a topology as containerlab's users write it and returns a
//! configuration, with a [`Note`] for everything that has no counterpart. Nothing is
//! started. No files but the topology and `env-files` are read; directories that are bound are listed.
//! [`Images`] has the files of images.
//!
//! | file       | concern                                                   |
//! |------------|-----------------------------------------------------------|
//! | `yaml`     | a tree in which every value knows its line                |
//! | `variable` | `${NAME:=default}` in the text                            |
//! | `node`     | nodes, with what they inherit                             |
//! | `share`    | nodes that share the network of another                   |
//! | `container`| command, user and names of a container                    |
//! | `stages`   | commands of the stages that a node passes                |
//! | `link`     | links and their endpoints, in both ways to write them     |
//! | `command`  | what `exec` lines say about addresses and routes          |
//! | `frr`      | how a node's FRR is run                                   |
//! | `host`     | documents of hosts, as text                               |
//! | `names`    | names as Europa allows them                               |
//! | `interface`| interfaces of documents, as text                          |
//! | `document` | Europa's documents, as text                               |

mod command;
mod container;
mod document;
mod frr;
mod host;
mod interface;
mod link;
mod names;
mod node;
mod share;
mod stages;
mod variable;
mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::node::Kind;

/// A configuration, and the parts that are missing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Europa's YAML.
    pub yaml: String,
    /// Fields without a counterpart, or with another form, in the order of the lines.
    pub notes: Vec<Note>,
    /// The lab.
    pub lab: Lab,
}

/// A lab as in the other tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lab {
    /// Its name.
    pub name: String,
    /// The name of Europa's slice with the lab's routers: the lab's name, in a form that Europa
    /// allows.
    pub slice: String,
    /// The beginning of the containers' names: `clab`, or nothing.
    pub prefix: String,
    /// The lab's nodes in the order of the file, without omitted ones.
    pub nodes: Vec<LabNode>,
}

/// A node of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabNode {
    /// Its name in the topology.
    pub name: String,
    /// Its kind there.
    pub kind: String,
    /// The name of its image.
    pub image: String,
    /// Whether the node runs lines when it starts.
    pub runs: bool,
    /// Its variables.
    pub env: Vec<(String, String)>,
    /// Its object in Europa.
    pub object: Object,
}

/// An object of Europa's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// A host, by name.
    Host(String),
    /// A router with a slow path, `SLICE/ROUTER`.
    Router(String),
    /// A node without programs: a bridge, the machine, or a container of Docker.
    #[default]
    None,
}

/// A part of the topology that was not imported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The line of the topology, from 1.
    pub line: u64,
    /// The message.
    pub message: String,
}

/// The reason why the import failed.
#[derive(Debug, thiserror::Error)]
#[error("{line}: {message}")]
pub struct ImportError {
    /// The line of the topology, from 1.
    pub line: u64,
    /// The mistake.
    pub message: String,
}

impl Lab {
    /// The name of a node's container: `clab-LAB-NODE`; with the prefix `__lab-name`, `LAB-NODE`;
    /// with an empty prefix, the node's name.
    pub fn container(&self, node: &str) -> String {
        match self.prefix.as_str() {
            "" => node.to_owned(),
            "__lab-name" => format!("{}-{node}", self.name),
            prefix => format!("{prefix}-{}-{node}", self.name),
        }
    }
}

/// Notes in the making.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Note>);

impl Notes {
    pub(crate) fn add(&mut self, line: u64, message: impl Into<String>) {
        let note = Note { line, message: message.into() };
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// Notes that a command about the management network is left out.
    pub(crate) fn not_needed(&mut self, node: &str, line: u64, command: &str) {
        let why = "is not needed: there is no management network";
        self.add(line, format!("node {node}: {command:?} {why}"));
    }
}

/// The files or folders of images by the names in nodes, with or without tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images(pub BTreeMap<String, PathBuf>);

impl Images {
    /// Reads one of the form `NAME=PATH`; `PATH` becomes absolute.
    ///
    /// # Errors
    /// The text has another form, or the file or folder does not exist.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let parts =
            text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
        let (name, path) = parts.ok_or_else(|| {
            format!("{text:?} is no image: use NAME=PATH, such as frrouting/frr:10.4=frr.tar")
        })?;
        let path = std::fs::canonicalize(path).map_err(|error| format!("{path}: {error}"))?;
        self.0.insert(name.to_owned(), path);
        Ok(())
    }

    /// That of a node's `image`.
    pub fn of(&self, image: &str) -> Option<&Path> {
        // The port of a registry also follows a colon.
        let untagged = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let found = self.0.get(image).or_else(|| self.0.get(untagged?.0));
        found.map(PathBuf::as_path)
    }
}

/// Turns a containerlab topology into Europa's YAML. `folder` contains the topology: files that it
/// names are relative to it. `environment` contains the variables that it may use. `images` returns
/// the file or folder of an image; nodes without an image run this machine's programs.
///
/// # Errors
/// The text is no topology.
pub fn containerlab(
    text: &str,
    folder: &Path,
    environment: impl Fn(&str) -> Option<String>,
    images: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Imported, ImportError> {
    let mut notes = Notes::default();
    let text = variable::expand(text, environment, &mut notes);
    let root = yaml::parse(&text)?;
    let topology = root.get("topology").ok_or_else(|| ImportError {
        line: root.line,
        message: "this is no containerlab topology: it has no `topology`".to_owned(),
    })?;
    let name = root.get("name").and_then(yaml::Node::text).unwrap_or("lab");
    for (key, value) in root.entries() {
        if !matches!(key, "name" | "topology" | "mgmt" | "prefix") {
            notes.add(value.line, format!("`{key}` has no counterpart"));
        }
    }
    let lab_folder = folder.join(format!("clab-{name}")).display().to_string();
    let mut nodes = node::read(topology, (folder, &lab_folder), &mut notes)?;
    for node in nodes.iter_mut().filter(|node| matches!(node.kind, Kind::Linux | Kind::Frr)) {
        node.root =
            Some(&node.said.1).filter(|image| !image.is_empty()).and_then(|one| images(one));
    }
    let joined = share::join(&mut nodes, name, &mut notes);
    let links = link::read(topology, &mut notes)?;
    let (yaml, slice, mut known) = document::write(name, &nodes, &links, folder, &mut notes);
    share::add(&mut known, &joined);
    let prefix = root.get("prefix").map(|prefix| prefix.text().unwrap_or_default());
    let prefix = prefix.unwrap_or("clab").to_owned();
    let mut notes = notes.0;
    notes.sort();
    Ok(Imported { yaml, notes, lab: Lab { name: name.to_owned(), slice, prefix, nodes: known } })
}
