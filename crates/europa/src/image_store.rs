//! Saves images from the stores of Docker, Podman and containerd as archives.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of archives, which are named by the digest that the store has for the image's
/// content.
const CACHE: &str = "/var/cache/europa/images";

/// A program with an image store: how it prints an image's digest, and how it saves the image.
/// `IMAGE` and `FILE` stand for the name and the archive.
struct Store {
    program: &'static str,
    number: Number,
    save: &'static [&'static str],
}

/// How a program tells the number of an image's content.
enum Number {
    /// The command prints the number alone.
    Printed(&'static [&'static str]),
    /// The command prints a table with the columns name, type and digest. The names are whole.
    Listed(&'static [&'static str]),
}

const INSPECT: Number = Number::Printed(&["image", "inspect", "--format", "{{.Id}}", "IMAGE"]);

/// containerd keeps the images of Kubernetes apart from those of other users.
const STORES: [Store; 5] = [
    Store { program: "docker", number: INSPECT, save: &["save", "--output", "FILE", "IMAGE"] },
    Store { program: "podman", number: INSPECT, save: &["save", "--output", "FILE", "IMAGE"] },
    Store {
        program: "nerdctl",
        number: Number::Printed(&["image", "inspect", "--format", "{{.ID}}", "IMAGE"]),
        save: &["save", "--output", "FILE", "IMAGE"],
    },
    Store {
        program: "ctr",
        number: Number::Listed(&["images", "list"]),
        save: &["images", "export", "FILE", "IMAGE"],
    },
    Store {
        program: "ctr",
        number: Number::Listed(&["--namespace", "k8s.io", "images", "list"]),
        save: &["--namespace", "k8s.io", "images", "export", "FILE", "IMAGE"],
    },
];

/// The archive of an image that a store of this machine contains. The image is saved unless this
/// was done before.
pub(crate) fn find(image: &str) -> Option<PathBuf> {
    // A text that begins like an option is no image name.
    let is_name =
        !image.is_empty() && !image.starts_with('-') && !image.contains(char::is_whitespace);
    STORES.iter().filter(|_| is_name).find_map(|store| store.find(image))
}

impl Store {
    fn find(&self, image: &str) -> Option<PathBuf> {
        let program = program(self.program)?;
        let (number, name) = self.number.of(image, &program)?;
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let number: String = number.chars().map(plain).collect();
        let file = Path::new(CACHE).join(format!("{number}.tar"));
        if file.exists() {
            return Some(file);
        }
        fs::create_dir_all(CACHE).ok()?;
        let new = file.with_extension(format!("new{}", std::process::id()));
        eprintln!("saving the image {image} from the store of {}", self.program);
        let to = new.to_str()?;
        let saved = Command::new(&program)
            .args(self.save.iter().map(|word| word.replace("FILE", to).replace("IMAGE", &name)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        let is_there = saved && fs::rename(&new, &file).is_ok();
        let _ = fs::remove_file(&new);
        is_there.then_some(file)
    }
}

impl Number {
    /// The number of the image's content, and the name by which the program saves the image.
    fn of(&self, image: &str, program: &Path) -> Option<(String, String)> {
        let (Number::Printed(words) | Number::Listed(words)) = self;
        let said = Command::new(program)
            .args(words.iter().map(|word| word.replace("IMAGE", image)))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let said = String::from_utf8(said.stdout).ok()?;
        match self {
            Number::Printed(_) => Some((said.trim().to_string(), image.to_string())),
            Number::Listed(_) => listed(&said, &whole(image)),
        }
        .filter(|(number, _)| !number.is_empty())
    }
}

/// The digest and the name of the row whose name is `name`.
fn listed(table: &str, name: &str) -> Option<(String, String)> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (row, _, digest) = (words.next()?, words.next()?, words.next()?);
        (row == name).then(|| (digest.to_string(), row.to_string()))
    })
}

/// An image's name with the registry, folder and tag that Docker assumes where the name has none.
fn whole(image: &str) -> String {
    let host = |part: &str| part.contains(['.', ':']) || part == "localhost";
    let with_host = match image.split_once('/') {
        None => format!("docker.io/library/{image}"),
        Some((first, _)) if host(first) => image.to_string(),
        Some(_) => format!("docker.io/{image}"),
    };
    let last = with_host.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { with_host } else { format!("{with_host}:latest") }
}

/// The file of a program that is no stand-in of Europa's own.
fn program(name: &str) -> Option<PathBuf> {
    let own = fs::canonicalize("/proc/self/exe").ok()?;
    let path = env::var_os("PATH")?;
    let mut all = env::split_paths(&path).map(|folder| folder.join(name));
    all.find(|file| file.is_file() && fs::canonicalize(file).is_ok_and(|file| file != own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_docker_does() {
        assert_eq!(whole("frr"), "docker.io/library/frr:latest");
        assert_eq!(whole("frr:10"), "docker.io/library/frr:10");
        assert_eq!(whole("frrouting/frr"), "docker.io/frrouting/frr:latest");
        assert_eq!(whole("quay.io/frrouting/frr:10.1"), "quay.io/frrouting/frr:10.1");
        assert_eq!(whole("localhost:5000/frr"), "localhost:5000/frr:latest");
        assert_eq!(whole("localhost/frr:a"), "localhost/frr:a");
        assert_eq!(whole("a/b@sha256:00"), "docker.io/a/b@sha256:00");
    }

    #[test]
    fn the_digest_of_a_listed_image_is_its_number() {
        let table = "REF TYPE DIGEST SIZE PLATFORMS LABELS\n\
             docker.io/library/frr:1 application/x sha256:aa 1.0 MiB linux/amd64 -\n\
             docker.io/library/frr:10 application/x sha256:bb 2.0 MiB linux/amd64 -\n";
        let found = listed(table, "docker.io/library/frr:10");
        assert_eq!(found, Some(("sha256:bb".into(), "docker.io/library/frr:10".into())));
        assert_eq!(listed(table, "docker.io/library/frr:2"), None);
        assert_eq!(listed("", "frr"), None);
    }
}
