//! The commands `containerlab` and `docker` that Europa stands in for, on a lab with real pings.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use europa_tests::{Output, Process, europa, run, skip_without, skipped};

/// A lab in a folder of its own, driven by the links of `europa clab install`; destroyed at the end.
struct Lab {
    folder: tempfile::TempDir,
    name: String,
}

impl Lab {
    fn new(name: &str, topology: &str) -> Lab {
        let folder = tempfile::tempdir().expect("a folder");
        let name = format!("{name}{}", std::process::id());
        let lab = Lab { folder, name };
        let links = lab.path("bin");
        let said = run(&[&europa().to_string_lossy(), "clab", "install", &links]).expect("europa");
        assert!(said.status.success(), "{}", said.stderr);
        lab.file("lab.clab.yml", &format!("name: {}\n{topology}", lab.name));
        lab
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Runs `containerlab` or `docker`, which may fail.
    fn attempt(&self, command: &str, words: &[&str]) -> Output {
        let program = self.path(&format!("bin/{command}"));
        let running = Process::start(&[&[&*program], words].concat()).expect("it starts");
        running.wait(Duration::from_secs(120)).expect("it ends")
    }

    /// Runs `containerlab` or `docker`, and returns its output.
    fn run(&self, command: &str, words: &[&str]) -> String {
        let said = self.attempt(command, words);
        assert!(said.status.success(), "{command} {words:?}: {}{}", said.stdout, said.stderr);
        said.stdout
    }

    fn deploy(&self) -> String {
        self.run("containerlab", &["deploy", "-t", &self.path("lab.clab.yml")])
    }

    /// The name of a node's container.
    fn container(&self, node: &str) -> String {
        format!("clab-{}-{node}", self.name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let topology = self.path("lab.clab.yml");
        let _ = self.attempt("containerlab", &["destroy", "--cleanup", "-t", &topology]);
    }
}

#[test]
fn a_lab_is_driven_by_the_commands_of_containerlab_and_docker() {
    skip_without!("ping", "setpriv");
    let lab = Lab::new(
        "std",
        "topology:\n  nodes:\n\
         \x20   h_1:\n      kind: linux\n      image: alpine:3.20\n      env: {WORD: 007}\n\
         \x20     binds: [hosts:/etc/hosts, go.sh:/etc/config/go.sh]\n\
         \x20     exec:\n        - ip addr add 10.9.0.1/24 dev eth1\n        - if\n        - sh -c 'echo $$WORD > /ran'\n\
         \x20   h2: {kind: linux, exec: [ip addr add 10.9.0.2/24 dev eth1]}\n\
         \x20   alone: {kind: linux, exec: [ip addr add 10.8.0.1/24 dev eth1]}\n\
         \x20 links:\n    - endpoints: [h_1:eth1, h2:eth1]\n\
         \x20   - {type: dummy, endpoint: {node: alone, interface: eth1}}\n",
    );
    lab.file("hosts", "192.0.2.7 of-the-lab\n");
    lab.file("go.sh", "#!/bin/sh\necho went $1\n");
    let script = lab.folder.path().join("go.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("rights");

    let table = lab.deploy();
    let (h1, h2) = (lab.container("h_1"), lab.container("h2"));
    assert!(table.contains(&h1) && table.contains("running"), "{table}");
    let again = lab.attempt("containerlab", &["deploy", "-t", &lab.path("lab.clab.yml")]);
    assert!(again.stderr.contains("already been deployed"), "{}", again.stderr);

    // Commands have their exit code and environment, and input only on request.
    let ping = lab.run("docker", &["exec", &h1, "ping", "-c", "1", "-W", "3", "10.9.0.2"]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    for (words, wanted) in [
        (&["exec", &h1, "cat", "/ran"][..], "007\n"),
        (&["exec", &h1, "getent", "hosts", "of-the-lab"], "192.0.2.7       of-the-lab\n"),
        (&["exec", &h1, "/etc/config/go.sh", "far"], "went far\n"),
        (&["exec", "-w", "/tmp", "-e", "A=b c", &h1, "sh", "-c", "echo $PWD $A"], "/tmp b c\n"),
        (&["exec", "-u", "nobody", &h1, "id", "-un"], "nobody\n"),
        (&["exec", &h1, "cat"], ""),
    ] {
        assert_eq!(lab.run("docker", words), wanted, "{words:?}");
    }
    let addresses =
        lab.run("docker", &["exec", &lab.container("alone"), "ip", "addr", "show", "eth1"]);
    assert!(addresses.contains("10.8.0.1/24") && addresses.contains("UP"), "{addresses}");
    assert_eq!(lab.attempt("docker", &["exec", &h1, "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(lab.attempt("docker", &["exec", &h1, "no-such"]).status.code(), Some(127));
    let missing = lab.attempt("docker", &["exec", "nobody-there", "true"]);
    assert!(missing.stderr.contains("No such container: nobody-there"), "{}", missing.stderr);
    // The namespace has containerlab's name.
    let inside = run(&["ip", "netns", "exec", &h2, "ip", "addr"]).expect("ip ends").stdout;
    assert!(inside.contains("10.9.0.2/24"), "{inside}");
    // The log names a line that the shell does not understand, and the next line has run.
    let told = lab.run("docker", &["logs", &h1]);
    assert!(told.contains("failed: if"), "{told}");

    copies(&lab, &h1);
    lists(&lab, &h1, &h2);

    let destroyed = lab.attempt("containerlab", &["destroy", "-t", &lab.path("lab.clab.yml")]);
    assert!(destroyed.status.success(), "{}", destroyed.stderr);
    assert!(!Path::new("/run/netns").join(&h1).exists(), "the name goes with the lab");
    assert!(!lab.run("docker", &["ps", "-a", "--format", "{{.Names}}"]).contains(&h1));
    assert!(!Path::new("/run/europa").join(format!("clab-{}", lab.name)).exists());
}

/// Copies files and folders into a container and back.
fn copies(lab: &Lab, container: &str) {
    lab.file("out/a/one", "one\n");
    symlink("one", lab.path("out/a/link")).expect("a link");
    lab.file("script", "#!/bin/sh\necho copied\n");
    fs::set_permissions(lab.path("script"), fs::Permissions::from_mode(0o755)).expect("rights");
    let inside = |path: &str| format!("{container}:{path}");
    lab.run("docker", &["cp", "-q", &lab.path("script"), &inside("/root/s")]);
    assert_eq!(lab.run("docker", &["exec", container, "/root/s"]), "copied\n");
    lab.run("docker", &["cp", &lab.path("script"), &inside("/opt")]);
    assert_eq!(lab.run("docker", &["exec", container, "/opt/script"]), "copied\n");
    lab.run("docker", &["cp", &lab.path("out"), &inside("/opt/new")]);
    assert_eq!(lab.run("docker", &["exec", container, "cat", "/opt/new/a/link"]), "one\n");
    lab.run("docker", &["cp", &inside("/opt/new"), &lab.path("back")]);
    assert_eq!(fs::read_to_string(lab.path("back/a/one")).expect("a file"), "one\n");
    lab.run("docker", &["cp", &inside("/root/s"), &lab.path("s")]);
    let mode = fs::metadata(lab.path("s")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let missing = lab.attempt("docker", &["cp", &inside("/nowhere"), &lab.path("x")]);
    assert!(missing.stderr.contains("Could not find the file /nowhere"), "{}", missing.stderr);
    assert!(!Path::new("/opt/new").exists() && !Path::new("/root/s").exists(), "not here");
}

/// Checks the output of `ps` and of both `inspect`.
fn lists(lab: &Lab, h1: &str, h2: &str) {
    let label = format!("label=containerlab={}", lab.name);
    let names = lab.run("docker", &["ps", "--filter", &label, "--format", "{{.Names}}"]);
    assert!(names.contains(h1) && names.contains(h2) && names.lines().count() == 3, "{names}");
    let node = ["ps", "-q", "--filter", &label, "--filter", "label=clab-node-name=h_1"];
    assert_eq!(lab.run("docker", &node).trim().len(), 12);
    let json = lab.run("docker", &["ps", "--format", "json", "--filter", &format!("name={h1}")]);
    let row: serde_json::Value = serde_json::from_str(json.trim()).expect("one line of JSON");
    assert_eq!((row["Names"].as_str(), row["Image"].as_str()), (Some(h1), Some("alpine:3.20")));
    assert!(row["Status"].as_str().is_some_and(|status| status.starts_with("Up ")), "{row}");
    let pid = lab.run("docker", &["inspect", "-f", "{{.State.Pid}}", h1]);
    let net = format!("/proc/{}/ns/net", pid.trim());
    let same = fs::read_link(net).expect("its first process runs");
    let by_name = run(&["ip", "netns", "exec", h1, "readlink", "/proc/self/ns/net"]).expect("ip");
    assert_eq!(same.to_string_lossy(), by_name.stdout.trim());
    let inspected = lab.run("containerlab", &["inspect", "--name", &lab.name, "-f", "json"]);
    let value: serde_json::Value = serde_json::from_str(&inspected).expect("JSON");
    assert_eq!(value[&lab.name].as_array().map(Vec::len), Some(3));
    assert_eq!(value[&lab.name][0]["state"], "running");
    let done = lab.run(
        "containerlab",
        &[
            "exec",
            "--name",
            &lab.name,
            "--label",
            "clab-node-name=h2",
            "--cmd",
            "echo 'a b'",
            "-f",
            "json",
        ],
    );
    let value: serde_json::Value = serde_json::from_str(&done).expect("JSON");
    assert_eq!(value[h2][0]["stdout"], "a b\n");
    let refused = lab.attempt("docker", &["pull", "alpine"]);
    assert!(refused.stderr.contains("images are not run"), "{}", refused.stderr);
}

#[test]
fn a_router_has_files_of_the_lab_where_this_machine_has_no_folder() {
    skip_without!("vtysh");
    if !Path::new("/usr/lib/frr/frrinit.sh").exists() {
        skipped("FRR is not installed");
        return;
    }
    let lab = Lab::new(
        "stf",
        "topology:\n  nodes:\n\
         \x20   p_global:\n      kind: linux\n      image: quay.io/frrouting/frr:10.5.3\n\
         \x20     binds: [daemons:/etc/frr/daemons, 01.sh:/etc/config/01.sh:ro, x.sh:/scripts/x.sh]\n\
         \x20     exec: [vtysh -c 'show version', if, touch /etc/after]\n\
         \x20 links:\n    - {type: dummy, endpoint: {node: p_global, interface: eth1}}\n",
    );
    lab.file("daemons", "ripd=yes\nvtysh_enable=yes\nfrr_profile=\"datacenter\"\n");
    lab.file("01.sh", "#!/usr/bin/vtysh -f\ninterface eth1\n ip address 10.7.0.1/24\n!\n");
    lab.file(
        "x.sh",
        "#!/bin/bash\necho x > /root/.profile-of-x\necho y >> /etc/hosts\ncat /etc/hosts\n",
    );
    for name in ["01.sh", "x.sh"] {
        fs::set_permissions(lab.path(name), fs::Permissions::from_mode(0o755)).expect("rights");
    }
    let before = fs::read("/etc/hosts").expect("a file");
    lab.deploy();
    let router = lab.container("p_global");
    lab.run("docker", &["exec", &router, "/etc/config/01.sh"]);
    let addresses = lab.run("docker", &["exec", "p_global", "ip", "-br", "addr", "show", "eth1"]);
    assert!(addresses.contains("10.7.0.1/24"), "{addresses}");
    assert!(lab.run("docker", &["exec", &router, "/scripts/x.sh"]).ends_with("y\n"));
    lab.run("docker", &["exec", &router, "test", "-e", "/etc/after"]);
    let told = lab.run("docker", &["logs", &router]);
    assert!(told.contains("FRRouting") && told.contains("failed: if"), "{told}");
    let instance = format!("clab-{}", lab.name);
    let program = europa();
    let program = program.to_string_lossy();
    let by_name =
        run(&[&program, "--instance", &instance, "exec", "p_global", "--", "ls", "/scripts"]);
    assert_eq!(by_name.expect("europa ends").stdout, "x.sh\n");
    assert_eq!(fs::read("/etc/hosts").expect("a file"), before);
    assert!(!Path::new("/etc/after").exists() && !Path::new("/scripts").exists());
}
