//! Skips tests whose needs are missing, with a message.

use std::io::Write;
use std::path::PathBuf;

use crate::command::find;

/// The first of these programs that is not installed, or `root` if the test does not run as root.
pub fn missing(programs: &[&str]) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    let absent = programs.iter().chain(&["ip"]).find(|program| find(program).is_none())?;
    Some(format!("{absent} is not installed"))
}

/// The first of these features that this kernel lacks, as a reason: `VRF`, `VXLAN`, `GRE`, `ESP`,
/// `MPLS`, or the name of a queueing discipline.
pub fn kernel_lacks(features: &[&str]) -> Option<String> {
    let lacks = |feature: &&&str| !kernel_has(feature);
    features.iter().find(lacks).map(|feature| format!("{feature} is not in this kernel"))
}

/// Tries a feature in a network namespace of its own.
fn kernel_has(feature: &str) -> bool {
    let attempt = match feature {
        "VRF" => "ip link add x type vrf table 9".to_owned(),
        "VXLAN" => "ip link add x type vxlan id 9 dstport 4789".to_owned(),
        "GRE" => "ip link add x type gre local 10.0.0.1 remote 10.0.0.2".to_owned(),
        "ESP" => "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel \
                  enc 'ecb(cipher_null)' '' auth 'digest_null' ''"
            .to_owned(),
        // The kernel loads this module for nothing that `ip` does.
        "MPLS" => "modprobe -q -a mpls_router mpls_iptunnel; test -d /proc/sys/net/mpls".to_owned(),
        qdisc => format!("ip link set lo up; tc qdisc add dev lo root {qdisc}"),
    };
    crate::run(&["unshare", "--net", "sh", "-c", &attempt]).is_ok()
}

/// The factor of all waiting times: `EUROPA_PATIENCE`, or 1. Processors that a program imitates are
/// slower than others.
pub fn patience() -> u32 {
    let text = std::env::var("EUROPA_PATIENCE").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// Prints that a test or a part of it was skipped. Writes past the test harness, which hides the
/// output of tests that succeed.
pub fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    // The message is lost if standard error is closed.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Ends a test that cannot run here, and prints the reason: `skip_without!("iperf3", "nft")`.
#[macro_export]
macro_rules! skip_without {
    ($($program:literal),*) => {
        if let Some(reason) = $crate::missing(&[$($program),*]) {
            $crate::skipped(&reason);
            return;
        }
    };
}

/// The `europa` program of this build; `EUROPA` names another.
///
/// # Panics
/// The program is not built.
pub fn europa() -> PathBuf {
    if let Some(path) = std::env::var_os("EUROPA") {
        return path.into();
    }
    // Tests are in target/PROFILE/deps, the program is in target/PROFILE.
    let test = std::env::current_exe().unwrap_or_default();
    let program = test.ancestors().nth(2).unwrap_or(&test).join("europa");
    assert!(program.is_file(), "{} is missing: build it by `make build`", program.display());
    program
}
