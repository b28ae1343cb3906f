//! The data that a command sends to a node: texts, the files that they name, and the documents that
//! the node already has.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::documents::{Document, Documents};
use crate::fast_path::Configuration;
use crate::parse::parse;
use crate::problem::{Problem, Problems};
use crate::router::Router;
use crate::source::{At, Place, Source};
use crate::tree::{self, Node, Value};

/// The beginning of every object file in base64: 0x7f, `ELF`.
const OBJECT: &str = "f0VMR";

/// Largest file that is read: all files together must fit into one request.
const MOST_FILE_BYTES: u64 = 32 << 20;

/// Kind and name of a document; the name of a router begins with its slice: `red/r1`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Key {
    /// `port`, `slice`, `link`, `host`, `router`, `filters`, `flow`, `user`; in a cluster `node`.
    pub kind: String,
    /// The name; for a router, `SLICE/NAME`.
    pub name: String,
}

impl Key {
    /// A key of these parts.
    pub fn new(kind: &str, name: impl Into<String>) -> Key {
        Key { kind: kind.to_owned(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

impl Document {
    /// Its key.
    pub fn key(&self) -> Key {
        match self {
            Document::Port(port) => Key::new("port", port.name.to_string()),
            Document::Slice(slice) => Key::new("slice", slice.name.to_string()),
            Document::Link(link) => Key::new("link", link.name.to_string()),
            Document::Host(host) => Key::new("host", host.name.to_string()),
            Document::Router(router) => Key::new("router", router.full_name()),
            Document::Filters(filters) => Key::new("filters", filters.name.to_string()),
            Document::Flow(flow) => Key::new("flow", flow.name.to_string()),
            Document::User(user) => Key::new("user", user.name.to_string()),
            Document::Node(node) => Key::new("node", node.name.to_string()),
        }
    }

    /// The text of a Click configuration, from a file or from a list of lines.
    pub fn configuration(&self) -> Option<&Configuration> {
        match self {
            Document::Router(router) => router.fast_path.value.configuration.as_ref(),
            _ => None,
        }
    }
}

/// A file that a document names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NamedFile {
    /// The contents of a file. An object file is in base64 (RFC 4648), and may replace its source
    /// in C. For a program with elements, it is the program's absolute path.
    Text(String),
    /// Why it could not be read.
    Unreadable {
        /// The system's error.
        error: String,
    },
    /// A source that does not compile.
    Uncompiled {
        /// The compiler's messages.
        messages: String,
    },
}

/// Texts of YAML files, and the files that they name.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// The YAML.
    pub sources: Vec<Source>,
    /// Other files, by path; a path in YAML is relative to the YAML's own path.
    pub files: BTreeMap<String, NamedFile>,
}

/// A document that the node already has.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its key.
    pub key: Key,
    /// The document, as JSON.
    pub document: String,
    /// Its Click configuration, if it has one.
    pub configuration: Option<Configuration>,
}

impl Kept {
    /// The stored form of a document.
    ///
    /// # Errors
    /// An error is impossible for documents of this crate.
    pub fn of(document: &Document) -> Result<Kept, serde_json::Error> {
        Ok(Kept {
            key: document.key(),
            document: serde_json::to_string(document)?,
            configuration: document.configuration().cloned(),
        })
    }
}

/// Reads YAML files and the files that they name.
///
/// # Errors
/// YAML files that cannot be read. If a file that a document names cannot be read, that is an error
/// of [`Bundle::merge`], which knows the place of the name.
pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Bundle, Problems> {
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    for (path, index) in paths.iter().map(AsRef::as_ref).zip(0..) {
        let text = text_of(path, Sort::Any).unwrap_or_else(|error| {
            let place = Place { source: index, start: 0, end: 0 };
            let message = format!("cannot read {}: {error}", path.display());
            problems.push(Problem::new(place, message));
            String::new()
        });
        sources.push(Source { path: path.to_owned(), text });
    }
    if !problems.is_empty() {
        return Err(Problems::new(problems, &sources));
    }
    Ok(Bundle::of(sources))
}

/// The kinds of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Anything that can be read to its end, including pipes: a shell makes pipes for `<(command)`.
    Any,
    /// Only a file: reading it must not wait for another process.
    Regular,
}

