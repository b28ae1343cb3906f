//! A host's commands: one shell inside runs them.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use europa_api::Host;
use europa_port::{Namespace, in_namespace};
use europa_sandbox::cgroup::Group;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::{own, refused};
use crate::{Instance, NodeError};

/// Starts a shell that runs a host's commands; what they say goes to `log`.
pub(crate) fn run(
    instance: &Instance,
    host: &Host,
    log: File,
    group: Option<&Group>,
) -> Result<Child, NodeError> {
    let failed = |error: std::io::Error| refused(host, &["run"], format!("its commands: {error}"));
    let inside = Namespace::named(&own(instance, &host.name)).map_err(failed)?;
    let script = host.run.iter().map(|line| line.value.as_str()).collect::<Vec<_>>().join("\n");
    let errors = log.try_clone().map_err(failed)?;
    let child = in_namespace(&inside, || {
        visit()?;
        Command::new("/bin/sh")
            .args(["-c", &script])
            .envs(host.env.0.iter().map(|(name, value)| (&name.value, &value.value)))
            .env("HOSTNAME", &**host.name)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
    });
    let child = child.and_then(|child| child).map_err(failed)?;
    if let Some(group) = group
        && let Err(error) = group.add(child.id())
    {
        tracing::warn!("host {}: {error}", host.name);
    }
    Ok(child)
}

/// Gives this thread, which is inside, a `/sys` that shows the devices there, as
/// `ip netns exec` does.
fn visit() -> std::io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let (none, flags) = (None::<&str>, MsFlags::MS_SLAVE | MsFlags::MS_REC);
    mount(none, "/", none, flags, none)?;
    let sys = Path::new("/sys");
    // What lies below stays visible under the new one only where it is mounted again;
    // commands of a host need its devices, not control groups.
    let _ = umount2(sys, MntFlags::MNT_DETACH);
    mount(Some("sysfs"), sys, Some("sysfs"), MsFlags::empty(), none)?;
    Ok(())
}
