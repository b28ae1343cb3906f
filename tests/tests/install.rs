//! `make install`, `make uninstall`, the manual pages, and what the systemd unit relies on.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use europa_tests::{Process, europa, run, skip_without};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path);
        }
    }
    found
}

fn install(to: &Path, arguments: &[&str]) -> String {
    let mut command = vec![
        "env".to_owned(),
        "PREFIX=/opt/europa".to_owned(),
        format!("DESTDIR={}", to.display()),
        format!("BINARY={}", europa().display()),
        root().join("scripts/install").display().to_string(),
    ];
    command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    run(&command).expect("scripts/install").stdout
}

/// The installed files suffice for a data plane of a user.
fn programs_build(prefix: &Path) {
    let headers = prefix.join("include/europa");
    let pc = fs::read_to_string(prefix.join("share/pkgconfig/europa.pc")).expect("a file");
    assert!(pc.starts_with("prefix=/opt/europa\n"), "{pc}");
    assert!(pc.ends_with("Cflags: -I${prefix}/include/europa\n"), "{pc}");
    for name in ["forward", "filter"] {
        let source = prefix.join(format!("share/europa/sdk/c/{name}.c"));
        let built = run(&[
            "cc",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Werror",
            &format!("-I{}", headers.display()),
            "-o",
            &prefix.with_file_name(name).display().to_string(),
            &source.display().to_string(),
        ]);
        built.expect("it builds");
        fs::remove_file(prefix.with_file_name(name)).expect("a program");
    }
}

#[test]
fn everything_is_installed_once_and_taken_away_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = install(folder.path(), &[]);
    let prefix = folder.path().join("opt/europa");
    for path in [
        "bin/europa",
        "share/man/man1/europa.1.gz",
        "share/man/man1/europa-up.1.gz",
        "share/bash-completion/completions/europa",
        "share/zsh/site-functions/_europa",
        "share/fish/vendor_completions.d/europa.fish",
        "lib/systemd/system/europa@.service",
        "share/doc/europa/docs/reference.md",
        "share/doc/europa/examples/two-slices.yaml",
        "share/pkgconfig/europa.pc",
        "share/europa/sdk/README.md",
        "share/europa/sdk/python/__main__.py",
    ] {
        let path = prefix.join(path);
        assert!(path.is_file(), "{}", path.display());
        assert!(said.contains(&format!("installed {}", path.display())), "{said}");
    }
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/europa@.service"));
    assert!(unit.expect("a unit").contains("ExecStart=/opt/europa/bin/europa --instance %i node"));
    programs_build(&prefix);
    let again = install(folder.path(), &[]);
    assert!(again.starts_with("0 files installed"), "{again}");
    // A file of another owner stays.
    let other = prefix.join("bin/other");
    fs::write(&other, "").expect("a file");
    let gone = install(folder.path(), &["--remove"]);
    assert!(gone.contains("/var/lib/europa is kept"), "{gone}");
    assert_eq!(files(folder.path()), BTreeSet::from([other]));
    assert!(install(folder.path(), &["--remove"]).starts_with("nothing to remove"));
}

#[test]
fn the_unit_hears_when_the_node_is_up() {
    skip_without!();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let systemd = UnixDatagram::bind(&path).expect("a socket");
    systemd.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let node = Process::start(&[
        "env".to_owned(),
        format!("NOTIFY_SOCKET={}", path.display()),
        europa().display().to_string(),
        "--instance".to_owned(),
        format!("unit{}", std::process::id()),
        "node".to_owned(),
        "--temporary".to_owned(),
    ])
    .expect("a node");
    let mut heard = [0; 256];
    let length = systemd.recv(&mut heard).expect("a message");
    let heard = String::from_utf8_lossy(&heard[..length]);
    assert!(heard.lines().any(|line| line == "READY=1"), "{heard}");
    node.signal(nix::sys::signal::Signal::SIGTERM);
    let output = node.wait(Duration::from_secs(30)).expect("it ends");
    assert!(output.status.success(), "{}", output.stderr);
}