/// The text of a file, or the reason why it cannot be read.
fn text_of(path: &Path, sort: Sort) -> Result<String, String> {
    let bytes = bytes_of(path, sort)?;
    String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8".to_owned())
}

/// The contents of a file, or the reason why it cannot be read.
fn bytes_of(path: &Path, sort: Sort) -> Result<Vec<u8>, String> {
    let read = || -> std::io::Result<Result<Vec<u8>, String>> {
        // The type is checked before the file is opened, because opening a pipe would wait.
        let is_regular = path.metadata()?.is_file();
        if sort == Sort::Regular && !is_regular {
            return Ok(Err("it is no regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        let count = File::open(path)?.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if count as u64 > MOST_FILE_BYTES {
            return Ok(Err(format!("it is larger than {} MB", MOST_FILE_BYTES >> 20)));
        }
        Ok(Ok(bytes))
    };
    read().unwrap_or_else(|error| Err(error.to_string()))
}

/// The path of a file that `source` names.
fn beside(source: &Source, file: &str) -> String {
    source.path.parent().unwrap_or(Path::new("")).join(file).display().to_string()
}

impl Bundle {
    /// A bundle of texts; reads the files that they name from this machine.
    pub fn of(sources: Vec<Source>) -> Bundle {
        let mut files = BTreeMap::new();
        for source in &sources {
            for (file, form) in named_files(&source.text) {
                let path = beside(source, &file);
                let place = Path::new(&path);
                let read = match form {
                    Form::Text | Form::Source => text_of(place, Sort::Regular),
                    Form::Object => {
                        bytes_of(place, Sort::Regular).map(|bytes| BASE64.encode(bytes))
                    }
                    Form::Program => match place.canonicalize() {
                        Ok(whole) => Ok(whole.display().to_string()),
                        Err(error) => Err(error.to_string()),
                    },
                };
                let named = match read {
                    Ok(text) => NamedFile::Text(text),
                    Err(error) => NamedFile::Unreadable { error },
                };
                files.insert(path, named);
            }
        }
        Bundle { sources, files }
    }

    /// Replaces sources in C by their objects. `compiler` gets the path and the text of a source,
    /// and returns its object or an error message.
    pub fn compile(&mut self, compiler: impl Fn(&Path, &str) -> Result<Vec<u8>, String>) {
        let named = self.sources.iter().flat_map(|source| {
            let files = named_files(&source.text).into_iter();
            let sources = files.filter(|(_, form)| *form == Form::Source);
            sources.map(|(file, _)| beside(source, &file))
        });
        let named: BTreeSet<String> = named.collect();
        for path in named {
            let Some(NamedFile::Text(text)) = self.files.get(&path) else { continue };
            if text.starts_with(OBJECT) {
                continue;
            }
            let compiled = match compiler(Path::new(&path), text) {
                Ok(object) => NamedFile::Text(BASE64.encode(object)),
                Err(messages) => NamedFile::Uncompiled { messages },
            };
            self.files.insert(path, compiled);
        }
    }

    /// The keys of all documents, including documents with mistakes, as far as they are readable.
    pub fn keys(&self) -> HashSet<Key> {
        self.sources.iter().flat_map(|source| keys(&source.text)).collect()
    }

    /// Complete documents, from the texts alone.
    ///
    /// # Errors
    /// Every mistake that was found.
    pub fn documents(&self) -> Result<Documents, Problems> {
        self.merge(&[])
    }

    /// Documents from the texts alone; existing documents come first, in their order. `check` has
    /// the meaning as in [`Bundle::merge_checked`].
    ///
    /// # Errors
    /// Every mistake that was found.
    pub fn replace(
        &self,
        kept: &[Kept],
        check: impl Fn(&Router, &mut Vec<Problem>),
    ) -> Result<Documents, Problems> {
        let mut documents = self.merge_checked(&[], check)?;
        documents.keep_order(kept);
        Ok(documents)
    }

    /// Documents of the texts, and those of `kept` that the texts do not replace, all checked
    /// together. Kept documents come first, in their order; a new version of a document keeps the
    /// position of the old one.
    ///
    /// # Errors
    /// Every mistake that was found.
    pub fn merge(&self, kept: &[Kept]) -> Result<Documents, Problems> {
        self.merge_checked(kept, |_, _| ())
    }

    /// The same, but `check` reports further mistakes of routers in the texts.
    ///
    /// # Errors
    /// Every mistake that was found.
    pub fn merge_checked(
        &self,
        kept: &[Kept],
        check: impl Fn(&Router, &mut Vec<Problem>),
    ) -> Result<Documents, Problems> {
        let (sources, stay) = self.beside(kept);
        let mut documents = parse(&sources)?;
        let mut problems = Vec::new();
        let first_stored = self.sources.len();
        for router in &mut documents.routers {
            let key = Key::new("router", router.full_name());
            let source = router.name.place.source as usize;
            let fast_path = &mut router.fast_path.value;
            if source >= first_stored {
                fast_path.configuration =
                    stay.iter().find(|k| k.key == key).and_then(|k| k.configuration.clone());
                continue;
            }
            if let (Some(slow_path), Some(source)) = (&mut router.slow_path, sources.get(source)) {
                for file in &mut slow_path.value.files {
                    let Some(from) = file.value.from.take() else { continue };
                    match self.file(source, &from) {
                        Ok((_, value)) => {
                            file.value.text = Some(At { value, place: from.place });
                        }
                        Err(problem) => problems.push(*problem),
                    }
                }
            }
            if let (Some(elements), Some(source)) = (&mut fast_path.elements, sources.get(source))
                && !elements.value.starts_with('/')
            {
                match self.file(source, elements) {
                    Ok((_, path)) => elements.value = path,
                    Err(problem) => problems.push(*problem),
                }
            }
            let object = fast_path.xdp.as_ref().and_then(|xdp| xdp.value.file());
            let object = object.map(|(_, file)| file);
            let place = match (&fast_path.click, fast_path.click_file.as_ref().or(object)) {
                (Some(click), _) => click.place,
                (None, Some(file)) => file.place,
                (None, None) => continue,
            };
            let Some(source) = sources.get(source) else { continue };
            if let Some(click) = &fast_path.click {
                let before = source.text.get(..place.start as usize).unwrap_or("");
                fast_path.configuration = Some(Configuration {
                    file: source.path.display().to_string(),
                    first_line: before.matches('\n').count() + 1,
                    text: click.value.clone(),
                });
            } else if let Some(file) = fast_path.click_file.as_ref().or(object) {
                match self.file(source, file) {
                    Ok((file, text)) => {
                        fast_path.configuration = Some(Configuration { file, first_line: 1, text });
                    }
                    Err(problem) => problems.push(*problem),
                }
            }
        }
        let is_new = |router: &&Router| (router.name.place.source as usize) < first_stored;
        documents.routers.iter().filter(is_new).for_each(|router| check(router, &mut problems));
        if !problems.is_empty() {
            return Err(Problems::new(problems, &sources));
        }
        documents.keep_order(kept);
        Ok(documents)
    }

    /// Parses the documents with the names of files, without the files' contents.
    ///
    /// # Errors
    /// Every mistake that was found.
    pub fn written(&self, kept: &[Kept]) -> Result<Documents, Problems> {
        parse(&self.beside(kept).0)
    }

    /// The texts, and the documents of `kept` that they do not replace.
    fn beside<'k>(&self, kept: &'k [Kept]) -> (Vec<Source>, Vec<&'k Kept>) {
        let own = self.keys();
        let stay: Vec<&Kept> = kept.iter().filter(|kept| !own.contains(&kept.key)).collect();
        let stored = stay.iter().map(|kept| Source {
            path: format!("{} (in the node's state)", kept.key).into(),
            text: kept.document.clone(),
        });
        (self.sources.iter().cloned().chain(stored).collect(), stay)
    }

    /// Path and text of a file that `source` names.
    fn file(&self, source: &Source, name: &At<String>) -> Result<(String, String), Box<Problem>> {
        let path = beside(source, &name.value);
        let error = match self.files.get(&path) {
            Some(NamedFile::Text(text)) => return Ok((path, text.clone())),
            Some(NamedFile::Unreadable { error }) => error,
            Some(NamedFile::Uncompiled { messages }) => {
                let problem = Problem::new(name.place, format!("{path} does not compile"));
                return Err(Box::new(problem.label("this source").help(messages.trim_end())));
            }
            None => "it was not sent along",
        };
        let message = format!("cannot read {path}: {error}");
        let problem = Problem::new(name.place, message).label("this file");
        Err(Box::new(problem.help("it is searched beside the YAML file")))
    }
}

impl Documents {
    /// Fills in values that follow from all documents: addresses of links.
    pub fn complete(&mut self) {
        // Links for which no address is free are mistakes, which the check has already reported.
        let _ = crate::addressing::assign(self);
    }

    /// Puts existing documents first, in their former order.
    fn keep_order(&mut self, kept: &[Kept]) {
        let place = |kind: &str, name: String| {
            let key = Key::new(kind, name);
            kept.iter().position(|kept| kept.key == key).unwrap_or(usize::MAX)
        };
        self.ports.sort_by_cached_key(|port| place("port", port.name.to_string()));
        self.slices.sort_by_cached_key(|slice| place("slice", slice.name.to_string()));
        self.links.sort_by_cached_key(|link| place("link", link.name.to_string()));
        self.hosts.sort_by_cached_key(|host| place("host", host.name.to_string()));
        self.routers.sort_by_cached_key(|router| place("router", router.full_name()));
        self.filters.sort_by_cached_key(|filters| place("filters", filters.name.to_string()));
        self.flows.sort_by_cached_key(|flow| place("flow", flow.name.to_string()));
        self.users.sort_by_cached_key(|user| place("user", user.name.to_string()));
        self.nodes.sort_by_cached_key(|node| place("node", node.name.to_string()));
    }
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    let is = |key: &Node| matches!(&key.value, Value::Text(text) if text == name);
    entries.iter().find(|(key, _)| is(key)).map(|(_, value)| value)
}

fn text<'n>(node: &'n Node, name: &str) -> Option<&'n str> {
    match &field(node, name)?.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The key of a document.
