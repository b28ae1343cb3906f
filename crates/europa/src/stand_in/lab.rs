//! Deployed labs and their containers.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use europa_import::{Lab, LabNode, Object};
use europa_node::{Instance, host_namespace};
use europa_slowpath::environment::PATH;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::up::client;

/// The folder with notes about labs; no instance of a node has this name, because of the dot.
const LABS: &str = "/run/europa/.labs";
/// Linux's folder of names of network namespaces (ip-netns(8)).
const NAMES: &str = "/run/netns";
/// Time limit for the lines of a lab's nodes; after that `deploy` continues without them.
const PATIENCE: Duration = Duration::from_secs(60);

/// A lab that is deployed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Deployed {
    pub(crate) lab: Lab,
    /// The topology's file.
    pub(crate) topology: PathBuf,
    /// Seconds since 1970.
    pub(crate) since: u64,
}

/// A node of a lab, as a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container<'a> {
    pub(crate) deployed: &'a Deployed,
    pub(crate) node: &'a LabNode,
}

/// The user, the folder and the variables of a command in a container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) user: Option<String>,
    pub(crate) folder: Option<String>,
    /// `NAME=VALUE`.
    pub(crate) variables: Vec<String>,
}

fn file(lab: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '.' };
    Path::new(LABS).join(format!("{}.json", lab.chars().map(plain).collect::<String>()))
}

/// All labs, by name.
pub(crate) fn all() -> Vec<Deployed> {
    let entries = fs::read_dir(LABS).into_iter().flatten().flatten();
    let mut labs: Vec<Deployed> = entries
        .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
        .collect();
    labs.sort_by(|a: &Deployed, b| a.lab.name.cmp(&b.lab.name));
    labs
}

/// The lab of this name.
pub(crate) fn find(name: &str) -> Option<Deployed> {
    all().into_iter().find(|deployed| deployed.lab.name == name)
}

/// The containers of labs.
pub(crate) fn containers(labs: &[Deployed]) -> Vec<Container<'_>> {
    let all = labs.iter().flat_map(|deployed| {
        deployed.lab.nodes.iter().map(move |node| Container { deployed, node })
    });
    all.filter(|container| container.node.object != Object::None).collect()
}

/// The container with this name or beginning of an id; or with this node name, if only one lab has
/// it.
pub(crate) fn container<'a>(labs: &'a [Deployed], name: &str) -> Result<Container<'a>, Failure> {
    let all = containers(labs);
    let by_id = |one: &&Container<'_>| name.len() >= 4 && one.id().starts_with(name);
    if let Some(found) = all.iter().find(|one| one.name() == name).or(all.iter().find(by_id)) {
        return Ok(*found);
    }
    let mut own = all.iter().filter(|one| one.node.name == name);
    match (own.next(), own.next()) {
        (Some(found), None) => Ok(*found),
        (Some(_), Some(_)) => {
            Err(Failure::from(format!("several labs have a node {name}: write clab-LAB-{name}")))
        }
        _ => Err(Failure::from(format!(
            "No such container: {name} (`containerlab inspect --all` lists those that there are)"
        ))),
    }
}

/// The object for a node name of a lab on this instance.
pub(crate) fn object(instance: &Instance, name: &str) -> Option<Object> {
    let labs = all();
    let of = labs.iter().filter(|one| one.instance().is_ok_and(|one| one == *instance));
    let mut nodes = of.flat_map(|one| {
        one.lab
            .nodes
            .iter()
            .filter(move |node| node.name == name || one.lab.container(&node.name) == name)
    });
    nodes.next().map(|node| node.object.clone())
}

impl Deployed {
    /// A lab as of now.
    pub(crate) fn new(lab: Lab, topology: PathBuf) -> Deployed {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Deployed { lab, topology, since }
    }

    /// The node on which it runs.
    pub(crate) fn instance(&self) -> Result<Instance, Failure> {
        instance(&self.lab)
    }

