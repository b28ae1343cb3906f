//! Packets that no ordinary program sends, by scripts for scapy.

use std::time::Duration;

use crate::command::Error;
use crate::namespace::Namespace;

/// Debian's Python, which has Debian's scapy; another Python may come first in the path.
const PYTHON: &str = "/usr/bin/python3";

/// The prelude of every script: scapy without messages, and `reply`, which sends a frame and
/// returns the first one that `wanted` accepts, or nothing after a second.
const PRELUDE: &str = r"
import logging, sys, threading
logging.getLogger('scapy').setLevel(logging.ERROR)
from scapy.all import *
from scapy.contrib.mpls import MPLS
conf.verb = 0

def reply(frame, device, wanted, timeout=1.0):
    sniffer = AsyncSniffer(iface=device, lfilter=wanted, count=1, timeout=timeout, store=True,
                           started_callback=lambda: sendp(frame, iface=device))
    sniffer.start()
    sniffer.join()
    return sniffer.results[0] if sniffer.results else None
";

impl Namespace {
    /// Runs a script inside and returns its output. The prelude has imported all of scapy.
    ///
    /// # Errors
    /// The script raised an exception, or scapy is missing.
    pub fn scapy(&self, script: &str) -> Result<String, Error> {
        let text = format!("{PRELUDE}{script}");
        let output = self.run_for(Duration::from_secs(60), &[PYTHON, "-c", &text])?;
        Ok(output.stdout)
    }
}
