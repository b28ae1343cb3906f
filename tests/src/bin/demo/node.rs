//! Requests to `europa`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use europa_tests::{Error, Namespace, run};
use serde_json::Value;

/// An instance of `europa`, whose program was built beside this one.
#[derive(Debug)]
pub(crate) struct Node {
    program: String,
    instance: String,
}

/// The part of `europa stats` about a router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) pid: i32,
    pub(crate) restarts: u64,
}

impl Node {
    pub(crate) fn new(instance: &str) -> Node {
        let beside = || std::env::current_exe().unwrap_or_default().with_file_name("europa");
        let program = std::env::var_os("EUROPA").map_or_else(beside, PathBuf::from);
        Node { program: program.to_string_lossy().into_owned(), instance: instance.to_owned() }
    }

    fn command<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [&[self.program.as_str(), "--instance", &self.instance], words].concat()
    }

    /// Checks whether this machine can run Europa; the error says why not.
    pub(crate) fn doctor(&self) -> Result<(), Error> {
        run(&self.command(&["doctor"])).map(drop)
    }

    /// Brings a file up inside a network namespace. The command enters only that: `ip netns exec`
    /// would also hide the control groups and the mounts that the node makes.
    pub(crate) fn up(&self, at: &Namespace, file: &str) -> Result<(), Error> {
        let namespace = format!("--net={}", at.path().display());
        run(&[&["nsenter", &namespace], &self.command(&["up", file])[..]].concat()).map(drop)
    }

    /// Applies a changed file; returns the text that `europa apply` prints.
    pub(crate) fn apply(&self, file: &str) -> Result<String, Error> {
        run(&self.command(&["apply", file])).map(|output| output.stdout)
    }

    /// Takes the node down, or removes the objects of a killed node.
    pub(crate) fn down(&self) {
        if let Err(error) = run(&self.command(&["down"])) {
            eprintln!("{error}");
        }
    }

    /// The whole output of `europa stats`.
    pub(crate) fn stats(&self) -> Result<Value, Error> {
        let stats = run(&self.command(&["stats", "--json"]))?;
        Ok(serde_json::from_str(&stats.stdout).unwrap_or_default())
    }

    /// Writes a handler of a router's element.
    pub(crate) fn write(&self, router: &str, handler: &str, value: &str) -> Result<(), Error> {
        run(&self.command(&["write", router, handler, value])).map(drop)
    }

    /// The statistics of a running router.
    pub(crate) fn router(&self, name: &str) -> Result<Option<Router>, Error> {
        let stats = self.stats()?;
        let routers = stats["routers"].as_array().cloned().unwrap_or_default();
        Ok(routers.iter().find(|router| router["name"] == name).and_then(|router| {
            let pid = router["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())?;
            Some(Router { pid, restarts: router["restarts"].as_u64()? })
        }))
    }

    /// Waits until a router runs in another process than `pid`.
    pub(crate) fn wait_for_another(&self, name: &str, pid: i32) -> Result<Option<Router>, Error> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            if let Some(router) = self.router(name)?.filter(|router| router.pid != pid) {
                return Ok(Some(router));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(None)
    }
}
