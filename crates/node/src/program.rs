//! Data planes of users' own: checks before one is started.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use europa_api::{Problem, Router};

/// Reports a program that this machine does not have, or that cannot be executed.
pub(crate) fn check(router: &Router, problems: &mut Vec<Problem>) {
    let Some(command) = router.fast_path.program.first() else { return };
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
