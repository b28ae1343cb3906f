//! `sdk new c`, `python` and `rust`: a data plane as a program, from the examples of the SDK.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::folder::{Folder, dependency};
use crate::exit::Failure;

const LAB: &str = include_str!("../../../../sdk/program/lab.yaml");
/// The command in the document of the lab.
const COMMAND: &str = "/opt/my-program";

const RUST: &str = include_str!("../../../../sdk/program/src/main.rs");
const C: &str = include_str!("../../../../sdk/c/mark.c");
const HEADERS: [(&str, &str); 3] = [
    ("europa.h", include_str!("../../../../sdk/c/europa.h")),
    ("europa_packet.h", include_str!("../../../../sdk/c/europa_packet.h")),
    ("europa_pool.h", include_str!("../../../../sdk/c/europa_pool.h")),
];
const PYTHON: &str = include_str!("../../../../sdk/python/mark.py");
const MODULES: [(&str, &str); 2] = [
    ("europa.py", include_str!("../../../../sdk/python/europa.py")),
    ("europa_packet.py", include_str!("../../../../sdk/python/europa_packet.py")),
];

/// Arguments of `sdk new c` and `sdk new python`.
#[derive(Args)]
pub(crate) struct Program {
    /// Name of the program, such as `marker`.
    pub(super) name: String,
    /// Folder for the program. Default: the name, in this folder.
    #[arg(long)]
    pub(super) folder: Option<PathBuf>,
}

/// Arguments of `sdk new rust`.
#[derive(Args)]
pub(crate) struct RustProgram {
    #[command(flatten)]
    pub(super) program: Program,
    /// Europa's sources: a folder, or the URL of a Git repository. Default: the project's repository.
    #[arg(long, value_name = "FOLDER|URL", default_value = env!("CARGO_PKG_REPOSITORY"))]
    pub(super) source: String,
}

impl Program {
    fn folder(&self) -> Result<Folder, Failure> {
        Folder::new(&self.name, self.folder.as_ref())
    }

    /// The lab, with the program's command.
    fn lab(folder: &Folder, command: impl Fn(String) -> String) -> Result<String, Failure> {
        let here = folder.absolute()?.display().to_string();
        Ok(LAB.replace(COMMAND, &command(here)))
    }

    /// Writes a program in C with its headers; returns its folder.
    pub(super) fn c(&self) -> Result<PathBuf, Failure> {
        let (folder, name) = (self.folder()?, &self.name);
        for (header, text) in HEADERS {
            folder.write(&format!("europa/{header}"), text)?;
        }
        folder.write(&format!("{name}.c"), &C.replace("mark:", &format!("{name}:")))?;
        folder.write(
            "CMakeLists.txt",
            &format!(
                "cmake_minimum_required(VERSION 3.18)\nproject({name} LANGUAGES C)\n\
                 if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\n\
                 add_executable({name} {name}.c)\n\
                 target_include_directories({name} PRIVATE europa)\n\
                 target_compile_features({name} PRIVATE c_std_11)\n\
                 target_compile_definitions({name} PRIVATE _GNU_SOURCE)\n"
            ),
        )?;
        folder.write("lab.yaml", &Self::lab(&folder, |here| format!("{here}/build/{name}"))?)?;
        Ok(folder.into_path())
    }

    /// Writes a program in Python with its modules; returns its folder.
    pub(super) fn python(&self) -> Result<PathBuf, Failure> {
        let folder = self.folder()?;
        for (module, text) in MODULES {
            folder.write(module, text)?;
        }
        folder.write("__main__.py", PYTHON)?;
        folder
            .write("lab.yaml", &Self::lab(&folder, |here| format!("/usr/bin/python3, {here}"))?)?;
        Ok(folder.into_path())
    }
}

impl RustProgram {
    /// Writes a crate; returns its folder.
    pub(super) fn rust(&self) -> Result<PathBuf, Failure> {
        let (folder, name) = (self.program.folder()?, &self.program.name);
        folder.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
                 [dependencies]\neuropa-dataplane = {}\n\n\
                 # A workspace of its own, wherever it is.\n[workspace]\n",
                dependency(&self.source, "sdk/dataplane")?
            ),
        )?;
        // Uses the same versions of libraries as the node.
        if let Ok(lock) = fs::read_to_string(Path::new(&self.source).join("Cargo.lock")) {
            folder.write("Cargo.lock", &lock)?;
        }
        folder.write("src/main.rs", &RUST.replace("my-program", name))?;
        let command = |here| format!("{here}/target/release/{name}");
        folder.write("lab.yaml", &Program::lab(&folder, command)?)?;
        Ok(folder.into_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path) -> Program {
        Program { name: "marker".into(), folder: Some(folder.to_owned()) }
    }

    #[test]
    fn a_new_program_has_what_it_needs() {
        let place = tempfile::tempdir().expect("a folder");
        let read = |name: &str| fs::read_to_string(place.path().join(name)).expect("a file");
        let made = program(&place.path().join("c")).c().expect("it is made");
        let command = format!("program: [{}/build/marker, 10.0.0.2]", made.display());
        assert!(read("c/lab.yaml").contains(&command), "{}", read("c/lab.yaml"));
        assert!(read("c/marker.c").contains("\"marker: started by a node"));
        assert!(program(&place.path().join("c")).c().is_err(), "it is there");

        let made = program(&place.path().join("python")).python().expect("it is made");
        let command = format!("program: [/usr/bin/python3, {}, 10.0.0.2]", made.display());
        assert!(read("python/lab.yaml").contains(&command));
        assert!(read("python/europa.py").contains("class Pool"));

        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let source = source.display().to_string();
        let rust = RustProgram { program: program(&place.path().join("rust")), source };
        rust.rust().expect("it is made");
        assert!(read("rust/Cargo.toml").contains("sdk/dataplane\" }"));
        assert!(read("rust/src/main.rs").contains("usage: marker ADDRESS"));
        assert!(read("rust/Cargo.lock").contains("europa-dataplane"));
    }
}
