//! The commands of the documentation work as the pages show them.
//!
//! Each page is one script, which runs in network and mount namespaces of its own, in an empty folder
//! with the examples, as root. The output that a page shows is compared (`europa_tests::page`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use europa_tests::page::{Block, Use, blocks, fits};
use europa_tests::{Process, europa, missing, skipped};

/// Longest time for the commands of a page.
const PATIENCE: Duration = Duration::from_secs(100);
const NIGHTLY_PATIENCE: Duration = Duration::from_secs(400);
/// Programs that commands of pages and their tests call.
const NEEDS: [&str; 6] = ["unshare", "bash", "ping", "curl", "python3", "cc"];
/// Blocks in a hundred that no test runs.
const MOST_NOT_RUN: usize = 10;

/// One test for each page with commands, and one for each page with commands of `make nightly`.
macro_rules! pages {
    (quick: $($quick:ident)*; nightly: $($nightly:ident)*;) => {
        const QUICK: &[&str] = &[$(stringify!($quick)),*];
        const NIGHTLY: &[&str] = &[$(stringify!($nightly)),*];
        mod quick {
            $(#[test] fn $quick() { super::page_works(stringify!($quick), false); })*
        }
        mod nightly {
            $(
                #[test]
                #[ignore = "takes long: `make nightly`"]
                fn $nightly() { super::page_works(stringify!($nightly), true); }
            )*
        }
    };
}

pages! {
    quick: api click cluster examples filters flows gallery getting_started i3 machine_ports memif metrics netlab node primer
        readme sdk seeing topology uplink users xdp;
    nightly: routing slow_path;
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// The file of a page, from the name of its test.
fn file(name: &str) -> String {
    match name {
        "readme" => "README.md".to_owned(),
        "sdk" | "examples" => format!("{name}/README.md"),
        _ => format!("docs/{}.md", name.replace('_', "-")),
    }
}

/// The script before the first block, and after the last. A terminal's input never ends.
const BEGIN: &str = r#"set -e
shopt -s expand_aliases
set -m
mkdir -p /run/netns
mount -t tmpfs none /run/netns
ip link set lo up
terminals= INSTANCE=$EUROPA_INSTANCE
mkfifo .tty
exec 9<>.tty
end() {
  set +e
  for job in $terminals; do kill -INT -- -$job 2>/dev/null; done
  for job in $terminals; do
    for i in {1..50}; do kill -0 $job 2>/dev/null || break; sleep 0.1; done
    kill -KILL -- -$job 2>/dev/null
  done
  europa --instance $INSTANCE down >/dev/null 2>&1
  true
}
trap end EXIT
"#;
/// After a block in a terminal of its own: its first output, and a moment for its work to begin.
const BEGUN: &str = "terminals=\"$terminals $!\"\nterminal=$!\n\
    for i in {1..30}; do [ -s out.$at ] && break; sleep 0.1; done; sleep 0.5\n";
/// Waits for the end of a terminal's program, before the terminal's output is compared.
const ENDED: &str =
    "for i in {1..100}; do kill -0 $terminal 2>/dev/null || break; sleep 0.1; done\n";

/// The script of a page. Blocks lie beside it, as `block.N`.
fn script(blocks: &[Block], nightly: bool) -> String {
    let mut script = BEGIN.to_owned();
    for (number, block) in blocks.iter().enumerate() {
        let line = match &block.purpose {
            Use::Run | Use::Hidden => format!(". ./block.{number} >out.{number} 2>&1\n"),
            Use::Nightly if nightly => format!(". ./block.{number} >out.{number} 2>&1\n"),
            Use::Terminal => format!("( . ./block.{number} ) <&9 >out.{number} 2>&1 &\n{BEGUN}"),
            Use::TerminalOutput => ENDED.to_owned(),
            Use::File(name) => format!("cp block.{number} {name}\n"),
            Use::Nightly | Use::NoRun(_) | Use::Output => continue,
        };
        write!(script, "at={number}; echo {number} >at\n{line}").expect("a text");
    }
    script
}

/// The outputs that differ from those shown, each with its line in the page.
fn differences(blocks: &[Block], folder: &Path) -> String {
    let mut found = String::new();
    for (number, block) in blocks.iter().enumerate() {
        let of = match block.purpose {
            Use::Output => number.checked_sub(1),
            Use::TerminalOutput => {
                blocks[..number].iter().rposition(|block| block.purpose == Use::Terminal)
            }
            _ => continue,
        };
        let of = of.expect("commands stand before their output");
        // The commands of this block were not run.
        let Ok(output) = fs::read(folder.join(format!("out.{of}"))) else { continue };
        let output = String::from_utf8_lossy(&output);
        if !fits(&block.text, &output) {
            let (line, text) = (block.line, &block.text);
            write!(found, "line {line} shows\n{text}but the output is\n{output}\n")
                .expect("a text");
        }
    }
    found
}

/// Writes blocks and programs into the folder in which the page's commands run.
fn prepare(folder: &Path, instance: &str, blocks: &[Block]) {
    let root = root();
    symlink(root.join("examples"), folder.join("examples")).expect("a link");
    let programs = folder.join(".bin");
    fs::create_dir(&programs).expect("a folder");
    symlink(europa(), programs.join("europa")).expect("a link");
    fs::write(programs.join("sudo"), "#!/bin/sh\nexec \"$@\"\n").expect("a script");
    fs::set_permissions(programs.join("sudo"), fs::Permissions::from_mode(0o755)).expect("set");
    let (sdk, examples) = (root.join("sdk"), root.join("examples"));
    for (number, block) in blocks.iter().enumerate() {
        let text = block
            .text
            .replace("/run/europa/default/", &format!("/run/europa/{instance}/"))
            // `make install` may not have been run.
            .replace("/usr/share/europa/sdk", &sdk.display().to_string())
            .replace("/usr/share/doc/europa/examples", &examples.display().to_string())
            // Hosts find only an installed program.
            .replace(" europa i3 ", &format!(" {} i3 ", europa().display()));
        fs::write(folder.join(format!("block.{number}")), text).expect("a block");
    }
}

fn page_works(name: &str, nightly: bool) {
    if let Some(why) = missing(&NEEDS) {
        skipped(&why);
        return;
    }
    let page = file(name);
    let text = fs::read_to_string(root().join(&page)).expect("a page");
    let blocks = blocks(&text);
    let instance = format!("page-{}-{}", name.replace('_', "-"), std::process::id());
    let folder = tempfile::tempdir().expect("a folder");
    // Programs in sandboxes read files of this folder.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
    prepare(folder.path(), &instance, &blocks);
    let path = std::env::var("PATH").unwrap_or_default();
    let here = folder.path().display();
    let process = Process::start(&[
        "env".to_owned(),
        format!("--chdir={here}"),
        format!("PATH={here}/.bin:{path}"),
        format!("HOME={here}"),
        format!("EUROPA_INSTANCE={instance}"),
        "unshare".to_owned(),
        "--net".to_owned(),
        "--mount".to_owned(),
        "--uts".to_owned(),
        "bash".to_owned(),
        "-c".to_owned(),
        script(&blocks, nightly),
    ])
    .expect("bash starts");
    let output = process
        .wait(if nightly { NIGHTLY_PATIENCE } else { PATIENCE })
        .unwrap_or_else(|error| panic!("{page}: block {}: {error}", at(folder.path(), &blocks)));
    let failed = (!output.status.success()).then(|| at(folder.path(), &blocks));
    let failed = failed.map(|at| format!("the commands fail: {at}{}\n", output.stderr));
    let found = failed.unwrap_or_default() + &differences(&blocks, folder.path());
    assert!(found.is_empty(), "{page}: {found}");
}

/// The last block that was begun, and its output.
fn at(folder: &Path, blocks: &[Block]) -> String {
    let number = fs::read_to_string(folder.join("at")).unwrap_or_default();
    let Some(block) = number.trim().parse().ok().and_then(|number: usize| blocks.get(number))
    else {
        return String::new();
    };
    let output = fs::read(folder.join(format!("out.{}", number.trim()))).unwrap_or_default();
    format!("line {}\n{}{}", block.line, block.text, String::from_utf8_lossy(&output))
}

/// Every page with commands is tested, and few blocks are omitted.
#[test]
fn every_page_is_tried() {
    let mut pages = vec!["readme".to_owned(), "sdk".to_owned(), "examples".to_owned()];
    for folder in ["docs", "docs/reference"] {
        for entry in fs::read_dir(root().join(folder)).expect("pages").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix(".md") {
                let under = folder.strip_prefix("docs").expect("docs").trim_start_matches('/');
                let name = [under, name].join("/");
                pages.push(name.trim_start_matches('/').replace('-', "_"));
            }
        }
    }
    let (mut quick, mut nightly) = (BTreeSet::new(), BTreeSet::new());
    let (mut shown, mut left_out) = (0, Vec::new());
    for name in &pages {
        let text = fs::read_to_string(root().join(file(name))).expect("a page");
        for block in blocks(&text).iter().filter(|block| block.is_shown()) {
            shown += 1;
            match &block.purpose {
                Use::NoRun(why) => left_out.push(format!("{name}: {}: {why}", block.line)),
                Use::Nightly => drop(nightly.insert(name.as_str())),
                _ => drop(quick.insert(name.as_str())),
            }
        }
    }
    assert!(shown > 40, "only {shown} blocks are found");
    assert!(
        left_out.len() * 100 <= shown * MOST_NOT_RUN,
        "{} of {shown}: {left_out:#?}",
        left_out.len()
    );
    let without: Vec<&String> = left_out.iter().filter(|line| line.ends_with(": ")).collect();
    assert!(without.is_empty(), "no reason: {without:?}");
    assert_eq!(quick, QUICK.iter().copied().collect());
    assert_eq!(nightly, NIGHTLY.iter().copied().collect());
}
