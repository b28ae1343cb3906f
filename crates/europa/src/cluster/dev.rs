//! `cluster dev`: several nodes on this machine, with a real etcd, for trying and for tests.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_api::{Bundle, Source};
use europa_cluster::{Access, Etcd, Options, Wish, members, wait};
use nix::fcntl::{Flock, FlockArg};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::machine::{Kept, address, make, make_bridge, namespace, namespaces, run};
use crate::exit::Failure;
use crate::table::line;

/// Time for all of it to be up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Programs that this command needs, and their packages.
const PROGRAMS: [(&str, &str); 4] = [
    ("etcd", "etcd-server"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
];

/// The folder of a cluster, in memory so that etcd is fast.
fn folder(name: &str) -> PathBuf {
    Path::new("/dev/shm").join(format!("cluster-{name}"))
}

/// The URL of the etcd of this cluster, if it runs.
pub(super) fn etcd(name: &str) -> Option<String> {
    Some(fs::read_to_string(folder(name).join("etcd.url")).ok()?.trim().to_owned())
}

/// Names of instances begin with a letter or digit and are short.
fn check(name: &str) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 20 || !name.chars().all(fits) {
        return Err(Failure::usage(format!(
            "{name:?} is no name: use up to 20 lower-case letters, digits and dashes"
        )));
    }
    if !nix::unistd::geteuid().is_root() {
        return Err("`europa cluster dev` needs root: it makes network namespaces".into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    for (program, package) in PROGRAMS {
        if !is_there(&program) {
            return Err(format!("{program} is missing: `apt install {package}`").into());
        }
    }
    Ok(())
}

/// The lock of a cluster's name: only one process can hold it.
fn lock(name: &str) -> Result<Flock<File>, Failure> {
    fs::create_dir_all(folder(name))?;
    let file = File::options().create(true).append(true).open(folder(name).join("lock"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| format!("`europa cluster dev --name {name}` runs already").into())
}

/// Removes the remains of a killed `cluster dev`.
pub(super) fn remove(name: &str) -> Result<ExitCode, Failure> {
    check(name)?;
    let _lock = lock(name)?;
    clean(name)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the nodes of a cluster, and removes its namespaces and files.
fn clean(name: &str) -> Result<(), Failure> {
    for (number, namespace) in namespaces(name) {
        if number > 0 {
            let net = format!("--net=/run/netns/{namespace}");
            let instance = format!("{name}-{number}");
            // A node that was never started leaves nothing.
            let down = Command::new("nsenter")
                .args([net.as_str(), program_path().as_str(), "--instance", &instance, "down"])
                .stdin(Stdio::null())
                .output();
            if let Ok(output) = down
                && !output.status.success()
            {
                eprintln!("europa: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            // The agent's note kept the folder from being removed.
            let left = Path::new("/run/europa").join(&instance);
            let _ = fs::remove_file(left.join("cluster"));
            let _ = fs::remove_dir(left);
        }
        run(&["ip", "netns", "delete", &namespace])?;
    }
    match fs::remove_dir_all(folder(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder(name).display()).into())
        }
        _ => Ok(()),
    }
}

/// The path of this program.
fn program_path() -> String {
    std::env::current_exe().map_or("europa".into(), |path| path.to_string_lossy().into_owned())
}

/// All running processes.
struct Dev {
    name: String,
    kept: Vec<Kept>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let name = self.name.clone();
        // Agents end first; nodes end by `down`, which removes their objects.
        let (nodes, others): (Vec<_>, Vec<_>) = self.kept.drain(..).partition(Kept::is_node);
        others.into_iter().rev().for_each(Kept::kill);
        if let Err(error) = clean(&name) {
            error.report();
        }
        nodes.into_iter().for_each(Kept::kill);
    }
}

pub(super) fn dev(nodes: u8, name: &str) -> Result<ExitCode, Failure> {
    check(name)?;
    let lock = lock(name)?;
    clean(name)?;
    fs::create_dir_all(folder(name))?;
    // `clean` removed the lock's file, so a new file must be locked.
    drop(lock);
    let _lock = self::lock(name)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut dev = Dev { name: name.to_owned(), kept: Vec::new() };
    let url = dev.start(nodes)?;
    let access = Access { endpoints: vec![url.clone()], cluster: "default".into(), tls: None };
    dev.ready(&access, nodes, &stop)?;
    let told = if name == "dev" { String::new() } else { format!(" --etcd {url}") };
    line!("{nodes} nodes run: n1 to n{nodes}. Ctrl-C ends and removes them.");
    line!("  europa cluster{told} status");
    line!("  europa cluster{told} apply FILE");
    line!("  europa --instance {name}-1 status     asks node n1 alone");
    while !stop.load(Ordering::Relaxed) {
        for kept in &mut dev.kept {
            if let Some(said) = kept.look()? {
                eprintln!("europa: {said}");
            }
        }
        sleep(Duration::from_millis(50));
    }
    Ok(ExitCode::SUCCESS)
}

/// Unused ports of this machine.
fn free_ports() -> Result<[u16; 2], Failure> {
    let [one, other] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

impl Dev {
    /// Starts etcd, nodes and agents. Returns etcd's URL.
    fn start(&mut self, nodes: u8) -> Result<String, Failure> {
        let folder = folder(&self.name);
        let [clients, peers] = free_ports()?;
        let (url, peers) =
            (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let data = folder.join("data").to_string_lossy().into_owned();
        let first = format!("first={peers}");
        let etcd = [
            "etcd",
            "--name",
            "first",
            "--data-dir",
            &data,
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &first,
            "--auto-compaction-mode",
            "periodic",
            "--auto-compaction-retention",
            "1h",
        ];
        self.kept.push(Kept::start("etcd", &etcd, &folder)?);
        fs::write(folder.join("etcd.url"), &url)?;
        make_bridge(&self.name)?;
        let program = program_path();
        for number in 1..=nodes {
            make(&self.name, number)?;
            let net = format!("--net=/run/netns/{}", namespace(&self.name, number));
            let instance = format!("{}-{number}", self.name);
            let node = ["nsenter", &net, &program, "--instance", &instance, "node", "--temporary"];
            self.kept.push(Kept::start(&format!("node-{number}"), &node, &folder)?);
        }
        for number in 1..=nodes {
            let instance = format!("{}-{number}", self.name);
            let name = format!("n{number}");
            let agent = [
                program.as_str(),
                "--instance",
                &instance,
                "cluster",
                "--etcd",
                &url,
                "agent",
                "--name",
                &name,
            ];
            self.kept.push(Kept::start(&format!("agent-{number}"), &agent, &folder)?);
        }
        Ok(url)
    }

    /// Waits until all nodes have a lease, and gives each a document.
    fn ready(&mut self, access: &Access, nodes: u8, stop: &AtomicBool) -> Result<(), Failure> {
        let start = Instant::now();
        let connected = loop {
            let all = wait(async { members(&Etcd::connect(access).await?).await });
            match all {
                Ok(all) if all.len() >= usize::from(nodes) => break true,
                _ if stop.load(Ordering::Relaxed) => return Err("stopped".into()),
                _ if start.elapsed() > PATIENCE => break false,
                _ => {}
            }
            for kept in &mut self.kept {
                if !kept.runs() {
                    return Err(format!("a process ended:\n{}", kept.said()).into());
                }
            }
            sleep(Duration::from_millis(50));
        };
        if !connected {
            let seconds = PATIENCE.as_secs();
            let logs = folder(&self.name);
            return Err(format!(
                "not all nodes were there within {seconds} s; {} has their logs",
                logs.display()
            )
            .into());
        }
        let document =
            |number: u8| format!("kind: node\nname: n{number}\naddress: {}\n", address(number));
        let text = (1..=nodes).map(document).collect::<Vec<_>>().join("---\n");
        let bundle = Bundle::of(vec![Source { path: "cluster dev".into(), text }]);
        let wish = Wish { bundle, ..Wish::default() };
        wait(async {
            let etcd = Etcd::connect(access).await?;
            europa_cluster::apply(&etcd, &wish, Options::default()).await
        })?;
        Ok(())
    }
}
