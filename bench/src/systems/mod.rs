//! The systems under test, behind one trait.

mod click;
pub(crate) mod europa;
mod kernel;
pub(crate) mod linux;
mod testpmd;
mod xdp;

use serde::Serialize;

use crate::cli::Options;
use crate::error::Result;
use crate::sink::Hook;
use crate::testbed::{OTHER_CORE, Testbed};

/// A system that forwards packets between `r0` and `r1` of a testbed.
pub(crate) trait System {
    /// Short name for tables and the command line.
    fn name(&self) -> &'static str;

    /// The reason why the system cannot be measured here.
    fn available(&self) -> std::result::Result<(), String>;

    /// The ways to distribute the work over both cores, the simplest first; the best one is
    /// reported.
    fn arrangements(&self) -> Vec<Arrangement>;

    /// The number by which the system lowers the TTL.
    fn hops(&self) -> u8;

    /// Whether the system sends raw frames, which a veth without GRO refuses.
    fn sends_frames(&self) -> bool;

    /// Starts to forward.
    fn setup(&mut self, testbed: &Testbed) -> Result<()>;

    /// Stops the system; the testbed is removed afterwards.
    fn teardown(&mut self, testbed: &Testbed) -> Result<()>;
}

/// All systems, in the order of tables.
pub(crate) fn all(options: &Options) -> Vec<Box<dyn System>> {
    vec![
        Box::new(linux::Linux),
        Box::new(xdp::Xdp::router()),
        Box::new(xdp::Xdp::redirect()),
        Box::new(europa::Europa::new(options.europa.clone())),
        Box::new(europa::Europa::inline(options.europa.clone())),
        Box::new(kernel::Kernel::redirect(options.europa.clone())),
        Box::new(kernel::Kernel::router(options.europa.clone())),
        Box::new(testpmd::Testpmd::default()),
        Box::new(click::Click::fast(options)),
        Box::new(click::Click::original(options)),
    ]
}

/// The task of each core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Placement {
    /// All soft interrupts run on the sender's core, as is the default with veth.
    Sender,
    /// A NAPI thread on the other core receives for the router.
    RouterThread,
    /// A NAPI thread on the other core receives for the sink.
    SinkThread,
    /// The router's core hands packets to the other core (receive packet steering).
    Steered,
    /// The system places its own threads.
    Own,
}

/// A placement, and the sink that suits the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Arrangement {
    /// The task of each core.
    pub(crate) placement: Placement,
    /// Hook of the sink.
    pub(crate) sink: Hook,
}

impl Arrangement {
    /// Sets up a testbed for this arrangement.
    pub(crate) fn apply(self, testbed: &Testbed) -> Result<()> {
        // GRO delays every packet without a gain. Only NAPI threads and redirected frames need it.
        if self.sink == Hook::Tcx && self.placement != Placement::SinkThread {
            testbed.sink.exec("ethtool -K s0 gro off")?;
        }
        match self.placement {
            Placement::Sender | Placement::Own => Ok(()),
            Placement::RouterThread => testbed.thread_napi("r0", OTHER_CORE),
            Placement::SinkThread => testbed.thread_napi("s0", OTHER_CORE),
            Placement::Steered => testbed.steer_receive("r0", OTHER_CORE),
        }
    }

    /// Whether the sender can offer twice the load that the router can forward: this requires that
    /// no part of the router runs on the sender's core.
    pub(crate) fn can_overload(self) -> bool {
        matches!(self.placement, Placement::RouterThread | Placement::Own)
    }
}

impl std::fmt::Display for Arrangement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.placement {
            Placement::Sender => "softirq, sender's core",
            Placement::RouterThread => "NAPI thread for the router",
            Placement::SinkThread => "NAPI thread for the sink",
            Placement::Steered => "packet steering",
            Placement::Own => "own threads",
        })?;
        f.write_str(match self.sink {
            Hook::Xdp => ", XDP sink",
            Hook::Tcx => ", tcx sink",
        })
    }
}
