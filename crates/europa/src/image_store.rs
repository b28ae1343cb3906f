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
    number: &'static [&'static str],
    save: &'static [&'static str],
}

const STORES: [Store; 4] = [
    Store {
        program: "docker",
        number: &["image", "inspect", "--format", "{{.Id}}", "IMAGE"],
        save: &["save", "--output", "FILE", "IMAGE"],
    },
    Store {
        program: "podman",
        number: &["image", "inspect", "--format", "{{.Id}}", "IMAGE"],
        save: &["save", "--output", "FILE", "IMAGE"],
    },
    Store {
        program: "nerdctl",
        number: &["image", "inspect", "--format", "{{.ID}}", "IMAGE"],
        save: &["save", "--output", "FILE", "IMAGE"],
    },
    Store {
        program: "ctr",
        number: &["images", "list", "--quiet", "name==IMAGE"],
        save: &["images", "export", "FILE", "IMAGE"],
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
        let said = Command::new(&program)
            .args(self.number.iter().map(|word| word.replace("IMAGE", image)))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let number = String::from_utf8(said.stdout).ok()?;
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let number: String = number.trim().chars().map(plain).collect();
        if number.is_empty() {
            return None;
        }
        let file = Path::new(CACHE).join(format!("{number}.tar"));
        if file.exists() {
            return Some(file);
        }
        fs::create_dir_all(CACHE).ok()?;
        let new = file.with_extension(format!("new{}", std::process::id()));
        eprintln!("saving the image {image} from the store of {}", self.program);
        let to = new.to_str()?;
        let saved = Command::new(&program)
            .args(self.save.iter().map(|word| word.replace("FILE", to).replace("IMAGE", image)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        let is_there = saved && fs::rename(&new, &file).is_ok();
        let _ = fs::remove_file(&new);
        is_there.then_some(file)
    }
}

/// The path of a program, unless it is Europa's own replacement for it.
fn program(name: &str) -> Option<PathBuf> {
    let own = fs::canonicalize("/proc/self/exe").ok()?;
    let path = env::var_os("PATH")?;
    let mut all = env::split_paths(&path).map(|folder| folder.join(name));
    all.find(|file| file.is_file() && fs::canonicalize(file).is_ok_and(|file| file != own))
}
