//! Each example of the gallery does what its first lines say. A broken variant of it does not.
//!
//! The first lines of an example have commands (`# $ COMMAND`), texts that their output contains in
//! this order (`# > TEXT`), and a change that breaks the example (`# Broken: OLD => NEW`). Commands
//! after `# Before:` run before the example. An example that is a lab for containerlab is imported.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, europa, missing, skipped};

/// Longest time that protocols need before a command shows the expected text.
const PATIENCE: Duration = Duration::from_secs(40);

/// One test for each example.
macro_rules! gallery {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                example_works(stringify!($name));
            }
        )*
    };
}

gallery! {
    bgp_ospf c_data_plane containerlab dhcp dhcp_relay firewall gre ipv6_only isis load_balancer memif mpeg mpls multicast nat_gateway
    ospf_triangle python_data_plane qinq rust_element shaping two_tenants vlan_trunk vxlan
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folder() -> PathBuf {
    root().join("examples/gallery").canonicalize().expect("the gallery")
}

/// The name of an example's file: of documents, or of a lab for containerlab.
fn file_of(name: &str) -> String {
    let lab = format!("{name}.clab.yml");
    if folder().join(&lab).exists() { lab } else { format!("{name}.yaml") }
}

/// A command of an example, and the texts of its output.
struct Step<'a> {
    command: &'a str,
    wanted: Vec<&'a str>,
}

/// The instructions in the first lines of an example.
struct Head<'a> {
    needs: Vec<&'a str>,
    before: Vec<&'a str>,
    steps: Vec<Step<'a>>,
    broken: (&'a str, &'a str),
}

impl<'a> Head<'a> {
    fn of(text: &'a str) -> Self {
        let lines = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let (mut needs, mut steps, mut broken) = (Vec::new(), Vec::<Step<'a>>::new(), None);
        let (mut before, mut is_before) = (Vec::new(), false);
        for line in lines {
            if let Some(list) = line.strip_prefix("Needs: ") {
                needs = list.trim_end_matches('.').split(", ").collect();
            } else if line.ends_with(':') {
                is_before = line == "Before:";
            } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_before) {
                before.push(command);
            } else if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step { command, wanted: Vec::new() });
            } else if let Some(text) = line.strip_prefix("> ") {
                steps.last_mut().expect("a command stands before its output").wanted.push(text);
            } else if let Some(change) = line.strip_prefix("Broken: ") {
                broken = change.split_once(" => ");
            }
        }
        assert!(steps.iter().any(|step| !step.wanted.is_empty()), "no output is expected");
        Self { needs, before, steps, broken: broken.expect("a variant that is broken") }
    }
}

/// Runs a command as a user types it, with `europa` for this node.
fn output(node: &Node, commands: &Path, command: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("timeout")
        .args(["60", "sh", "-c", command])
        .env("PATH", format!("{}:{path}", commands.display()))
        .env("EUROPA_INSTANCE", node.instance())
        .output()
        .expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// True if lines of `output` contain the wanted texts in this order, whatever the number of blanks.
fn contains(output: &str, wanted: &[&str]) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = output.lines().map(plain);
    wanted.iter().all(|text| lines.any(|line| line.contains(&plain(text))))
}

