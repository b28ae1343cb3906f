//! `sdk`: makes a user's elements and data planes, from the examples of the SDK.

mod folder;
mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::folder::{Folder, dependency};
use self::program::{Program, RustProgram};
use crate::exit::Failure;
use crate::table::line;

/// The example.
const ELEMENT: &str = include_str!("../../../sdk/rust/src/every.rs");
const MAIN: &str = include_str!("../../../sdk/rust/src/main.rs");
const LAB: &str = include_str!("../../../sdk/rust/lab.yaml");
/// Cargo's settings: the folders of static libraries that Europa's crates link.
const CARGO: &str = include_str!("../../../.cargo/config.toml");

/// The subcommands of `sdk`.
#[derive(Subcommand)]
pub(crate) enum SdkCommand {
    /// Make a new project.
    New {
        #[command(subcommand)]
        what: New,
    },
}

/// The objects that can be made.
#[derive(Subcommand)]
pub(crate) enum New {
    /// A crate with one element, and a lab that uses it.
    ///
    /// Its build is a `click` program. It is also the data plane of routers whose `elements:` names
    /// it.
    Element(Element),
    /// A data plane as a program in C, and a lab that runs it.
    C(Program),
    /// A data plane as a program in Python, and a lab that runs it.
    Python(Program),
    /// A data plane as a program in Rust, and a lab that runs it.
    Rust(RustProgram),
}

/// Arguments of `sdk new element`.
#[derive(Args)]
pub(crate) struct Element {
    /// Name of the crate, such as `every-third`. The element's class is EveryThird.
    name: String,
    /// Folder for the crate. Default: the name, in this folder.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Europa's sources: a folder, or the URL of a Git repository. Default: the project's repository.
    #[arg(long, value_name = "FOLDER|URL", default_value = env!("CARGO_PKG_REPOSITORY"))]
    source: String,
}

pub(crate) fn sdk(command: &SdkCommand) -> Result<ExitCode, Failure> {
    let SdkCommand::New { what } = command;
    let (folder, build) = match what {
        New::Element(element) => (element.make()?, "cargo build --release && "),
        New::C(program) => (program.c()?, "cmake -B build && cmake --build build && "),
        New::Python(program) => (program.python()?, ""),
        New::Rust(program) => (program.rust()?, "cargo build --release && "),
    };
    let shown = folder.display();
    line!("made {shown}: now");
    line!("  cd {shown} && {build}sudo europa up lab.yaml");
    Ok(ExitCode::SUCCESS)
}

impl Element {
    /// Writes the crate; returns its folder.
    fn make(&self) -> Result<PathBuf, Failure> {
        let folder = Folder::new(&self.name, self.folder.as_ref())?;
        let class = class(&self.name);
        if europa_driver::registry().info(&class).is_some() {
            let why = format!("Europa has an element {class} already: choose another name");
            return Err(why.into());
        }
        let module = self.name.replace('-', "_");
        let text = |text: &str| {
            let text = text.replace("mod every;", &format!("mod {module};"));
            let text = text.replace("every::", &format!("{module}::"));
            text.replace("Every", &class).replace("my-click", &self.name)
        };
        folder.write("Cargo.toml", &self.manifest()?)?;
        folder.write(".cargo/config.toml", CARGO)?;
        // Uses the same versions of libraries as the node.
        if let Ok(lock) = fs::read_to_string(Path::new(&self.source).join("Cargo.lock")) {
            folder.write("Cargo.lock", &lock)?;
        }
        folder.write("src/main.rs", &text(MAIN))?;
        folder.write(&format!("src/{module}.rs"), &text(ELEMENT))?;
        folder.write("lab.yaml", &text(LAB))?;
        Ok(folder.into_path())
    }

    fn manifest(&self) -> Result<String, Failure> {
        Ok(format!(
            "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
             [dependencies]\neuropa-driver = {}\neuropa-engine = {}\n\n\
             # A workspace of its own, wherever it is.\n[workspace]\n",
            self.name,
            dependency(&self.source, "crates/driver")?,
            dependency(&self.source, "crates/engine")?,
        ))
    }
}

/// The class of an element whose crate has this name.
fn class(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_from_names() {
        assert_eq!(class("every-third"), "EveryThird");
    }

    #[test]
    fn a_new_crate_has_the_example_under_its_own_names() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("new");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let make = |name: &str| Element {
            name: name.into(),
            folder: Some(folder.clone()),
            source: root.display().to_string(),
        };
        assert!(make("counter").make().is_err(), "Europa has one");
        assert_eq!(make("every-third").make().ok(), Some(folder.clone()));
        assert!(make("every-third").make().is_err(), "it is there");
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
        assert!(read("src/every_third.rs").contains("ClassInfo::new(\"EveryThird\""));
        assert!(read("src/main.rs").contains("registry.add::<every_third::EveryThird>()"));
        assert!(read("lab.yaml").contains("elements: ./target/release/every-third"));
        assert!(read(".cargo/config.toml").contains("LIBBPF_SYS_LIBRARY_PATH"));
        assert!(read("Cargo.lock").contains("europa-driver"));
        let manifest = read("Cargo.toml");
        assert!(manifest.contains("crates/engine\" }"), "{manifest}");
    }
}
