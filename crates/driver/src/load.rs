//! Makes a router from a text. Reports mistakes in the words of the `click` program.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use europa_click::{Diagnostics, Options as Language, compile_with, configuration_text};
use europa_engine::{Arena, BuildError, Devices, Graph, Registry, Router};
use europa_router::graph::{Classes, flat};

use crate::devices::Unopened;
use crate::options::Source;

/// A configuration's text and its name in errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub text: String,
    /// The file's name.
    pub file: String,
}

/// Reads a configuration.
///
/// # Errors
/// The messages for the user.
pub fn read(source: &Source) -> Result<Text, String> {
    let (bytes, file) = match source {
        Source::Expression(text) => {
            return Ok(Text { text: text.clone(), file: "config".to_owned() });
        }
        Source::File(name) if name != "-" => {
            let bytes = std::fs::read(name);
            (bytes.map_err(|error| format!("{name}: {}", system(&error)))?, name.clone())
        }
        Source::File(_) | Source::Input => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes);
            read.map_err(|error| format!("<stdin>: {}", system(&error)))?;
            (bytes, "<stdin>".to_owned())
        }
    };
    match configuration_text(&bytes) {
        Some(text) => Ok(Text { text: text.into_owned(), file }),
        None => Err(format!("{file}: archive has no 'config' section")),
    }
}

