//! Container images as root directories of hosts and slow paths.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// The program BusyBox, which needs no libraries.
const BUSYBOX: &str = "/bin/busybox";

fn header(kind: EntryType, size: usize, mode: u32, user: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(mode);
    header.set_uid(user);
    header.set_gid(user);
    header
}

/// A layer with BusyBox, two users and a web page.
fn layer() -> Vec<u8> {
    let mut layer = Builder::new(Vec::new());
    let busybox = fs::read(BUSYBOX).expect("busybox");
    for (path, bytes, mode, user) in [
        ("bin/busybox", &busybox[..], 0o755, 0),
        ("etc/passwd", b"root:x:0:0::/root:/bin/sh\nweb:x:200:201::/srv:/bin/sh\n", 0o644, 0),
        ("etc/group", b"root:x:0:\nweb:x:201:\n", 0o644, 0),
        ("etc/secret", b"of the image's root\n", 0o600, 0),
        ("srv/index.html", b"a page of the image\n", 0o640, 200),
    ] {
        let mut header = header(EntryType::Regular, bytes.len(), mode, user);
        layer.append_data(&mut header, path, bytes).expect("a file");
    }
    for folder in ["root", "run", "tmp", "var/log", "var/tmp"] {
        let mut header = header(EntryType::Directory, 0, 0o755, 0);
        layer.append_data(&mut header, folder, &[][..]).expect("a folder");
    }
    for applet in ["sh", "cat", "id", "touch", "stat", "pwd", "httpd", "wget", "sleep", "ip"] {
        let mut header = header(EntryType::Symlink, 0, 0o777, 0);
        layer.append_link(&mut header, format!("bin/{applet}"), "busybox").expect("a link");
    }
    layer.into_inner().expect("a layer")
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes an archive as `docker save` does; `config` is the configuration of its programs.
pub(super) fn image(folder: &Path, config: &str) -> PathBuf {
    let layer = layer();
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = format!(
        r#"{{"architecture": "{arch}", "os": "linux", "config": {config}, "rootfs": {{"diff_ids": ["sha256:{}"]}}}}"#,
        digest(&layer)
    );
    let manifest =
        r#"[{"Config": "c.json", "RepoTags": ["europa-engine:1"], "Layers": ["l/layer.tar"]}]"#;
    let mut archive = Builder::new(Vec::new());
    for (path, bytes) in [
        ("manifest.json", manifest.as_bytes()),
        ("c.json", config.as_bytes()),
        ("l/layer.tar", &layer),
    ] {
        let mut header = header(EntryType::Regular, bytes.len(), 0o644, 0);
        archive.append_data(&mut header, path, bytes).expect("a file");
    }
    let path = folder.join("image.tar");
    fs::write(&path, archive.into_inner().expect("an archive")).expect("a file");
    path
}

pub(super) fn await_true(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(15), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A web server as the image's own user, in the image's folder.
const WEB: &str = r#"{"Entrypoint": ["busybox", "httpd"], "Cmd": ["-f", "-p", "8080"],
    "Env": ["PATH=/bin", "OF_IMAGE=yes"], "User": "web", "WorkingDir": "/srv"}"#;

fn inside(node: &Node, name: &str, words: &[&str]) -> String {
    let done = node.attempt(&[&["exec", name, "--"], words].concat());
    done.stdout + &done.stderr
}

#[test]
fn hosts_and_slow_paths_run_images() {
    skip_without!("busybox");
    let folder = tempfile::tempdir().expect("a folder");
    let path = image(folder.path(), WEB);
    let path = path.display();
    let node = Node::new(None);
    let store = Path::new("/var/lib/europa").join(node.instance());
    node.up(&format!(
        "kind: slice\nname: red\n---\n\
         kind: host\nname: web\nroot: {path}\nenv: {{OWN: too}}\n\
         interfaces: {{eth0: {{link: a, addresses: [10.0.0.2/24]}}}}\ngateway: 10.0.0.1\n\
         run:\n  - touch /made-by-run\n---\n\
         kind: host\nname: alone\nroot: {path}\n\
         interfaces: {{eth0: {{link: b, addresses: [10.0.1.2/24]}}}}\ngateway: 10.0.1.1\n---\n\
         kind: router\nname: r\nslice: red\n\
         interfaces:\n  a: {{link: a, addresses: [10.0.0.1/24]}}\n  b: {{link: b, addresses: [10.0.1.1/24]}}\n\
         fast_path: {{builtin: ipv4, routes: kernel}}\n\
         slow_path:\n  root: {path}\n  files: [{{path: /srv/more.html, text: more, owner: web}}]\n"
    ));
    let get = |from: &str, url: &str| inside(&node, from, &["wget", "-q", "-O", "-", url]);
    // Each server is the image's command, in the image's folder: it serves the image's pages.
    for (from, at) in [("alone", "10.0.0.2"), ("web", "10.0.1.2"), ("web", "10.0.0.1")] {
        let url = format!("http://{at}:8080/index.html");
        await_true(&url, || get(from, &url) == "a page of the image\n");
    }
    await_true("more", || get("web", "http://10.0.0.1:8080/more.html") == "more");
    for (name, words, wanted) in [
        ("web", &["sh", "-c", "echo $OF_IMAGE $OWN"][..], "yes too\n"),
        ("web", &["stat", "-c", "%u", "/srv/index.html"], "200\n"),
        ("alone", &["cat", "/etc/secret"], "of the image's root\n"),
        ("red/r", &["sh", "-c", "echo $OF_IMAGE"], "yes\n"),
        // Files of the image belong to users of the slow path.
        ("red/r", &["stat", "-c", "%u %g", "/srv/index.html"], "200 200\n"),
        ("red/r", &["stat", "-c", "%u %g", "/srv/more.html"], "200 201\n"),
        ("red/r", &["cat", "/etc/secret"], "of the image's root\n"),
        ("red/r", &["sh", "-c", "echo x > /etc/secret; cat /etc/secret"], "x\n"),
        ("red/r", &["sh", "-c", "id -u"], "0\n"),
    ] {
        assert_eq!(inside(&node, name, words), wanted, "{name}: {words:?}");
    }
    await_true("run", || {
        node.attempt(&["exec", "web", "--", "cat", "/made-by-run"]).status.success()
    });
    // The server has the user of the image.
    let users = "for one in /proc/[0-9]*; do cat $one/comm; stat -c %u $one; done";
    for name in ["web", "red/r"] {
        let said = inside(&node, name, &["sh", "-c", users]);
        let lines: Vec<&str> = said.lines().collect();
        let server = lines.iter().position(|line| *line == "busybox").expect("a server");
        assert_eq!(lines.get(server + 1), Some(&"200"), "{name}: {said}");
    }
    // All share the image's files, and none of them sees the files that another one writes.
    let secret = fs::read_dir(store.join("images")).expect("images").flatten();
    let unpacked = secret.filter(|entry| entry.file_name().len() == 64).count();
    assert_eq!(unpacked, 1);
    assert_eq!(inside(&node, "alone", &["cat", "/etc/secret"]), "of the image's root\n");
    let state = node.run(&["get", "hosts", "-o", "json"]);
    assert!(!state.contains("degraded"), "{state}");
    node.run(&["down"]);
    assert!(!store.exists(), "images stay: {}", store.display());
}

#[test]
fn a_document_replaces_the_command_of_an_image() {
    skip_without!("busybox");
    let folder = tempfile::tempdir().expect("a folder");
    let path = image(folder.path(), WEB);
    let path = path.display();
    let node = Node::new(None);
    let document = |rest: &str| {
        format!(
            "kind: host\nname: a\nroot: {path}\ninterfaces: {{eth0: {{port: p}}}}\n{rest}---\n\
             kind: host\nname: own\ninterfaces: {{eth0: {{port: q}}}}\n\
             command: [sh, -c, 'echo own; exec sleep 1000']\n"
        )
    };
    let says = "[sh, -c, 'id -u; pwd; echo $OF_IMAGE; exec sleep 1000']";
    for (rest, wanted) in [
        (format!("entrypoint: {says}\n"), "200\n/srv\nyes\n"),
        (format!("entrypoint: [busybox]\ncommand: {says}\nuser: root\n"), "0\n/srv\nyes\n"),
        (format!("command: {says}\nentrypoint: [/bin/busybox]\nuser: '7:8'\n"), "7\n/srv\nyes\n"),
    ] {
        node.up(&document(&rest));
        await_true(&rest, || node.run(&["logs", "a"]).contains(wanted));
    }
    await_true("own", || node.run(&["logs", "own"]).contains("own\n"));
    // The host `own` was not started again with each change of the other one.
    assert_eq!(node.run(&["logs", "own"]).matches("own\n").count(), 1);
    // The image's program with other words: a page is served at another port.
    node.up(&document("command: ['-f', '-p', '8081']\n"));
    await_true("8081", || {
        let url = "http://127.0.0.1:8081/index.html";
        inside(&node, "a", &["wget", "-q", "-O", "-", url]) == "a page of the image\n"
    });
    let machine = node.file(
        "m.yaml",
        "kind: host\nname: m\nnamespace: /proc/1/ns/net\ninterfaces: {e0: {port: m}}\ncommand: [ls]\n",
    );
    let said = node.attempt(&["apply", "--dry-run", &machine]).stderr;
    assert!(said.contains("`command` is for hosts that Europa makes"), "{said}");
}

#[test]
fn an_image_that_cannot_be_used_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image.tar");
    fs::write(&path, "no archive").expect("a file");
    let node = Node::new(None);
    let document = |root: &str| {
        node.file(
            "h.yaml",
            &format!("kind: host\nname: h\nroot: {root}\ninterfaces: {{eth0: {{port: p}}}}\n"),
        )
    };
    let attempt = |root: &str| node.attempt(&["up", &document(root)]);
    let said = attempt(&path.display().to_string());
    assert!(!said.status.success());
    assert!(said.stderr.contains("neither an OCI layout nor an archive"), "{}", said.stderr);
}
