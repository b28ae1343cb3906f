//! A real etcd for tests, with its data in memory.

mod tls;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use europa_cluster::{Access, Etcd};

/// A member of etcd; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    folder: tempfile::TempDir,
    ports: [u16; 2],
    options: Vec<(&'static str, PathBuf)>,
}

/// Whether etcd is installed; if not, prints that the test is skipped.
pub(crate) fn is_there() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join("etcd").is_file());
    if !there {
        let test = std::thread::current().name().unwrap_or("test").to_owned();
        eprintln!("skipped: {test}: etcd is not installed (`apt install etcd-server`)");
    }
    there
}

impl Server {
    /// Starts a member and waits until it answers.
    pub(crate) async fn start() -> (Server, Etcd) {
        let server = Server::spawn(Vec::new());
        let etcd = server.connect().await;
        (server, etcd)
    }

    /// Starts a member, with TLS if options name files for it.
    fn spawn(options: Vec<(&'static str, PathBuf)>) -> Server {
        let shared = Path::new("/dev/shm");
        let folder = match shared.is_dir() {
            true => tempfile::tempdir_in(shared),
            false => tempfile::tempdir(),
        };
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            (listener.local_addr().expect("an address").port(), listener)
        };
        let ports = {
            let (one, other) = (free(), free());
            [one.0, other.0]
        };
        let folder = folder.expect("a folder");
        let child = spawn(folder.path(), ports, &options);
        Server { child, folder, ports, options }
    }

    /// How to reach it.
    fn access(&self) -> Access {
        let endpoints = vec![self.url()];
        Access { endpoints, cluster: "test".into(), tls: None }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", scheme(&self.options), self.ports[0])
    }

    /// Connects when it answers.
    pub(crate) async fn connect(&self) -> Etcd {
        let start = Instant::now();
        loop {
            match Etcd::connect(&self.access()).await {
                Ok(etcd) => return etcd,
                Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills it; its data remain.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on its data.
    pub(crate) fn again(&mut self) {
        self.child = spawn(self.folder.path(), self.ports, &self.options);
    }
}

fn scheme(options: &[(&'static str, PathBuf)]) -> &'static str {
    if options.is_empty() { "http" } else { "https" }
}

fn spawn(folder: &Path, [clients, peers]: [u16; 2], options: &[(&'static str, PathBuf)]) -> Child {
    let client = format!("{}://127.0.0.1:{clients}", scheme(options));
    let peer = format!("http://127.0.0.1:{peers}");
    let mut command = Command::new("etcd");
    for (option, file) in options {
        command.arg(option).arg(file);
    }
    if !options.is_empty() {
        command.arg("--client-cert-auth");
    }
    command
        .args(["--name", "first", "--data-dir"])
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("first={peer}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd starts")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
