//! The process that becomes clang.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use europa_sandbox::{ToolLimits, lock_tool};

/// Limits for clang, which needs less than a second for a header of the system.
const LIMITS: ToolLimits = ToolLimits { cpu_seconds: 30, address_space_bytes: 4 << 30 };

/// Confines this process and executes clang: `command` is clang with its arguments, `readable` are
/// the folders that it may read in addition to the system's. Returns only if that failed, with the
/// reason.
pub fn become_compiler(readable: &[PathBuf], command: &[String]) -> String {
    let Some((program, arguments)) = command.split_first() else {
        return "there is no command".into();
    };
    if let Err(error) = lock_tool(readable, &LIMITS) {
        return error.to_string();
    }
    let error = Command::new(program).args(arguments).exec();
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{program} was not found; install clang (Debian: `apt install clang`)")
        }
        _ => format!("{program}: {error}"),
    }
}
