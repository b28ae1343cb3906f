//! A host's commands, run by one shell inside.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use europa_api::Host;
use europa_host::Inside;

use super::record::refused;
use crate::{Instance, NodeError};

/// The commands of a host, which one shell runs.
pub(super) struct Commands {
    /// None if another node has started it.
    child: Option<Child>,
    /// The file with the shell's exit code.
    ended: PathBuf,
}

impl Commands {
    /// Those of a host that another node has made.
    pub(super) fn adopt(instance: &Instance, host: &str) -> Commands {
        Commands { child: None, ended: ended(instance, host) }
    }

    /// The code with which the shell has ended; 128 and the number of a signal that ended it.
    pub(super) fn code(&mut self) -> Option<i32> {
        match &mut self.child {
            Some(child) => {
                let status = child.try_wait().ok()??;
                Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
            }
            None => fs::read_to_string(&self.ended).ok()?.trim().parse().ok(),
        }
    }

    /// Waits for the end of a shell whose processes are being ended.
    pub(super) fn wait(&mut self) -> std::io::Result<()> {
        self.child.as_mut().map_or(Ok(()), |child| child.wait().map(drop))
    }
}

fn ended(instance: &Instance, host: &str) -> PathBuf {
    europa_host::folder(&instance.directory(), host).join("ended")
}

/// Notes the code with which the shell of a host's commands has ended, for a node that has not
/// started it.
pub fn note_code(instance: &Instance, host: &str, code: u8) {
    let path = ended(instance, host);
    let new = path.with_extension("new");
    // A host that is being removed has no folder any more.
    let _ = fs::write(&new, code.to_string()).and_then(|()| fs::rename(&new, &path));
}

/// Starts a shell that runs a host's commands; their output goes to `log`.
pub(super) fn run(instance: &Instance, host: &Host, log: File) -> Result<Commands, NodeError> {
    let ended = ended(instance, &host.name);
    let _ = fs::remove_file(&ended);
    let script = script(host.run.iter().map(|line| line.value.as_str()));
    let child = start(instance, host, &["--", "/bin/sh", "-c", &script], log);
    let child = child.map_err(|error| refused(host, &["run"], format!("its commands: {error}")))?;
    Ok(Commands { child: Some(child), ended })
}

/// Starts the command of a host's image, if it has one; `inside` is the view of its programs, and
/// `log` opens the log for its output.
pub(super) fn run_image(
    instance: &Instance,
    host: &Host,
    inside: Option<&Inside>,
    log: impl FnOnce() -> Result<File, NodeError>,
) -> Result<Option<Commands>, NodeError> {
    let image = inside.and_then(|inside| inside.image.as_ref());
    let words = image.map(|image| image.words()).unwrap_or_default();
    if words.is_empty() {
        return Ok(None);
    }
    let all: Vec<&str> =
        ["--image", "--"].into_iter().chain(words.iter().map(|one| &**one)).collect();
    let child = start(instance, host, &all, log()?);
    let child = child.map_err(|error| refused(host, &["root"], format!("its command: {error}")))?;
    Ok(Some(Commands { child: Some(child), ended: PathBuf::new() }))
}

/// Starts the role `host-run`, which enters the host, and its control group, by itself.
fn start(instance: &Instance, host: &Host, arguments: &[&str], log: File) -> io::Result<Child> {
    let errors = log.try_clone()?;
    Command::new("/proc/self/exe")
        .arg0("europa")
        .args(["--instance", instance.name(), "host-run", &host.name])
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
}

/// Lines as one script: after a failed one the next ones still run, and its code is the shell's own
/// in the end.
fn script<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let mut script = "europa_failed=0\n".to_owned();
    for line in lines {
        // `eval` runs each line in the shell, so that it can change the shell; `command` limits the
        // effect of a syntax error to its line.
        script += &format!("command eval {}\n", quoted(line));
        let told = quoted(&format!("europa: failed: {line}"));
        script += &format!(
            "europa_code=$?; if [ $europa_code -ne 0 ]; then europa_failed=$europa_code; \
             printf '%s (code %s)\\n' {told} $europa_code >&2; fi\n"
        );
    }
    script + "exit $europa_failed\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_fails_is_told_and_the_others_are_run() {
        for (lines, code, out, told) in [
            (&["X='a b'", "cd /", "echo \"$X\" $PWD"][..], 0, "a b /\n", ""),
            (&["false", "echo on"], 1, "on\n", "europa: failed: false (code 1)\n"),
            (&["sh -c 'exit 7'", "true"], 7, "", "europa: failed: sh -c 'exit 7' (code 7)\n"),
            (&["exit 3", "echo no"], 3, "", ""),
        ] {
            let output = Command::new("/bin/sh")
                .args(["-c", &script(lines.iter().copied())])
                .output()
                .expect("a shell");
            assert_eq!(output.status.code(), Some(code), "{lines:?}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{lines:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), told, "{lines:?}");
        }
        // A line that no shell understands.
        let output = Command::new("/bin/sh")
            .args(["-c", &script(["if", "echo on"].into_iter())])
            .output()
            .expect("a shell");
        assert_ne!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "on\n");
    }
}
