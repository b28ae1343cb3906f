//! Click's own cases, if `CLICK_SOURCE` names a checkout of Click. Click's `test/clicktest` runs
//! the cases of the folders below, with `europa click` in the place of `click`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use europa_tests::{europa, skipped};

const FOLDERS: [&str; 9] = [
    "standard",
    "ip",
    "icmp",
    "tcpudp",
    "ethernet",
    "IPRewriter",
    "compound",
    "handlers",
    "analysis",
];
/// Number of cases that must pass.
const WANTED: usize = 120;

/// Puts programs with the names of Click's programs, which run `europa`, into a folder for PATH.
fn programs(folder: &Path) {
    let europa = europa().display().to_string();
    let classes = Command::new(&europa).args(["click", "--list"]).output().expect("europa runs");
    let classes: String = String::from_utf8_lossy(&classes.stdout)
        .lines()
        .chain(["int64", "ip6", "userlevel", "nanotimestamp"])
        .map(|class| format!(" {class} "))
        .collect();
    let provides = format!(
        "#!/bin/sh\n[ \"$1\" = provides ] || exit 1\nshift\nfor name in \"$@\"; do\n\
         case '{classes}' in *\" $name \"*) ;; *) exit 1 ;; esac\ndone\n"
    );
    for (name, text) in [
        ("click", format!("#!/bin/sh\nexec '{europa}' click \"$@\"\n")),
        ("click-flatten", format!("#!/bin/sh\nexec '{europa}' click flatten \"$@\"\n")),
        ("click-buildtool", provides),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
}

#[test]
fn cases_of_click_pass() {
    let Some(checkout) = std::env::var_os("CLICK_SOURCE").map(PathBuf::from) else {
        skipped("CLICK_SOURCE does not name a checkout of Click");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    programs(folder.path());
    let search = std::env::var("PATH").unwrap_or_default();
    let search = format!("{}:{search}", folder.path().display());
    let tests = checkout.join("test");
    let (mut passed, mut others) = (0, Vec::new());
    for cases in FOLDERS {
        let mut paths: Vec<PathBuf> = fs::read_dir(tests.join(cases))
            .expect("cases of Click")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        for path in paths {
            let output = Command::new(tests.join("clicktest"))
                .args(["-V", "-t", "20"])
                .arg(&path)
                .env("PATH", &search)
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .output()
                .expect("clicktest runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            if output.status.success() && text.contains("1 success") {
                passed += 1;
            } else {
                others.push(path.strip_prefix(&tests).unwrap_or(&path).display().to_string());
            }
        }
    }
    println!("{passed} pass; others: {}", others.join(" "));
    assert!(passed >= WANTED, "{passed} pass, not: {others:?}");
}
