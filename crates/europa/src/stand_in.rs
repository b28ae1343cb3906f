//! Replaces the commands `containerlab` and `docker`, for the functions that netlab and scripts of
//! labs use.
//!
//! `europa clab install DIR` makes links to this binary. The name under which the binary is called
//! selects the command. Each lab runs on its own node, `clab-LAB`.
//!
//! | file           | concern                                         |
//! |----------------|-------------------------------------------------|
//! | `lab`          | labs that are deployed, and their containers    |
//! | `arguments`    | options of both commands                        |
//! | `containerlab` | `deploy`, `destroy`, `inspect`, `exec`          |
//! | `docker`       | `exec`, `logs`, `inspect` and the others       |
//! | `list`         | `docker ps`, `docker image ls`                  |
//! | `copy`         | `docker cp`                                     |
//! | `template`     | Go's templates behind `--format`                |

mod arguments;
mod containerlab;
mod copy;
mod docker;
mod lab;
mod list;
mod template;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

use crate::exit::Failure;
use crate::table::line;

pub(crate) use self::lab::object;

/// The names of the links that `europa clab install` makes.
const NAMES: [&str; 3] = ["containerlab", "clab", "docker"];

/// Runs the command under whose name this process was started; `None` for every other name.
pub(crate) fn called() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name()?.to_str()?.to_owned();
    if !NAMES.contains(&&*name) {
        return None;
    }
    let words: Result<Vec<String>, OsString> = words.map(OsString::into_string).collect();
    let done = match words {
        Err(word) => Err(Failure::usage(format!("{} is no text", word.display()))),
        Ok(words) if name == "docker" => docker::run(&words),
        Ok(words) => containerlab::run(&words),
    };
    Some(done.unwrap_or_else(|failure| failure.report()))
}

/// Makes the links in a folder.
pub(crate) fn install(folder: &Path) -> Result<ExitCode, Failure> {
    let failed = |path: &Path, error| Failure::from(format!("{}: {error}", path.display()));
    let binary = std::env::current_exe()?;
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for name in NAMES {
        let path = folder.join(name);
        match fs::read_link(&path) {
            Ok(target) if target == binary => continue,
            // A link to another `europa` is replaced; any other file does not belong to Europa.
            Ok(target) if target.file_name() == binary.file_name() => {
                fs::remove_file(&path).map_err(|error| failed(&path, error))?;
            }
            _ if fs::symlink_metadata(&path).is_ok() => {
                let shown = path.display();
                return Err(format!(
                    "{shown} is there already, and is no link to europa: remove it, or choose \
                     another folder and put that first in PATH"
                )
                .into());
            }
            _ => {}
        }
        symlink(&binary, &path).map_err(|error| failed(&path, error))?;
        line!("{} -> {}", path.display(), binary.display());
    }
    Ok(ExitCode::SUCCESS)
}