/// Runs the steps until all outputs are as expected. Returns the first command whose output is
/// still wrong after `patience`. `file` is the example's name.
fn attempt(file: &str, text: &str, steps: &[Step<'_>], patience: Duration) -> Result<(), String> {
    let node = Node::new(None);
    let commands = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(europa(), commands.path().join("europa")).expect("a link");
    let mut example = node.file(file, text);
    if file.ends_with(".clab.yml") {
        let documents = format!("{example}.yaml");
        let import = ["import", "containerlab", &example, "-o", &documents];
        let import = node.attempt(&import);
        if !import.status.success() {
            return Err(import.stderr);
        }
        example = documents;
    }
    let up = node.attempt(&["up", &example]);
    if !up.status.success() {
        return Err(up.stderr);
    }
    let begun = Instant::now();
    let result = steps.iter().try_for_each(|step| {
        loop {
            let told = output(&node, commands.path(), step.command);
            if contains(&told, &step.wanted) {
                return Ok(());
            }
            if begun.elapsed() > patience {
                return Err(format!("{}: wanted {:?}, got {told}", step.command, step.wanted));
            }
            sleep(Duration::from_millis(200));
        }
    });
    node.run(&["down"]);
    result
}

fn example_works(name: &str) {
    let file = file_of(&name.replace('_', "-"));
    let text = fs::read_to_string(folder().join(&file)).expect("an example");
    let head = Head::of(&text);
    if let Some(why) = missing(&head.needs) {
        skipped(&why);
        return;
    }
    // `make install` may not have been run.
    let sdk = root().join("sdk").canonicalize().expect("the SDK");
    let sdk = sdk.display().to_string();
    let text = text.replace("/usr/share/europa/sdk", &sdk);
    let built = europa().parent().expect("a folder").display().to_string();
    let text = text.replace("../../target/release", &built);
    // The node's folder has the lab, but not the lab's files.
    let text = text.replace("[containerlab/", &format!("[{}/containerlab/", folder().display()));
    let text = text.replace(", containerlab/", &format!(", {}/containerlab/", folder().display()));
    // The build of the tests already has the crates of the workspace.
    for command in head.before.iter().filter(|command| !command.starts_with("cargo ")) {
        let command = command.replace("/usr/share/europa/sdk", &sdk);
        let done = Command::new("sh").args(["-c", &command]).status().expect("a shell");
        assert!(done.success(), "{command}");
    }
    let begun = Instant::now();
    attempt(&file, &text, &head.steps, PATIENCE).unwrap_or_else(|why| panic!("{why}"));
    let took = begun.elapsed();

    let (comment, rest) = text.split_once("\n\n").expect("a blank line behind the first lines");
    let (old, new) = head.broken;
    assert!(comment.starts_with('#') && rest.contains(old), "'{old}' is not in the example");
    let broken = rest.replace(old, new);
    let broken = attempt(&file, &broken, &head.steps, took + Duration::from_secs(1));
    assert!(broken.is_err(), "no command notices that {old} is {new}");
}

/// The page of the gallery, this file and the folder name the same examples.
#[test]
fn every_example_of_the_gallery_is_tried_and_listed() {
    let entries = fs::read_dir(folder()).expect("the gallery").flatten();
    let example = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let name = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".clab.yml"))?;
        Some(name.to_owned())
    };
    let there: BTreeSet<String> = entries.filter_map(example).collect();
    let tried = NAMES.iter().map(|name| name.replace('_', "-")).collect();
    assert_eq!(there, tried);
    let page = fs::read_to_string(root().join("docs/gallery.md")).expect("the page");
    for name in &there {
        let file = file_of(name);
        let link = format!("(../examples/gallery/{file})");
        assert!(page.contains(&link), "{name} is not on the page");
        assert!(
            page.contains(&format!("(gallery/{name}.svg)")),
            "the page has no picture of {name}"
        );
        let path = format!("docs/gallery/{name}.svg");
        let picture = fs::read_to_string(root().join(&path)).expect("a drawing");
        // The first line says what the example is.
        let text = fs::read_to_string(folder().join(&file)).expect("an example");
        // Nodes, or hosts and routers, of the example are in the picture.
        let nodes = text.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(':'));
        for node in nodes.filter(|node| !node.starts_with(' ') && file.ends_with(".clab.yml")) {
            assert!(picture.contains(node), "{path} is old: it has no {node}");
        }
        for document in text.split("\n---\n") {
            let field = |field| document.lines().find_map(|line| line.strip_prefix(field));
            let drawn = matches!(field("kind: "), Some("host" | "router"));
            let object = field("name: ").filter(|_| drawn).unwrap_or(">");
            assert!(picture.contains(object), "{path} is old: it has no {object}");
        }
        let what = text.lines().map(|line| line.trim_start_matches('#').trim());
        let title = what
            .clone()
            .find_map(|line| line.split_once(": ").filter(|(word, _)| *word != "Needs"));
        let (title, _) = title.expect("a title");
        assert!(page.contains(title), "the page does not say '{title}'");
    }
}
