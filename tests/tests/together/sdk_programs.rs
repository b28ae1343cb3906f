//! The examples of the SDK in C, Python and Rust mark packets under load: no packet is lost,
//! changed or out of order, all get the code point, and the checksum is right. Each is installed as
//! its users install it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use europa_packet::checksum;
use europa_tests::{Node, europa, run, skip_without};

/// Expedited forwarding, in the byte of IPv4 and of IPv6 that has the code point.
const EF: u8 = 46 << 2;

fn sdk() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    path.canonicalize().expect("the SDK")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A router between hosts `a` and `b` whose data plane is this program.
fn document(command: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: red\n---\nkind: router\nname: r\nslice: red\ninterfaces:\n\
         \x20 a: {{link: a}}\n  b: {{link: b}}\nfast_path: {{program: [{command}]}}\n"
    );
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24, \"fd00::{last}/64\"]}}}}\n"
        );
    }
    text
}

/// Waits until pings to an address are answered, and returns the node's logs if they are not.
fn pings(node: &Node, to: &str) {
    let begun = Instant::now();
    while !node.host("a").ping(to, 5, &["-i", "0.02"]).is_ok_and(|ping| ping.is_perfect()) {
        assert!(begun.elapsed() < Duration::from_secs(15), "{}", node.run(&["logs", "red/r"]));
    }
}

/// Checks that a program marks packets to `b` and no others, and that no packet is lost at this
/// rate. `command` has the first words of the program's command.
fn marks(command: &str, packets_per_second: u32) {
    let node = Node::new(None);
    node.up(&document(&format!("{command}, 10.0.0.2")));
    pings(&node, "10.0.0.2");

    let capture = node.host("b").capture("eth0", "icmp[0] == 8").expect("a capture");
    pings(&node, "10.0.0.2");
    let frames = capture.stop().expect("it ends").frames().expect("packets");
    assert!(frames.len() > 4 && frames.iter().all(|frame| frame[15] == EF), "{frames:02x?}");
    assert!(frames.iter().all(|frame| checksum::verify(&frame[14..34])), "{frames:02x?}");
    // The program does not mark requests of `b` to `a`.
    let capture = node.host("a").capture("eth0", "icmp[0] == 8").expect("a capture");
    assert!(
        node.host("b").ping("10.0.0.1", 5, &["-i", "0.02"]).is_ok_and(|ping| ping.is_perfect())
    );
    let frames = capture.stop().expect("it ends").frames().expect("packets");
    assert!(frames.len() > 4 && frames.iter().all(|frame| frame[15] == 0), "{frames:02x?}");

    let sink = node.host("b").sink("10.0.0.2:5000", 1).expect("a sink");
    let stream =
        node.host("a").stream("10.0.0.2:5000", 1, packets_per_second, 200).expect("a stream");
    let stream = stream.paced_by(&sink);
    std::thread::sleep(Duration::from_secs(1));
    let sent = stream.stop();
    let received = sink.stop(sent);
    let least = u64::from(packets_per_second) / 20;
    assert!(received.is_perfect() && sent > least, "{sent} sent, {received:?}");

    // The same holds for IPv6, with another program of the same executable.
    node.run(&["apply", &node.file("six.yaml", &document(&format!("{command}, \"fd00::2\"")))]);
    pings(&node, "fd00::2");
    let capture = node.host("b").capture("eth0", "icmp6[0] == 128").expect("a capture");
    pings(&node, "fd00::2");
    let frames = capture.stop().expect("it ends").frames().expect("packets");
    let codes = frames.iter().map(|frame| frame[14] << 4 | frame[15] >> 4);
    assert!(frames.len() > 4 && codes.clone().all(|code| code == EF), "{frames:02x?}");
    node.run(&["down"]);
}

#[test]
fn a_program_in_rust_marks() {
    skip_without!("ping", "tcpdump");
    marks(&shown(&europa().with_file_name("my-program")), 20_000);
}

