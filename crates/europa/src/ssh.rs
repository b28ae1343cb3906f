//! Logins by SSH: the processes that sshd and the node start, and `ssh-config`.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use europa_api::Role;
use europa_api::rest::{NodeInfo, Objects, Whoami};
use europa_node::Instance;
use europa_node::ssh::{self, Entry};

use crate::exit::Failure;
use crate::roles::name_process;
use crate::table::line;
use crate::target;

/// Options of `ssh-config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// Name or address of the node's machine. Default: that of the URL, or of --ssh.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// File with the private key to log in with. Default: as ssh finds it.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

/// Prints an entry of `~/.ssh/config` for each router that the caller may enter.
pub(crate) fn config(instance: &Instance, args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let client = target::client(instance);
    let info: NodeInfo = client.get("/v1/node")?;
    let at = info.ssh_at.ok_or("this node takes no logins by SSH: start it with --ssh")?;
    let at: SocketAddr = at.parse().map_err(|_| format!("{at} is no address and port"))?;
    let host = match (&args.host, target::remote()) {
        (Some(host), _) => host.clone(),
        (None, Some(remote)) => remote.host().to_owned(),
        (None, None) if at.ip().is_unspecified() => "localhost".to_owned(),
        (None, None) => at.ip().to_string(),
    };
    if let Some(wrong) = host.chars().find(|c| !(c.is_ascii_alphanumeric() || ".:-".contains(*c))) {
        return Err(Failure::usage(format!("{wrong:?} cannot stand in the name of a machine")));
    }
    let who: Whoami = client.get("/v1/whoami")?;
    let routers: Objects = client.get("/v1/routers")?;
    let may = |slice: &str| who.admin || who.roles.get(slice) >= Some(&Role::Operator);
    for router in routers.items {
        let Some((slice, name)) = router.name.split_once('/') else { continue };
        if router.document.get("slow_path").is_some_and(|slow| !slow.is_null()) && may(slice) {
            line!("{}", entry((slice, name), (&host, at.port()), args.identity.as_deref()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The entry of a router. Its connection passes through a verified connection to the node, so the
/// key of the inner sshd proves nothing more. That key changes at each start of the slow path.
fn entry(
    (slice, name): (&str, &str),
    (host, port): (&str, u16),
    identity: Option<&std::path::Path>,
) -> String {
    let file = identity.map(|path| format!("\"{}\"", path.display()));
    let own = file.as_ref().map_or(String::new(), |file| format!("\n    IdentityFile {file}"));
    let outer = file.map_or(String::new(), |file| format!("-i {file} "));
    format!(
        "Host {slice}.{name}\n    User root\n    HostName {slice}.{name}{own}\n    \
         ProxyCommand ssh -p {port} {outer}europa@{host} {slice}/{name} @sshd\n    \
         StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n    LogLevel ERROR"
    )
}

/// Prints the lines of `authorized_keys` for a key.
pub(crate) fn keys(instance: &Instance, kind: &str, key: &str) -> Result<ExitCode, Failure> {
    for found in ssh::keys(instance, kind, key)? {
        line!("{found}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a session through the node.
pub(crate) fn session(instance: &Instance, user: &str, key: &str) -> ExitCode {
    match ssh::session(instance, user, key) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            // A terminal may have hung up.
            let _ = writeln!(std::io::stderr(), "europa: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Attends to a session.
pub(crate) fn attend(instance: &Instance) -> Result<ExitCode, Failure> {
    name_process(c"europa-ssh");
    ssh::attend(instance)?;
    Ok(ExitCode::SUCCESS)
}

/// Executes the program of a session in place of this process.
pub(crate) fn enter(instance: &Instance, router: &str, entry: &Entry) -> ExitCode {
    let why = match ssh::enter(instance, router, entry) {
        Ok(never) => {
            let never: Infallible = never;
            match never {}
        }
        Err(why) => why,
    };
    let _ = writeln!(std::io::stderr(), "europa: {why}");
    ExitCode::from(126)
}

/// Runs sshd.
pub(crate) fn daemon(instance: &Instance) -> Result<ExitCode, Failure> {
    name_process(c"europa-sshd");
    Ok(ExitCode::from(ssh::supervise(instance)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_router_and_node() {
        let text = entry(("red", "r1"), ("2001:db8::1", 2222), None);
        assert!(
            text.contains("ProxyCommand ssh -p 2222 europa@2001:db8::1 red/r1 @sshd\n"),
            "{text}"
        );
        let text = entry(("red", "r1"), ("n", 22), Some("/k y".as_ref()));
        assert!(text.contains("IdentityFile \"/k y\"\n") && text.contains("-i \"/k y\" europa@n"));
    }
}
