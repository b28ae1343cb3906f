//! Programs of this machine: where they are, and checks of users' own data planes before their start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use europa_api::{Problem, Router};
use europa_slowpath::environment::PATH;

/// Whether there is an executable file.
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The path of a program in the folders of [`PATH`].
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    PATH.split(':').map(|folder| Path::new(folder).join(name)).find(|path| is_program(path))
}

/// Reports a program that this machine does not have, or that cannot be executed.
pub(crate) fn check(router: &Router, problems: &mut Vec<Problem>) {
    let fast_path = &router.fast_path;
    let Some(command) = fast_path.program.first().or(fast_path.elements.as_ref()) else { return };
    let problem = match fs::metadata(&*command.value) {
        Err(error) => {
            let text = error.to_string();
            let reason = text.split(" (os error").next().unwrap_or(&text).to_owned();
            Problem::new(command.place, format!("{}: {reason}", command.value)).label("not there")
        }
        Ok(file) if !file.is_file() || file.permissions().mode() & 0o001 == 0 => Problem::new(
            command.place,
            format!("{} cannot be executed by everybody", command.value),
        )
        .label("no program")
        .help(format!("chmod 755 {}; it runs under a user of its own", command.value)),
        Ok(_) => return,
    };
    problems.push(problem);
}
