//! `docker cp`: copies files and folders into a container and out of it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::arguments::Arguments;
use super::lab::{self, Container, Surroundings};
use crate::exit::Failure;

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum End<'a> {
    Here(&'a str),
    Inside(&'a str, &'a str),
}

/// A path with a slash before its first colon belongs to the machine, not to a container.
fn end(text: &str) -> End<'_> {
    match text.split_once(':') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') && !name.starts_with('.') => {
            End::Inside(name, path)
        }
        _ => End::Here(text),
    }
}

pub(super) fn run(all: &Arguments) -> Result<(), Failure> {
    let [from, to] = all.words.as_slice() else {
        return Err(Failure::usage("docker cp: FILE CONTAINER:PATH, or CONTAINER:PATH FILE"));
    };
    let labs = lab::all();
    match (end(from), end(to)) {
        (End::Here("-"), _) | (_, End::Here("-")) => Err(Failure::usage(
            "docker cp: Europa's stand-in copies no archives; name a file or a folder",
        )),
        (End::Here(from), End::Inside(name, to)) => {
            into(&lab::container(&labs, name)?, Path::new(from), to)
        }
        (End::Inside(name, from), End::Here(to)) => {
            out_of(&lab::container(&labs, name)?, from, Path::new(to))
        }
        _ => Err(Failure::usage("docker cp: one of both ends is in a container: CONTAINER:PATH")),
    }
}

/// Runs a script in a shell inside the container, with words for `$1`, `$2` and so on.
fn script(one: &Container<'_>, script: &str, words: &[&str]) -> Result<Command, Failure> {
    let all: Vec<String> =
        ["sh", "-c", script, "sh"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    one.command(&one.dressed(&all, &Surroundings::default()))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs a command; its error output becomes the error.
fn finish(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let done = command.stderr(Stdio::piped()).output()?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(format!("docker cp: {}", String::from_utf8_lossy(&done.stderr).trim()).into())
}

fn into(one: &Container<'_>, from: &Path, to: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| format!("docker cp: {}: {error}", from.display());
    let found = fs::metadata(from).map_err(failed)?;
    let mode = format!("{:o}", found.permissions().mode() & 0o7777);
    if found.is_dir() {
        // `FOLDER/.` means its contents.
        let contents = from.as_os_str().as_encoded_bytes().ends_with(b"/.");
        let name = if contents { String::new() } else { name_of(&from.canonicalize()?) };
        let text = "if [ -d \"$1\" ] && [ -n \"$2\" ]; then d=$1/$2; else d=$1; fi; \
             mkdir -p -- \"$d\" && exec tar -x -f - --no-same-owner -C \"$d\"";
        let mut archive = Command::new("tar")
            .args(["-c", "-f", "-", "-C"])
            .arg(from)
            .arg(".")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let Some(pipe) = archive.stdout.take() else { return Err("no pipe".into()) };
        finish(script(one, text, &[to, &name])?.stdin(pipe))?;
        let status = archive.wait()?;
        return match status.success() {
            true => Ok(()),
            false => Err(format!("docker cp: tar ended with {status}").into()),
        };
    }
    let text = "if [ -d \"$1\" ]; then f=$1/$2; else f=$1; fi; \
         cat > \"$f\" && chmod \"$3\" -- \"$f\"";
    let file = File::open(from).map_err(failed)?;
    finish(script(one, text, &[to, &name_of(from), &mode])?.stdin(file))?;
    Ok(())
}

fn out_of(one: &Container<'_>, from: &str, to: &Path) -> Result<(), Failure> {
    let kind = "if [ -d \"$1\" ]; then echo folder; elif [ -e \"$1\" ]; then stat -L -c %a -- \"$1\"; \
         else echo \"Could not find the file $1\" >&2; exit 1; fi";
    let said = finish(&mut script(one, kind, &[from])?)?;
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let contents = from.ends_with("/.");
    let name = name_of(Path::new(from.trim_end_matches("/.").trim_end_matches('/')));
    let target: PathBuf = if to.is_dir() && !contents { to.join(&name) } else { to.to_path_buf() };
    let failed = |error: io::Error| format!("docker cp: {}: {error}", target.display());
    if said == "folder" {
        fs::create_dir_all(&target).map_err(failed)?;
        let mut archive =
            script(one, "exec tar -c -f - -C \"$1\" .", &[from])?.stdout(Stdio::piped()).spawn()?;
        let Some(pipe) = archive.stdout.take() else { return Err("no pipe".into()) };
        // The container's programs write this archive, so unpacking it must make no devices.
        let mut unpack = Command::new("setpriv");
        unpack.args(["--bounding-set=-mknod", "--inh-caps=-mknod", "tar", "-x", "-f", "-"]);
        unpack.args(["--no-same-owner", "-C"]).arg(&target).stdin(pipe);
        finish(&mut unpack)?;
        archive.wait()?;
        return Ok(());
    }
    let mode = u32::from_str_radix(&said, 8)
        .map_err(|_| format!("docker cp: {from} has the strange mode {said:?}"))?;
    let mut file = File::create(&target).map_err(failed)?;
    let mut read = script(one, "exec cat -- \"$1\"", &[from])?.stdout(Stdio::piped()).spawn()?;
    let Some(mut pipe) = read.stdout.take() else { return Err("no pipe".into()) };
    io::copy(&mut pipe, &mut file).map_err(failed)?;
    // Any process of the container may have made the file, so set-user-id bits are not copied.
    fs::set_permissions(&target, fs::Permissions::from_mode(mode & 0o777)).map_err(failed)?;
    match read.wait()?.success() {
        true => Ok(()),
        false => Err(format!("docker cp: {from} could not be read").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        for (text, wanted) in [
            ("clab-l-a:/etc/x", End::Inside("clab-l-a", "/etc/x")),
            ("./a:b", End::Here("./a:b")),
            ("/tmp/x", End::Here("/tmp/x")),
            ("file", End::Here("file")),
            ("a:b:c", End::Inside("a", "b:c")),
        ] {
            assert_eq!(end(text), wanted, "{text}");
        }
    }
}
