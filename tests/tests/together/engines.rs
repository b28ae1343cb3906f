//! Images in the stores of container engines: labs use them by name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use europa_tests::{Node, europa, skip_without};

use super::images::{await_true, image};

/// An engine with a store of its own in a folder, and the environment in which its program and
/// Europa find that store.
struct Engine {
    program: &'static str,
    environment: Vec<(&'static str, String)>,
    daemon: Option<Child>,
}

impl Engine {
    fn podman(folder: &Path) -> Self {
        let configuration = folder.join("storage.conf");
        let [run, graph] = ["run", "graph"].map(|name| folder.join(name));
        let text =
            format!("[storage]\ndriver = \"vfs\"\nrunroot = {run:?}\ngraphroot = {graph:?}\n");
        fs::write(&configuration, text).expect("a file");
        let value = configuration.display().to_string();
        Self {
            program: "podman",
            environment: vec![("CONTAINERS_STORAGE_CONF", value)],
            daemon: None,
        }
    }

    fn containerd(folder: &Path) -> Self {
        let socket = folder.join("socket");
        let daemon = Command::new("containerd")
            .arg("--root")
            .arg(folder.join("root"))
            .arg("--state")
            .arg(folder.join("state"))
            .arg("--address")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("containerd");
        let environment = vec![("CONTAINERD_ADDRESS", socket.display().to_string())];
        let engine = Self { program: "ctr", environment, daemon: Some(daemon) };
        await_true("containerd answers", || {
            engine.command("ctr").arg("version").output().is_ok_and(|done| done.status.success())
        });
        engine
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Gives the archive to the store, under the name `europa-engine:1`.
    fn load(&self, archive: &Path) {
        let words: &[&str] = match self.program {
            "ctr" => &["images", "import"],
            _ => &["load", "--input"],
        };
        let done = self.command(self.program).args(words).arg(archive).output().expect("a program");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A lab names an image, and a host runs the program that the engine's image holds.
fn a_lab_uses_the_store(engine: &Engine, folder: &Path) {
    let config = format!(
        r#"{{"Cmd": ["/bin/sleep", "1000"], "Env": ["PATH=/bin", "OF={}"]}}"#,
        engine.program
    );
    engine.load(&image(folder, &config));
    let lab = folder.join("lab.clab.yml");
    let text = "name: engine\ntopology:\n  nodes:\n    \
         a: {kind: linux, image: \"europa-engine:1\"}\n    \
         b: {kind: linux, image: \"europa-engine:1\"}\n  \
         links: [{endpoints: [\"a:eth1\", \"b:eth1\"]}]\n";
    fs::write(&lab, text).expect("a file");
    // Europa finds no other engine.
    let programs = folder.join("programs");
    fs::create_dir(&programs).expect("a folder");
    let which = Command::new("which").arg(engine.program).output().expect("which");
    let file = String::from_utf8(which.stdout).expect("a path");
    symlink(file.trim(), programs.join(engine.program)).expect("a link");
    let done = engine
        .command(europa())
        .env("PATH", &programs)
        .args(["import", "containerlab"])
        .arg(&lab)
        .output()
        .expect("europa");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains(&format!("from the store of {}", engine.program)), "{said}");
    let node = Node::new(None);
    node.up(&String::from_utf8(done.stdout).expect("documents"));
    for host in ["a", "b"] {
        let said = node.run(&["exec", host, "--", "sh", "-c", "echo $OF; cat /srv/index.html"]);
        assert_eq!(said, format!("{}\na page of the image\n", engine.program), "{host}");
    }
    let archives: Vec<_> = said_archives(&node);
    assert!(!archives.is_empty(), "no root is named");
    node.run(&["down"]);
    for archive in archives {
        fs::remove_file(archive).expect("an archive");
    }
}

/// The archives that hosts have as `root`.
fn said_archives(node: &Node) -> Vec<String> {
    let text = node.run(&["get", "hosts", "--yaml"]);
    let mut roots: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("root: "))
        .map(|root| root.trim_matches('"').to_string())
        .collect();
    roots.dedup();
    roots
}

#[test]
fn a_lab_uses_an_image_of_podman() {
    skip_without!("busybox", "podman");
    let folder = tempfile::tempdir().expect("a folder");
    a_lab_uses_the_store(&Engine::podman(folder.path()), folder.path());
}

#[test]
fn a_lab_uses_an_image_of_containerd() {
    skip_without!("busybox", "containerd", "ctr");
    let folder = tempfile::tempdir().expect("a folder");
    a_lab_uses_the_store(&Engine::containerd(folder.path()), folder.path());
}
