//! The XDP references: plain redirect, and a router that does the work of IPv4.

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};

use crate::error::{Context, Error, Result};
use crate::sink::{Hook, index_of, program_of};
use crate::systems::{Arrangement, Placement, System};
use crate::testbed::{MAC, Testbed};

pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forward.bpf.o"));

/// One of the two programs of bpf/forward.bpf.c on both ports.
pub(crate) struct Xdp {
    name: &'static str,
    program: &'static str,
    hops: u8,
    running: Option<(Object, [Link; 2])>,
}

impl Xdp {
    /// The router: FIB look-up, TTL, checksum, addresses.
    pub(crate) fn router() -> Self {
        Self { name: "xdp-router", program: "route", hops: 1, running: None }
    }

    /// The redirect, which only changes MAC addresses: the upper bound of the rate.
    pub(crate) fn redirect() -> Self {
        Self { name: "xdp-redirect", program: "redirect", hops: 0, running: None }
    }
}

/// The ways to distribute work in the kernel over both cores.
pub(super) fn arrangements() -> Vec<Arrangement> {
    [Placement::Sender, Placement::RouterThread, Placement::SinkThread]
        .map(|placement| Arrangement { placement, sink: Hook::Xdp })
        .to_vec()
}

impl System for Xdp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self) -> Result<(), String> {
        Ok(())
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        arrangements()
    }

    fn hops(&self) -> u8 {
        self.hops
    }

    fn sends_frames(&self) -> bool {
        true
    }

    fn setup(&mut self, testbed: &Testbed) -> Result<()> {
        testbed.configure_linux_router()?;
        let (program, routes) = (self.program, self.hops > 0);
        // A device map resolves its entries in the namespace of the thread that writes them.
        let running = testbed.router.within(|| {
            let mut builder = ObjectBuilder::default();
            let object = builder
                .open_memory(OBJECT)
                .and_then(libbpf_rs::OpenObject::load)
                .context("loading the XDP forwarder")?;
            let (r0, r1) = (index_of("r0")?, index_of("r1")?);
            if routes {
                insert(&object, "ports", r0, &r0.to_ne_bytes())?;
                insert(&object, "ports", r1, &r1.to_ne_bytes())?;
            } else {
                insert(&object, "ports", r0, &r1.to_ne_bytes())?;
                insert(&object, "ports", r1, &r0.to_ne_bytes())?;
                insert(&object, "wires", r0, &[MAC[3], MAC[2]].concat())?;
                insert(&object, "wires", r1, &[MAC[0], MAC[1]].concat())?;
            }
            let attach = |index| {
                program_of(&object, program)?.attach_xdp(index).context("attaching the forwarder")
            };
            let links = [attach(r0)?, attach(r1)?];
            Ok((object, links))
        })?;
        self.running = Some(running);
        Ok(())
    }

    fn teardown(&mut self, _: &Testbed) -> Result<()> {
        self.running = None;
        Ok(())
    }
}

fn insert(object: &Object, map: &str, key: i32, value: &[u8]) -> Result<()> {
    object
        .maps()
        .find(|candidate| candidate.name() == map)
        .ok_or_else(|| Error::Other(format!("no eBPF map {map}")))?
        .update(&key.to_ne_bytes(), value, MapFlags::ANY)
        .context(format!("writing map {map}"))
}
