//! A router's slow path: its own Linux, and its programs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, word};
use crate::problem::Problem;
use crate::source::At;
use crate::tree::{Node, Value};
use crate::values::Name;

/// A router's own Linux: a network namespace with the router's interfaces. Linux gets the packets
/// that the fast path cannot handle, and the fast path follows Linux's routes and neighbours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SlowPath {
    /// Files for the slow path's programs. Each hides the machine's directory of the same path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<File>>")]
    pub files: Vec<At<File>>,
    /// Programs that run in the slow path as long as the router runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Daemon>>")]
    pub run: Vec<At<Daemon>>,
    /// Whether the slow path has a device `uplink`: connections that its programs open leave by it
    /// with the machine's addresses. The router forwards no packets over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub uplink: Option<At<bool>>,
    /// The root directory of the slow path's programs: a folder of the machine, `/` for the
    /// machine's own files, or a container image, as an OCI layout or an archive of `docker save`.
    /// Programs may write everywhere. The folder stays unchanged, and written files are deleted
    /// with the slow path. Default: the machine's files, read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub root: Option<At<String>>,
}

impl SlowPath {
    /// Whether it has an uplink.
    pub fn has_uplink(&self) -> bool {
        self.uplink.is_some_and(|uplink| uplink.value)
    }
}

/// A file, or a directory if the path ends with a slash.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct File {
    /// The file's absolute path for programs. Other files of the same directory are hidden, except
    /// in `/run`, `/tmp` and `/var/log`, which belong to the router.
    pub path: At<String>,
    /// Its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<At<String>>,
    /// A file to copy, relative to the YAML file's folder. A node stores its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<At<String>>,
    /// The file's owner; its group is the owner's group. Default: root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<At<String>>,
    /// The file's permissions, in octal digits. Default: 0644, for a directory 0755.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<At<String>>,
}

/// A program that runs in the slow path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Daemon {
    /// The name of its log.
    pub name: At<Name>,
    /// Program and arguments. The program must stay in the foreground.
    pub command: Vec<At<String>>,
    /// The action when it ends.
    #[schemars(with = "Option<Restart>")]
    pub restart: Restart,
    /// Capabilities that the program keeps in addition to those of every program in a slow path,
    /// such as `sys_admin` for FRR.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub capabilities: Vec<At<String>>,
    /// Programs of this list that the program needs: it starts after them, and restarts with them.
    /// Default: FRR's daemons need zebra if it is in the list; others need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    pub needs: Option<Vec<At<Name>>>,
    /// How the program reloads its files. Default: `frr-reload.py` for FRR's daemons, `birdc` for
    /// BIRD, a restart for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Reload>")]
    pub reload: Option<At<Reload>>,
    /// Paths of `files` whose change makes the program reload. Default: files that its command
    /// names, and files that those files name. A file that no program names makes all programs
    /// reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    pub reload_on: Option<Vec<At<String>>>,
}

/// How a program reloads its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reload {
    /// A signal, like `HUP`.
    Signal(String),
    /// Program and arguments, which must end with code 0.
    Command(Vec<String>),
}

/// Signals that may reload a program.
const RELOAD_SIGNALS: [&str; 6] = ["HUP", "INT", "QUIT", "USR1", "USR2", "WINCH"];

/// The action when a program ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Restart the program, with growing delays if it keeps ending.
    #[default]
    Always,
    /// Restart it if it failed.
    OnFailure,
    /// Do not restart it.
    Never,
}

