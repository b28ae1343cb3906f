//! Where a Docker container is: its first process, by Docker's API, or, for the id of a
//! container without Docker's daemon, by the control groups in `/proc`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

const SOCKET: &str = "/var/run/docker.sock";
const PATIENCE: Duration = Duration::from_secs(5);

/// The first process of a container, by name or id.
pub(super) fn pid(name: &str) -> Result<u32, String> {
    let socket = match std::env::var("DOCKER_HOST") {
        Ok(host) => host.strip_prefix("unix://").map(str::to_owned).ok_or_else(|| {
            format!("DOCKER_HOST is {host}: only Docker on this machine can be asked, unix://…")
        })?,
        Err(_) => SOCKET.to_owned(),
    };
    match ask(&socket, name) {
        Ok(answer) => read(&answer, name),
        Err(error) => by_group(name).ok_or_else(|| {
            format!("Docker cannot be asked for the container {name}: {socket}: {error}")
        }),
    }
}

/// Asks Docker about one container.
fn ask(socket: &str, name: &str) -> std::io::Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(std::io::Error::other("letters, digits, '_', '-' and '.' make its name"));
    }
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Version 1.0: the answer ends with the connection and is not cut into chunks.
    write!(stream, "GET /containers/{name}/json HTTP/1.0\r\nHost: docker\r\n\r\n")?;
    let mut answer = String::new();
    // A container's description has tens of kilobytes.
    stream.take(4 << 20).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Reads Docker's answer.
fn read(answer: &str, name: &str) -> Result<u32, String> {
    let strange = || format!("Docker's answer about the container {name} is not understood");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(strange)?;
    let status = head.split_whitespace().nth(1).ok_or_else(strange)?;
    let body: Value = serde_json::from_str(body.trim()).map_err(|_| strange())?;
    if status != "200" {
        let message = body["message"].as_str().unwrap_or(status);
        return Err(format!("Docker says: {message}"));
    }
    match body["State"]["Pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()) {
        Some(0) => Err(format!("the container {name} does not run")),
        Some(pid) => Ok(pid),
        None => Err(strange()),
    }
}

/// The first process whose control group carries a container's id, given by at least twelve digits.
fn by_group(id: &str) -> Option<u32> {
    if id.len() < 12 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        has_id(&groups, id)
    })
    .min()
}

/// Whether control groups are a container's: `…/docker/ID`, `…/docker-ID.scope`.
fn has_id(groups: &str, id: &str) -> bool {
    let parts = groups.lines().flat_map(|line| line.split(['/', '-', '.']));
    parts.into_iter().any(|part| part.len() == 64 && part.starts_with(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let ok = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";
        let missing = "HTTP/1.0 404 Not Found\r\n\r\n{\"message\":\"No such container: web\"}\n";
        for (answer, wanted) in [
            (format!("{ok}{{\"State\":{{\"Running\":true,\"Pid\":4711}}}}"), Ok(4711)),
            (format!("{ok}{{\"State\":{{\"Pid\":0}}}}"), Err("does not run")),
            (format!("{ok}{{}}"), Err("not understood")),
            (missing.to_owned(), Err("Docker says: No such container: web")),
            ("nonsense".to_owned(), Err("not understood")),
        ] {
            match (read(&answer, "web"), wanted) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
                (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{found}"),
                (found, wanted) => panic!("{answer}: {found:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn groups() {
        let id = "4f5c0e4b1a2d".repeat(6)[..64].to_owned();
        for (groups, has) in [
            (format!("12:cpu:/docker/{id}\n0::/docker/{id}"), true),
            (format!("0::/system.slice/docker-{id}.scope"), true),
            ("0::/user.slice".to_owned(), false),
            (format!("0::/docker/{}", &id[..20]), false),
        ] {
            assert_eq!(has_id(&groups, &id[..12]), has, "{groups}");
        }
        assert_eq!(by_group("web"), None, "a name is no id");
    }

    #[test]
    fn without_docker_the_reason_is_told() {
        let error = ask("/nonexistent/docker.sock", "web").expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(ask("/nonexistent", "a b").is_err(), "no name of a container");
    }
}