pub(crate) fn key_of(node: &Node) -> Option<Key> {
    let (kind, name) = (text(node, "kind")?, text(node, "name")?);
    match text(node, "slice").filter(|_| kind == "router") {
        Some(slice) => Some(Key::new(kind, format!("{slice}/{name}"))),
        None => Some(Key::new(kind, name)),
    }
}

/// The keys of a text's documents, including invalid ones.
fn keys(yaml: &str) -> Vec<Key> {
    tree::documents(yaml)
        .into_iter()
        .filter_map(|range| tree::parse(yaml, range).ok())
        .filter_map(|node| key_of(&node))
        .collect()
}

/// The kind of a named file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// A program as bytes.
    Object,
    /// A program as text, and as bytes after compilation.
    Source,
    /// The path of a program that the node executes.
    Program,
}

/// Files that the documents of a text name.
fn named_files(yaml: &str) -> Vec<(String, Form)> {
    let click = |node: &Node| Some(text(field(node, "fast_path")?, "click_file")?.to_owned());
    let xdp = |node: &Node, name: &str| {
        Some(text(field(field(node, "fast_path")?, "xdp")?, name)?.to_owned())
    };
    let copied = |node: &Node| -> Option<Vec<String>> {
        let Value::List(files) = &field(field(node, "slow_path")?, "files")?.value else {
            return None;
        };
        Some(files.iter().filter_map(|file| Some(text(file, "from")?.to_owned())).collect())
    };
    tree::documents(yaml)
        .into_iter()
        .filter_map(|range| tree::parse(yaml, range).ok())
        .flat_map(|node| {
            let texts = click(&node).into_iter().chain(copied(&node).into_iter().flatten());
            let programs = [("object", Form::Object), ("source", Form::Source)];
            let programs = programs.map(|(field, form)| Some((xdp(&node, field)?, form)));
            let texts = texts.map(|name| (name, Form::Text));
            let elements =
                field(&node, "fast_path").and_then(|fast_path| text(fast_path, "elements"));
            // The node itself opens programs with an absolute path.
            let elements = elements.filter(|name| !name.starts_with('/'));
            let elements = elements.map(|name| (name.to_owned(), Form::Program));
            texts.chain(programs.into_iter().flatten()).chain(elements).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "kind: port\nname: left\ndevice: eth1\n---\nkind: slice\nname: red\n---\n\
        kind: router\nname: r1\nslice: red\ninterfaces: {b: {port: left, addresses: [10.0.1.1/24]}, a: {port: left}}\n\
        fast_path: {builtin: ipv4}\n";

    fn bundle(text: &str) -> Bundle {
        Bundle::of(vec![Source { path: "new.yaml".into(), text: text.to_owned() }])
    }

    #[test]
    fn files_have_an_end() {
        for (path, sort, wanted) in [
            ("/dev/zero", Sort::Any, "it is larger than 32 MB"),
            ("/dev/zero", Sort::Regular, "it is no regular file"),
            ("/", Sort::Regular, "it is no regular file"),
            ("/nowhere", Sort::Any, "No such file"),
        ] {
            let error = text_of(Path::new(path), sort).unwrap_err();
            assert!(error.contains(wanted), "{path}: {error}");
        }
    }

    #[test]
    fn sources_in_c_are_compiled() {
        let text = "kind: slice\nname: red\nprograms: operator\n---\nkind: link\nname: l\n---\n\
            kind: host\nname: h\ninterfaces: {e: {link: l}}\n---\n\
            kind: router\nname: r1\nslice: red\nrun: kernel\ninterfaces: {a: {link: l}}\n\
            fast_path: {xdp: {source: p.c}}\n";
        let read = || {
            let mut bundle = bundle(text);
            bundle.files.insert("p.c".into(), NamedFile::Text("int program;\n".into()));
            bundle
        };
        let mut compiled = read();
        compiled.compile(|path, text| {
            assert!(path.ends_with("p.c") && text == "int program;\n");
            Ok(b"\x7fELF...".to_vec())
        });
        // Once is enough.
        compiled.compile(|_, _| Err("it is an object".into()));
        let documents = compiled.documents().unwrap_or_else(|p| panic!("{}", p.render(false)));
        let object = documents.routers[0].fast_path.configuration.as_ref().unwrap();
        assert!(object.text.starts_with(OBJECT) && object.file.ends_with("p.c"), "{object:?}");
        let mut wrong = read();
        wrong.compile(|_, _| Err("p.c:1:5: error: no such type".into()));
        let report = wrong.documents().unwrap_err().render(false);
        for part in ["does not compile", "p.c:1:5: error: no such type", "new.yaml:17:"] {
            assert!(report.contains(part), "{part} is not in\n{report}");
        }
    }

    fn kept(text: &str) -> Vec<Kept> {
        bundle(text).documents().unwrap().iter().map(|d| Kept::of(&d).unwrap()).collect()
    }

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let documents = bundle(NODE).documents().unwrap();
        let again = Bundle::default().merge(&kept(NODE)).unwrap();
        assert_eq!(documents, again);
        // The order of interfaces is part of a router's meaning.
        let names: Vec<String> =
            again.routers[0].interfaces.0.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn a_text_replaces_what_is_kept_and_is_checked_with_the_rest() {
        let kept = kept(NODE);
        let merged = bundle("kind: port\nname: left\ndevice: eth9\n").merge(&kept).unwrap();
        assert_eq!((merged.ports.len(), merged.routers.len()), (1, 1));
        assert_eq!(merged.ports[0].device.value, "eth9");
        let clash = "kind: port\nname: other\ndevice: eth1\n";
        let report = bundle(clash).merge(&kept).unwrap_err().render(false);
        assert!(report.contains("port left (in the node's state)"), "{report}");
        let dangling = Bundle::default().merge(&kept[1..]).unwrap_err().render(false);
        assert!(dangling.contains("there is no port \"left\""), "{dangling}");
    }
}