impl Decode for SlowPath {
    fn decode(node: &Node, context: &mut Context) -> Option<SlowPath> {
        let mut fields = Fields::open(node, "a slow path", context)?;
        let slow_path = SlowPath {
            files: fields.list("files"),
            run: fields.list("run"),
            // `false` is the same as nothing.
            uplink: fields.optional("uplink").filter(|uplink: &At<bool>| uplink.value),
            root: fields.optional("root"),
        };
        check_root(slow_path.root.as_ref(), fields.context);
        let mut names: Vec<&At<Name>> = Vec::new();
        for daemon in &slow_path.run {
            if let Some(first) = names.iter().find(|name| name.value == daemon.name.value) {
                let message = format!("there are two programs {:?}", daemon.name.to_string());
                let problem = Problem::new(daemon.name.place, message)
                    .label("the second")
                    .also(first.place, "the first");
                fields.context.report(problem);
            }
            names.push(&daemon.name);
        }
        check_needs(&slow_path.run, fields.context);
        check_reload_on(&slow_path, fields.context);
        let mut files: Vec<&At<File>> = Vec::new();
        for file in &slow_path.files {
            let path = file.path.trim_end_matches('/');
            if let Some(first) = files.iter().find(|f| f.path.trim_end_matches('/') == path) {
                let message = format!("there are two files {path}");
                let problem = Problem::new(file.path.place, message)
                    .label("the second")
                    .also(first.path.place, "the first");
                fields.context.report(problem);
            }
            files.push(file);
        }
        for file in &slow_path.files {
            // Each path above a file must be a directory.
            let above = |other: &&&At<File>| {
                !other.path.ends_with('/')
                    && file
                        .path
                        .strip_prefix(&*other.path.value)
                        .is_some_and(|r| r.starts_with('/'))
            };
            if let Some(other) = files.iter().find(above) {
                let message = format!("{} is no directory", &*other.path.value);
                let problem = Problem::new(file.path.place, message)
                    .label("cannot be in a file")
                    .also(other.path.place, "the file");
                fields.context.report(problem);
            }
        }
        fields.close();
        Some(slow_path)
    }
}

impl Decode for File {
    fn decode(node: &Node, context: &mut Context) -> Option<File> {
        let mut fields = Fields::open(node, "a file", context)?;
        let path: Option<At<String>> = fields.required("path");
        let text: Option<At<String>> = fields.optional("text");
        let from: Option<At<String>> = fields.optional("from");
        let owner = fields.optional("owner");
        let mode: Option<At<String>> = fields.optional("mode");
        if let Some(path) = &path {
            let plain = |part: &str| !matches!(part, "." | "..");
            if !path.starts_with('/') || path.len() < 2 || !path.split('/').all(plain) {
                let problem =
                    Problem::new(path.place, "a file's path begins with `/`, without `..`")
                        .label("not an absolute path");
                fields.context.report(problem);
            }
            let kernels = ["/proc/", "/sys/", "/dev/"];
            if let Some(top) = kernels.iter().find(|top| path.starts_with(**top)) {
                let problem = Problem::new(path.place, format!("{top} is the kernel's"))
                    .label("no file can be put there")
                    .help("put it below /run, which is the router's own");
                fields.context.report(problem);
            }
            if let (true, Some(text)) = (path.ends_with('/'), text.as_ref().or(from.as_ref())) {
                let problem = Problem::new(text.place, "a directory has no text")
                    .label("has no place")
                    .also(path.place, "the slash at its end says that it is a directory");
                fields.context.report(problem);
            }
        }
        if let (Some(text), Some(from)) = (&text, &from) {
            let problem = Problem::new(from.place, "a file has one text")
                .label("another one")
                .also(text.place, "its text");
            fields.context.report(problem);
        }
        if let Some(mode) = &mode
            && u32::from_str_radix(mode, 8).map_or(true, |mode| mode > 0o7777)
        {
            let problem = Problem::new(mode.place, "permissions are octal digits like \"0644\"")
                .label("no permissions");
            fields.context.report(problem);
        }
        fields.close();
        Some(File { path: path?, text, from, owner, mode })
    }
}

impl Decode for Daemon {
    fn decode(node: &Node, context: &mut Context) -> Option<Daemon> {
        let mut fields = Fields::open(node, "a program", context)?;
        let name = fields.required("name");
        let command: Option<Vec<At<String>>> = fields.required("command");
        if let Some(program) = command.as_ref().and_then(|words| words.first())
            && !program.starts_with('/')
            && (program.is_empty() || program.contains('/'))
        {
            let message = "a program is a name or an absolute path";
            let problem = Problem::new(program.place, message).label("neither");
            fields.context.report(problem);
        }
        let restart = fields.optional("restart").unwrap_or_default();
        let capabilities = fields.list("capabilities");
        if command.as_ref().is_some_and(Vec::is_empty) {
            let problem = Problem::new(fields.place(), "`command` is empty").label("no program");
            fields.context.report(problem);
        }
        let needs: Option<Vec<At<Name>>> = fields.optional("needs");
        let reload = fields.optional("reload");
        let reload_on = fields.optional("reload_on");
        fields.close();
        Some(Daemon {
            name: name?,
            command: command?,
            restart,
            capabilities,
            needs,
            reload,
            reload_on,
        })
    }
}