#[test]
fn a_program_in_c_marks() {
    skip_without!("ping", "tcpdump", "cmake", "pkg-config", "cc");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| shown(&folder.path().join(name));
    let cmake = |arguments: &[&str]| {
        run(&[&["cmake"], arguments].concat()).expect("cmake");
    };
    let prefix = format!("-DCMAKE_INSTALL_PREFIX={}", at("installed"));
    cmake(&["-S", &shown(&sdk().join("c")), "-B", &at("build"), &prefix]);
    cmake(&["--build", &at("build")]);
    cmake(&["--install", &at("build")]);

    // A user's project finds the library by CMake.
    let project = folder.path().join("project");
    fs::create_dir(&project).expect("a folder");
    fs::copy(sdk().join("c/mark.c"), project.join("mark.c")).expect("a file");
    let lists = "cmake_minimum_required(VERSION 3.18)\nproject(mark LANGUAGES C)\n\
        find_package(europa 0.1 REQUIRED)\nadd_executable(mark mark.c)\n\
        target_link_libraries(mark PRIVATE europa::europa)\n";
    fs::write(project.join("CMakeLists.txt"), lists).expect("a file");
    let found = format!("-DCMAKE_PREFIX_PATH={}", at("installed"));
    cmake(&["-S", &shown(&project), "-B", &at("out"), &found, "-DCMAKE_BUILD_TYPE=Release"]);
    cmake(&["--build", &at("out")]);
    marks(&at("out/mark"), 20_000);

    // A user's project finds the library by pkg-config.
    let flags = Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", at("installed/share/pkgconfig"))
        .args(["--cflags", "europa"])
        .output()
        .expect("pkg-config runs");
    let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
    let mut command = vec!["cc".to_owned(), "-O2".into(), "-Wall".into(), "-Werror".into()];
    command.extend(flags.split_whitespace().map(str::to_owned));
    command.extend(["-o".into(), at("mark"), shown(&project.join("mark.c"))]);
    run(&command).expect("it builds");
}

#[test]
fn a_program_in_python_marks() {
    skip_without!("ping", "tcpdump", "python3", "pip3");
    // Programs in sandboxes read folders that their command names.
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    fs::create_dir(&source).expect("a folder");
    for name in ["pyproject.toml", "_build.py", "europa.py", "europa_packet.py"] {
        fs::copy(sdk().join("python").join(name), source.join(name)).expect("a file");
    }
    let plane = folder.path().join("plane");
    run(&[
        "pip3",
        "install",
        "--quiet",
        "--no-index",
        "--root-user-action=ignore",
        "--target",
        &shown(&plane),
        &shown(&source),
    ])
    .expect("pip");
    fs::copy(sdk().join("python/mark.py"), plane.join("__main__.py")).expect("a file");
    marks(&format!("/usr/bin/python3, {}", plane.display()), 2_000);
}

/// `europa sdk new c` and `python` make programs that their labs run.
#[test]
fn new_programs_run_in_their_labs() {
    skip_without!("ping", "cmake", "cc", "python3");
    for language in ["c", "python"] {
        let folder = tempfile::tempdir().expect("a folder");
        let place = shown(&folder.path().join("marker"));
        let node = Node::new(None);
        node.run(&["sdk", "new", language, "marker", "--folder", &place]);
        if language == "c" {
            let build = format!("{place}/build");
            run(&["cmake", "-S", &place, "-B", &build]).expect("cmake");
            run(&["cmake", "--build", &build]).expect("cmake");
        }
        node.run(&["up", &format!("{place}/lab.yaml")]);
        let begun = Instant::now();
        let ping = || node.host("ann").ping("10.0.0.2", 3, &["-i", "0.1"]);
        while !ping().is_ok_and(|ping| ping.is_perfect()) {
            let logs = || node.run(&["logs", "lab/r1"]);
            assert!(begun.elapsed() < Duration::from_secs(15), "{language}: {}", logs());
        }
        node.run(&["down"]);
    }
}