/// A system error without its number.
pub(crate) fn system(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Finds libraries: by the given name, and in the folders of `path`.
fn library(name: &str, path: Option<&str>) -> Option<(String, String)> {
    let from_environment = std::env::var("CLICKPATH").ok();
    let path = path.map(str::to_owned).or(from_environment).unwrap_or_default();
    let folders = path.split(':').filter(|folder| !folder.is_empty());
    let inside = folders.flat_map(|folder| {
        [Path::new(folder).join("conf").join(name), Path::new(folder).join(name)]
    });
    let mut places = std::iter::once(Path::new(name).to_path_buf()).chain(inside);
    places.find_map(|place| {
        let bytes = std::fs::read(&place).ok()?;
        let text = configuration_text(&bytes)?.into_owned();
        Some((place.to_string_lossy().into_owned(), text))
    })
}

/// Checks a text up to a flat graph.
///
/// # Errors
/// All mistakes, a line each.
pub fn check(
    text: &Text,
    registry: &Registry,
    defines: &[(String, String)],
    path: Option<&str>,
) -> Result<europa_click::Graph, String> {
    let load = |name: &str| library(name, path);
    let language = Language { defines: defines.to_vec(), library: Some(&load) };
    let graph =
        compile_with(&text.text, &text.file, &Classes(registry), &language).map_err(|errors| {
            let end = if errors.are_of_ports() { NOT_MADE } else { "" };
            advised(&errors) + end
        })?;
    let provided = |name: &str| {
        let own = graph.provisions.iter().any(|provision| provision == name);
        own || PROVIDED.contains(&name) || registry.info(name).is_some()
    };
    let missing = graph.requirements.iter().filter(|r| r.kind == "package" && !provided(&r.value));
    let lines: String =
        missing.map(|r| format!("requirement '{}' not available\n", r.value)).collect();
    if lines.is_empty() { Ok(graph) } else { Err(lines) }
}

/// A line for each mistake. After an unknown class, similar class names follow.
fn advised(errors: &Diagnostics) -> String {
    let unknown = |message: &str| {
        message.starts_with("unknown element class") || message.starts_with("undeclared element")
    };
    let hints: Vec<(String, String)> = errors
        .iter()
        .filter(|error| unknown(&error.message))
        .map(|error| {
            let place = error.at.as_ref().map_or_else(String::new, |at| format!("{at}: "));
            let help = error.help.clone().unwrap_or_default();
            (place + &error.message, help)
        })
        .collect();
    let mut text = String::new();
    for line in errors.plain().to_string().lines() {
        text += line;
        text.push('\n');
        if let Some((_, help)) =
            hints.iter().find(|(start, help)| line == start && !help.is_empty())
        {
            text += &format!("  {help}\n");
        }
    }
    if !hints.is_empty() {
        text += "'europa click --list' names all classes\n";
    }
    text
}

/// Makes all elements of a checked graph read their arguments, without opening a device, file or
/// socket. Returns their warnings.
///
/// # Errors
/// All mistakes, a line each.
pub fn check_arguments(
    checked: &europa_click::Graph,
    registry: &Registry,
    warnings: bool,
) -> Result<String, String> {
    let arena = Arena::heap(CHECK_SLOTS, CHECK_SLOT_BYTES);
    let graph = flat(checked);
    match Router::check(&graph, registry, &arena, &Unopened::of(&graph)) {
        Ok(found) => Ok(notes(checked, &found, warnings)),
        Err(found) => Err(notes(checked, &found, warnings) + NOT_MADE),
    }
}

/// Number of buffers for a check, in which no packet moves.
const CHECK_SLOTS: u32 = 16;
const CHECK_SLOT_BYTES: usize = 2048;

/// The last line of the messages if no router could be made.
const NOT_MADE: &str = "Router could not be initialized!\n";

/// The requirements that configurations may have in addition to element classes.
const PROVIDED: &[&str] = &["analysis", "int64", "ip6", "nanotimestamp", "userlevel"];

/// The text of a line for each warning.
pub fn warnings(warnings: &Diagnostics) -> String {
    warnings.plain().to_string()
}

/// Mistakes and warnings of elements, in the words of Click.
pub fn notes(checked: &europa_click::Graph, notes: &[BuildError], warnings: bool) -> String {
    let (mut text, mut last) = (String::new(), None);
    let is_wanted = |note: &&BuildError| warnings || !matches!(note, BuildError::Warning { .. });
    for note in notes.iter().filter(is_wanted) {
        say(checked, note, &mut last, &mut text);
    }
    text
}

/// Whether a class shows packets one by one, to users or in files.
fn shows_packets(class: &str) -> bool {
    class.contains("Print") || class.contains("Dump") || class.ends_with("Test")
}

/// Whether the order in which a graph handles packets is visible. With real interfaces, it is
/// visible only if packets are shown or scripts run for them. Without real interfaces, it is also
/// visible if the user calls handlers (`asks`) or a script may: their values would depend on the
/// size of bursts.
pub fn shows_order(graph: &Graph, asks: bool) -> bool {
    let has = |fits: &dyn Fn(&str) -> bool| graph.elements.iter().any(|e| fits(&e.class));
    let arguments = || graph.elements.iter().flat_map(|element| &element.arguments);
    let connected = |index: usize| graph.connections.iter().any(|c| c.to == index);
    let scripts = graph.elements.iter().enumerate();
    let packet_script = || scripts.clone().any(|(at, e)| e.class == "Script" && connected(at));
    let real = has(&|class| matches!(class, "FromDevice" | "KernelTun" | "KernelTap"));
    has(&shows_packets)
        || packet_script()
        || arguments().any(|argument| argument.contains("_CALL"))
        || (!real && (asks || has(&|class| matches!(class, "Script" | "DriverManager"))))
}

/// Builds a router from a checked graph.
///
/// # Errors
/// All mistakes and, if requested, warnings, in the words of Click.
pub fn build(
    checked: &europa_click::Graph,
    graph: &Graph,
    registry: &Registry,
    arena: &Arena,
    devices: &dyn Devices,
    now_ns: u64,
    warnings: bool,
) -> Result<Router, String> {
    Router::build(graph, registry, arena, devices, now_ns)
        .map_err(|found| notes(checked, &found, warnings) + NOT_MADE)
}

/// The graph in the engine's form; one by one, if the order is visible or that is requested.
pub fn graph(checked: &europa_click::Graph, simulated: bool, asks: bool) -> Graph {
    let mut graph = flat(checked);
    graph.one_by_one = simulated || shows_order(&graph, asks);
    graph
}

/// Writes an error. The common part of several errors of one element is written only once.
fn say(
    checked: &europa_click::Graph,
    error: &BuildError,
    last: &mut Option<(usize, bool)>,
    text: &mut String,
) {
    let (element, initializing, message) = match error {
        BuildError::Config { element, initializing, error, .. } => {
            (*element, *initializing, error.to_string())
        }
        BuildError::Warning { element, initializing, message, .. } => {
            // If there are several patterns, Click names the number of the wrong one.
            let of = message.split_once(": ").filter(|(of, _)| of.starts_with("pattern "));
            let text = match of {
                Some((of, message)) => format!("{of}: warning: {message}"),
                None => format!("warning: {message}"),
            };
            (*element, *initializing, text)
        }
        BuildError::UnknownClass { element, class, .. } => {
            (*element, false, format!("unknown element class '{class}'"))
        }
    };
    if *last != Some((element, initializing)) {
        *last = Some((element, initializing));
        let doing = if initializing { "initializing" } else { "configuring" };
        // Writing to a String cannot fail.
        let _ = match checked.elements.get(element) {
            Some(element) => writeln!(text, "{}: While {doing} '{element}':", element.at),
            None => writeln!(text, "While {doing} element {element}:"),
        };
    }
    for line in message.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters_where_it_is_seen() {
        let registry = crate::registry();
        for (text, asks, one_by_one) in [
            ("InfiniteSource -> Discard", false, false),
            ("InfiniteSource -> Discard", true, true),
            ("InfiniteSource -> Print -> Discard", false, true),
            ("InfiniteSource -> Discard; DriverManager(wait 1, stop)", false, true),
            ("FromDevice(a) -> Discard; Script(print 1)", true, false),
            ("FromDevice(a) -> Script -> Discard", false, true),
        ] {
            let text = Text { text: text.to_owned(), file: "test".to_owned() };
            let checked = check(&text, &registry, &[], None).unwrap();
            assert_eq!(graph(&checked, false, asks).one_by_one, one_by_one, "{}", text.text);
        }
    }
}