impl Decode for Reload {
    fn decode(node: &Node, context: &mut Context) -> Option<Reload> {
        match &node.value {
            Value::List(_) => {
                let words = Vec::<String>::decode(node, context)?;
                if words.is_empty() {
                    let problem = Problem::new(context.place(node), "`reload` is empty")
                        .label("neither a command nor a signal");
                    context.report(problem);
                    return None;
                }
                Some(Reload::Command(words))
            }
            Value::Text(text) => {
                let name = text.to_uppercase();
                let name = name.strip_prefix("SIG").unwrap_or(&name);
                if RELOAD_SIGNALS.contains(&name) {
                    return Some(Reload::Signal(name.to_owned()));
                }
                let problem = Problem::new(
                    context.place(node),
                    format!("{text:?} is no signal that reloads"),
                )
                .label("not a signal")
                .help(format!(
                    "one of {}; a command is a list: [birdc, configure]",
                    RELOAD_SIGNALS.join(", ")
                ));
                context.report(problem);
                None
            }
            _ => {
                context.wrong_type(node, "a command (a list) or the name of a signal");
                None
            }
        }
    }
}

/// Reports a root directory that is not an absolute path.
pub(crate) fn check_root(root: Option<&At<String>>, context: &mut Context) {
    let upward = |path: &str| path.split('/').any(|part| part == "..");
    if let Some(root) = root.filter(|root| !root.starts_with('/') || upward(root)) {
        let problem = Problem::new(root.place, "a root directory begins with `/`, without `..`")
            .label("not an absolute path");
        context.report(problem);
    }
}

/// Reports needs that no program meets, and programs that need each other.
fn check_needs(run: &[At<Daemon>], context: &mut Context) {
    let find = |name: &Name| run.iter().find(|other| other.name.value == *name);
    let mut is_known = true;
    for need in run.iter().flat_map(|daemon| daemon.needs.iter().flatten()) {
        if find(need).is_none() {
            is_known = false;
            let problem = Problem::new(need.place, format!("there is no program {need}"))
                .label("not in this list");
            context.report(problem);
        }
    }
    // Each round removes the programs that need none of the remaining ones.
    let mut left: Vec<&At<Daemon>> = run.iter().collect();
    while is_known && !left.is_empty() {
        let waits = |daemon: &&At<Daemon>| {
            let mut needs = daemon.needs.iter().flatten();
            needs.any(|need| left.iter().any(|other| other.name.value == need.value))
        };
        let waiting: Vec<&At<Daemon>> = left.iter().copied().filter(waits).collect();
        if waiting.len() == left.len() {
            let names: Vec<String> = left.iter().map(|daemon| daemon.name.to_string()).collect();
            let place = left.first().map_or(Default::default(), |daemon| daemon.name.place);
            let message = format!("programs need each other: {}", names.join(", "));
            context.report(Problem::new(place, message).label("could never be started"));
            return;
        }
        left = waiting;
    }
}

/// Reports paths of `reload_on` that are no files of this slow path.
fn check_reload_on(slow_path: &SlowPath, context: &mut Context) {
    for path in slow_path.run.iter().flat_map(|daemon| daemon.reload_on.iter().flatten()) {
        if !slow_path.files.iter().any(|file| *file.path.value == *path.value) {
            let problem = Problem::new(path.place, format!("{} is not in `files`", path.value))
                .label("never changes");
            context.report(problem);
        }
    }
}

impl Decode for Restart {
    fn decode(node: &Node, context: &mut Context) -> Option<Restart> {
        let words = [
            ("always", Restart::Always),
            ("on-failure", Restart::OnFailure),
            ("never", Restart::Never),
        ];
        word(node, context, "a way to restart", &words)
    }
}
