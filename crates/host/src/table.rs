//! Reads the machine's mounts, and decides which of them get an overlay in a host.

use std::path::{Path, PathBuf};

/// Folders that a host does not share with the machine.
const OWN: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];
/// File systems without files that a host's programs need: interfaces of the kernel, and images
/// that container runtimes and package managers mount.
const LEFT_OUT: [&str; 13] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "efivarfs",
    "fusectl",
    "nsfs",
    "overlay",
    "squashfs",
    "tracefs",
];

/// The mounts below `/` that a host sees, from the text of `/proc/self/mountinfo` (proc(5)), outer
/// ones first.
pub(crate) fn below_root(text: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in text.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(at), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next()) else {
            continue;
        };
        let path = PathBuf::from(unescape(at));
        let is_own = OWN.iter().any(|own| path.starts_with(own));
        if path == Path::new("/") || is_own || LEFT_OUT.contains(&kind) || kind.starts_with("fuse.")
        {
            continue;
        }
        // A later mount hides an earlier one at the same place.
        found.retain(|other| *other != path);
        found.push(path);
    }
    found.sort();
    found
}

/// A path as the kernel writes it: blanks, tabs, newlines and backslashes are octal numbers.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out += before;
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_with_files_are_found() {
        let text = "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
             22 21 0:5 / /proc rw - proc proc rw\n\
             23 21 0:6 / /run/lock rw - tmpfs tmpfs rw\n\
             24 21 8:1 / /home rw shared:3 master:1 - xfs /dev/sda1 rw\n\
             25 24 0:9 / /home/a\\040b rw - tmpfs none rw\n\
             26 21 0:9 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n\
             27 21 8:2 / /home rw - ext4 /dev/sda2 rw\n\
             28 21 0:30 / /mnt/s rw - fuse.sshfs x rw\n\
             broken\n";
        let wanted: Vec<PathBuf> = ["/home", "/home/a b"].map(PathBuf::from).to_vec();
        assert_eq!(below_root(text), wanted);
        assert_eq!(unescape("a\\134b\\"), "a\\b\\");
    }
}