    /// Writes it down.
    pub(crate) fn note(&self) -> Result<(), Failure> {
        fs::create_dir_all(LABS)?;
        let (path, text) = (file(&self.lab.name), serde_json::to_vec(self)?);
        let new = path.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Gives the network namespaces of the lab's containers the names that containerlab uses, for
    /// `ip netns exec clab-LAB-NODE`.
    pub(crate) fn name_namespaces(&self) -> Result<(), Failure> {
        let instance = self.instance()?;
        for one in containers(std::slice::from_ref(self)) {
            let path = Path::new(NAMES).join(one.name());
            let Some(target) = one.namespace(&instance) else { continue };
            let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
            if is_link {
                fs::remove_file(&path)?;
            }
            symlink(target, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Deletes the note, and the names of the namespaces.
    pub(crate) fn forget(&self) {
        for one in containers(std::slice::from_ref(self)) {
            let path = Path::new(NAMES).join(one.name());
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
                let _ = fs::remove_file(path);
            }
        }
        let _ = fs::remove_file(file(&self.lab.name));
        // This fails as long as other labs exist.
        let _ = fs::remove_dir(LABS);
    }

    /// Waits until FRR runs and the lines of all nodes have ended. Returns the containers whose
    /// lines have not ended.
    pub(crate) fn settle(&self) -> Result<Vec<String>, Failure> {
        let instance = self.instance()?;
        let limit = Instant::now() + PATIENCE;
        let mut late = Vec::new();
        for one in containers(std::slice::from_ref(self)) {
            while !one.is_settled(&instance)? {
                if Instant::now() > limit {
                    late.push(one.name());
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(late)
    }
}

/// The node for a lab.
pub(crate) fn instance(lab: &Lab) -> Result<Instance, Failure> {
    // The slice's name has only plain characters, at most 32.
    let name: String = format!("clab-{}", lab.slice).chars().take(32).collect();
    Ok(Instance::new(name.trim_end_matches('-'))?)
}

impl Container<'_> {
    /// Its name as a container.
    pub(crate) fn name(&self) -> String {
        self.deployed.lab.container(&self.node.name)
    }

    /// Sixty-four digits that no other container has.
    pub(crate) fn id(&self) -> String {
        let digits = (0_u8..4).map(|part| {
            let mut hasher = DefaultHasher::new();
            (part, self.name(), self.deployed.since).hash(&mut hasher);
            format!("{:016x}", hasher.finish())
        });
        digits.collect()
    }

    /// Whether its lab's node runs.
    pub(crate) fn is_running(&self) -> bool {
        self.deployed.instance().is_ok_and(|instance| client(&instance).look().unwrap_or(false))
    }

    /// The labels that containerlab sets.
    pub(crate) fn labels(&self) -> Vec<(&'static str, String)> {
        let Deployed { lab, topology, .. } = self.deployed;
        vec![
            ("containerlab", lab.name.clone()),
            ("clab-node-kind", self.node.kind.clone()),
            ("clab-node-name", self.node.name.clone()),
            ("clab-node-longname", self.name()),
            ("clab-node-type", String::new()),
            ("clab-node-group", String::new()),
            ("clab-topo-file", topology.display().to_string()),
        ]
    }

    /// The object's name for `europa exec` and `europa logs`.
    pub(crate) fn target(&self) -> &str {
        match &self.node.object {
            Object::Host(name) | Object::Router(name) => name,
            Object::None => "",
        }
    }

    fn namespace(&self, instance: &Instance) -> Option<PathBuf> {
        match &self.node.object {
            Object::Host(name) => host_namespace(instance, name),
            Object::Router(name) => {
                let (slice, router) = name.split_once('/')?;
                let name = europa_slowpath::namespace::name(instance.name(), slice, router);
                Some(Path::new(NAMES).join(name))
            }
            Object::None => None,
        }
    }

    /// The pid of the container's first process, as the machine sees it.
    pub(crate) fn pid(&self) -> Option<u32> {
        let instance = self.deployed.instance().ok()?;
        let folder = match &self.node.object {
            Object::Host(name) => europa_host::folder(&instance.directory(), name),
            Object::Router(name) => {
                europa_slowpath::environment::folder(&instance.directory(), name)
            }
            Object::None => return None,
        };
        europa_slowpath::init::First::read(&folder).ok().map(|first| first.pid)
    }

    fn is_settled(&self, instance: &Instance) -> Result<bool, Failure> {
        match &self.node.object {
            Object::Host(name) if self.node.runs => {
                Ok(europa_host::folder(&instance.directory(), name).join("ended").exists())
            }
            Object::Router(_) => {
                let file = if self.node.runs { "/run/frr/lines" } else { "/run/frr/started" };
                let mut look = self.command(&["test".into(), "-e".into(), file.into()])?;
                Ok(look.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
            }
            _ => Ok(true),
        }
    }

    /// A command to run inside the container: `europa exec`.
    pub(crate) fn command(&self, words: &[String]) -> Result<Command, Failure> {
        let instance = self.deployed.instance()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("europa").args(["--instance", instance.name(), "exec", self.target(), "--"]);
        command.args(words).stdin(Stdio::null());
        Ok(command)
    }

    /// The words of a command with the variables, folder and user of a container.
    pub(crate) fn dressed(&self, words: &[String], around: &Surroundings) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        if let Some(user) = around.user.as_deref().filter(|user| !is_root(user)) {
            let script = "u=${0%%:*}; g=${0#*:}; [ \"$u\" != \"$0\" ] || g=$(id -g \"$u\" 2>/dev/null \
                 || echo 0); exec setpriv --reuid=\"$u\" --regid=\"$g\" --clear-groups -- \"$@\"";
            all.extend(["sh", "-c", script, user].map(str::to_owned));
        }
        all.extend(["env", "-i", "-C", around.folder.as_deref().unwrap_or("/")].map(str::to_owned));
        let own = [
            format!("PATH={PATH}"),
            "HOME=/root".to_owned(),
            "LANG=C.UTF-8".to_owned(),
            format!("HOSTNAME={}", self.node.name),
        ];
        all.extend(own);
        all.extend(std::env::var("TERM").ok().map(|kind| format!("TERM={kind}")));
        all.extend(self.node.env.iter().map(|(name, value)| format!("{name}={value}")));
        all.extend(around.variables.iter().cloned());
        all.extend(words.iter().cloned());
        all
    }
}

fn is_root(user: &str) -> bool {
    matches!(user, "" | "root" | "0" | "root:root" | "0:0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(name: &str, prefix: &str) -> Deployed {
        let node = |name: &str, object| LabNode { name: name.into(), object, ..LabNode::default() };
        let nodes = vec![
            node("p_global", Object::Router("lab/p-global".into())),
            node("h1", Object::Host("h1".into())),
            node("br", Object::None),
        ];
        let (name, prefix) = (name.to_owned(), prefix.to_owned());
        let lab = Lab { slice: name.replace('_', "-"), name, prefix, nodes };
        Deployed { lab, topology: "/t/lab.clab.yml".into(), since: 1 }
    }

    #[test]
    fn containers_have_names_of_their_own() {
        let labs = [lab("my_lab", "clab"), lab("other", "")];
        let find = |name: &str| container(&labs, name).map(|one| one.target().to_owned()).ok();
        assert_eq!(find("clab-my_lab-p_global").as_deref(), Some("lab/p-global"));
        assert_eq!(find("h1").as_deref(), Some("h1"), "that of the lab without a prefix");
        assert_eq!(find("br"), None, "a bridge runs no programs");
        let first = containers(&labs)[0];
        assert_eq!((first.id().len(), find(&first.id()[..12])), (64, Some("lab/p-global".into())));
        assert_eq!(containers(&labs).len(), 4);
        let twice = [lab("one", "clab"), lab("two", "clab")];
        assert!(container(&twice, "h1").is_err());
        assert_eq!(instance(&labs[0].lab).unwrap().name(), "clab-my-lab");
    }

    #[test]
    fn a_command_has_what_a_container_gives() {
        let labs = [lab("l", "clab")];
        let one = container(&labs, "clab-l-h1").unwrap();
        let words = one.dressed(&["id".to_owned()], &Surroundings::default());
        assert_eq!(words[..4], ["env", "-i", "-C", "/"]);
        assert!(words.contains(&"HOSTNAME=h1".to_owned()), "{words:?}");
        assert_eq!(words.last().map(String::as_str), Some("id"));
        let around = Surroundings {
            user: Some("frr".into()),
            folder: Some("/tmp".into()),
            variables: vec!["A=b c".into()],
        };
        let words = one.dressed(&["id".to_owned()], &around);
        assert_eq!((words[0].as_str(), words[3].as_str()), ("sh", "frr"));
        assert!(words.contains(&"A=b c".to_owned()) && words.contains(&"/tmp".to_owned()));
    }
}
