//! Three routers in a row, as for `veth`: packets follow routes, or a path with labels.

use std::time::{Duration, Instant};

use crate::cli::Options;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::systems::europa::{CHAIN, Europa};
use crate::systems::{Arrangement, System};
use crate::testbed::Testbed;

/// The measured flow: enough for its packets.
const MEASURED: &str = "---\nkind: flow\nname: measured\nslice: bench\nfrom: r1\nto: r3\n\
    bandwidth: 200Mb/s\nburst: 12kB\nprefixes: [10.0.1.0/24]\n";
/// The flow that sends too much. Its reservation is a tenth of [`FLOOD_PPS`] packets of 56 bytes.
const FLOOD: &str = "---\nkind: flow\nname: flood\nslice: bench\nfrom: r1\nto: r3\n\
    bandwidth: 9Mb/s\nburst: 6kB\nprefixes: [10.1.0.0/16]\n";
/// Packets per second of the flood.
pub(super) const FLOOD_PPS: u64 = 200_000;
/// Paths that need more time are down.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way through three routers.
pub(super) struct Network {
    europa: Europa,
    has_paths: bool,
    is_inline: bool,
}

impl Network {
    fn new(options: &Options, has_paths: bool, is_inline: bool) -> Self {
        Self { europa: Europa::new(options.europa.clone()), has_paths, is_inline }
    }

    /// All that are measured.
    pub(super) fn all(options: &Options) -> impl Iterator<Item = Self> {
        let kinds = [(false, false), (true, false), (false, true), (true, true)];
        kinds.map(|(has_paths, is_inline)| Self::new(options, has_paths, is_inline)).into_iter()
    }

    /// Isolated routers that signal.
    pub(super) fn signalled(options: &Options) -> Self {
        Self::new(options, true, false)
    }

    /// The system without paths that one with paths is compared with.
    pub(super) fn plain_of(name: &str) -> &'static str {
        if name.contains("inline") { "routes-inline" } else { "routes" }
    }

    /// The objects to start.
    fn documents(&self) -> String {
        let mut text = CHAIN.replace(
            "    - {to: 10.1.0.0/16, via: 10.0.1.2}\n",
            // What arrives of the flood ends at the last router.
            "    - {to: 10.1.0.0/16}\n",
        );
        if self.is_inline {
            text = text
                .replace("\nslice: bench\ninterfaces", "\nslice: bench\nrun: inline\ninterfaces");
        }
        if self.has_paths {
            text = text.replace("/30]}", "/30], signalling: {rsvp_te: {bandwidth: 1Gb/s}}}");
            text += MEASURED;
            text += FLOOD;
        }
        text
    }

    /// Waits until all paths are up.
    fn wait(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.europa.ask(&["lsp", "list", "--json"])?;
            let list: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let flows = list["flows"].as_array().cloned().unwrap_or_default();
            if flows.len() == 2 && flows.iter().all(|flow| flow["state"] == "up") {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Error::Other(format!("paths are not up after {PATIENCE:?}: {text}")));
            }
            interrupt::sleep(Duration::from_millis(20))?;
        }
    }
}

impl System for Network {
    fn name(&self) -> &'static str {
        match (self.has_paths, self.is_inline) {
            (false, false) => "routes",
            (true, false) => "path",
            (false, true) => "routes-inline",
            (true, true) => "path-inline",
        }
    }

    fn available(&self) -> Result<(), String> {
        self.europa.available()
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        self.europa.arrangements()
    }

    fn hops(&self) -> u8 {
        3
    }

    fn sends_frames(&self) -> bool {
        true
    }

    fn setup(&mut self, _: &Testbed) -> Result<()> {
        self.europa.up_with(&self.documents())?;
        if self.has_paths { self.wait() } else { Ok(()) }
    }

    fn teardown(&mut self, testbed: &Testbed) -> Result<()> {
        self.europa.teardown(testbed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_valid() {
        for (has_paths, is_inline) in [(false, false), (true, false), (false, true), (true, true)] {
            let network = Network { europa: Europa::new(None), has_paths, is_inline };
            let source = europa_api::Source { path: "x.yaml".into(), text: network.documents() };
            let parsed = europa_api::parse(&[source]);
            let documents = parsed.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            assert_eq!(documents.flows.len(), if has_paths { 2 } else { 0 });
            let inline = |router: &europa_api::Router| router.run == europa_api::Run::Inline;
            assert!(documents.routers.iter().all(|router| inline(router) == is_inline));
            assert_eq!(documents.routers[2].fast_path.routes.len(), 2);
        }
    }
}
