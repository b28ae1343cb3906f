//! Looks up users in an image's own files.

use std::fs;
use std::io;
use std::path::Path;

/// Most bytes of a list of users that are read.
const MOST_BYTES: u64 = 1 << 20;

/// The numbers of a user and its group in the root directory `root`. The user is written `user`,
/// `uid`, `user:group` or `uid:gid`. Empty means root.
///
/// # Errors
/// The image has no such user or group.
pub fn ids(root: &Path, user: &str) -> io::Result<(u32, u32)> {
    let (user, group) =
        user.split_once(':').map_or((user, None), |(user, group)| (user, Some(group)));
    let (uid, own_group) = match user {
        "" => (0, 0),
        _ => match find(root, "etc/passwd", user) {
            Some(line) => (number(&line, 2)?, number(&line, 3)?),
            None => (parse("user", user)?, 0),
        },
    };
    let gid = match group {
        None | Some("") => own_group,
        Some(name) => match find(root, "etc/group", name) {
            Some(line) => number(&line, 2)?,
            None => parse("group", name)?,
        },
    };
    Ok((uid, gid))
}

/// The line of a list that begins with `name`.
fn find(root: &Path, list: &str, name: &str) -> Option<String> {
    let path = root.join(list);
    // A link might lead out of the image.
    let is_file =
        fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    let text = is_file.then(|| fs::read_to_string(&path).ok())??;
    text.lines().find(|line| line.split(':').next() == Some(name)).map(str::to_owned)
}

fn number(line: &str, field: usize) -> io::Result<u32> {
    let found = line.split(':').nth(field).and_then(|text| text.parse().ok());
    found.ok_or_else(|| io::Error::other(format!("the image's users: {line:?} has no number")))
}

fn parse(what: &str, text: &str) -> io::Result<u32> {
    text.parse().map_err(|_| io::Error::other(format!("the image has no {what} {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/passwd"), "root:x:0:0::/:\nfrr:x:92:93::/:\nbad:x:y:0\n")
            .unwrap();
        fs::write(root.path().join("etc/group"), "vty:x:94:frr\n").unwrap();
        for (user, wanted) in [
            ("", Some((0, 0))),
            ("frr", Some((92, 93))),
            ("frr:vty", Some((92, 94))),
            ("7", Some((7, 0))),
            ("7:8", Some((7, 8))),
            ("nobody", None),
            ("frr:none", None),
            ("bad", None),
        ] {
            assert_eq!(ids(root.path(), user).ok(), wanted, "{user}");
        }
        assert!(ids(Path::new("/nonexistent"), "frr").is_err());
    }
}
