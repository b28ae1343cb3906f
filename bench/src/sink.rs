//! The sink: counts the packets that arrive at `s0` and drops them.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramMut};

use crate::error::{Context, Error, Result};
use crate::generator::TTL;
use crate::netns::Namespace;
use crate::testbed::Testbed;

/// Classes of delays for each power of two, as a number of bits; mirrors bpf/sink.bpf.c.
const DELAY_BITS: u32 = 3;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));

/// The hook of the sink's device that takes the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Hook {
    /// Native XDP: cheapest for systems that send raw frames; frames in socket buffers are copied.
    Xdp,
    /// tcx: cheapest for systems that send socket buffers; the kernel makes socket buffers of raw
    /// frames.
    Tcx,
}

/// The sink's checks, in addition to counting.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Checks {
    /// Number of routers that must have lowered every packet's TTL; 0 disables the check.
    pub(crate) hops: u8,
    /// Packets are stamped: check loss, reordering and delay.
    pub(crate) stamped: bool,
    /// Packets are counted by the last two bytes of their destination.
    pub(crate) flows: bool,
}

/// The arrived frames. Mirrors `struct counters` of bpf/sink.bpf.c.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Packets of the generator.
    pub(crate) packets: u64,
    /// Bytes of these packets.
    pub(crate) bytes: u64,
    /// Stamped packets that came after a later one, or twice.
    pub(crate) out_of_order: u64,
    /// Highest sequence number seen.
    pub(crate) highest: u64,
    /// Packets whose TTL does not fit the number of hops.
    pub(crate) wrong_ttl: u64,
    /// Sum of the one-way delays.
    pub(crate) delay_ns: u64,
    /// Sum of the differences between successive delays.
    pub(crate) jitter_ns: u64,
}

impl Counters {
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        let mut next = || words.next().unwrap_or(0);
        Self {
            packets: next(),
            bytes: next(),
            out_of_order: next(),
            highest: next(),
            wrong_ttl: next(),
            delay_ns: next(),
            jitter_ns: next(),
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            out_of_order: self.out_of_order + other.out_of_order,
            highest: self.highest.max(other.highest),
            wrong_ttl: self.wrong_ttl + other.wrong_ttl,
            delay_ns: self.delay_ns + other.delay_ns,
            jitter_ns: self.jitter_ns + other.jitter_ns,
        }
    }
}

/// An attached sink; detached when dropped.
pub(crate) struct Sink {
    object: Object,
    _attached: Attached,
}

/// Keeps the program attached.
enum Attached {
    Xdp(#[expect(dead_code, reason = "held for its drop")] Link),
    Tcx(#[expect(dead_code, reason = "held for its drop")] OwnedFd),
}

impl Sink {
    /// Attaches the sink to `s0`.
    pub(crate) fn attach(testbed: &Testbed, hook: Hook, checks: Checks) -> Result<Self> {
        Self::attach_to(&testbed.sink, "s0", hook, checks)
    }

    /// Attaches a sink to any device.
    pub(crate) fn attach_to(
        namespace: &Namespace,
        device: &str,
        hook: Hook,
        checks: Checks,
    ) -> Result<Self> {
        namespace.within(|| {
            let index = index_of(device)?;
            let mut builder = ObjectBuilder::default();
            let mut open = builder.open_memory(OBJECT).context("opening the sink's program")?;
            let mut rodata = open
                .maps_mut()
                .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
                .ok_or_else(|| Error::Other("the sink has no configuration".into()))?;
            let ttl = if checks.hops > 0 { TTL - checks.hops } else { 0 };
            rodata
                .set_initial_value(&[ttl, u8::from(checks.stamped), u8::from(checks.flows)])
                .context("configuring the sink")?;
            let object = open.load().context("loading the sink's program")?;
            let attached = match hook {
                Hook::Xdp => {
                    let program = program_of(&object, "sink_xdp")?;
                    Attached::Xdp(program.attach_xdp(index).context("attaching the XDP sink")?)
                }
                Hook::Tcx => {
                    let program = program_of(&object, "sink_tcx")?;
                    Attached::Tcx(attach_tcx(&program, index)?)
                }
            };
            Ok(Self { object, _attached: attached })
        })
    }

    /// The frames that have arrived so far, summed over all cores.
    pub(crate) fn counters(&self) -> Result<Counters> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == "counters")
            .ok_or_else(|| Error::Other("the sink has no counters".into()))?;
        let values = map
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .context("reading the sink's counters")?
            .unwrap_or_default();
        Ok(values
            .iter()
            .map(|value| Counters::from_bytes(value))
            .fold(Counters::default(), Counters::add))
    }
}

impl Sink {
    /// Packets so far of each of `count` flows.
    pub(crate) fn flows(&self, count: u32) -> Result<Vec<u64>> {
        self.sums("flows", count)
    }

    /// The delays, in microseconds, that these percentages of the stamped packets did not exceed;
    /// to within an eighth.
    pub(crate) fn delays_us<const N: usize>(&self, percents: [f64; N]) -> Result<[f64; N]> {
        let counts = self.sums("delays", 64 << DELAY_BITS)?;
        Ok(percents.map(|percent| delay_ns(&counts, percent) / 1e3))
    }

    /// The first entries of a map of counters, each summed over all cores.
    fn sums(&self, name: &str, count: u32) -> Result<Vec<u64>> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == name)
            .ok_or_else(|| Error::Other(format!("the sink has no {name}")))?;
        let sum = |number: u32| -> Result<u64> {
            let values = map
                .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
                .context(format!("reading the sink's {name}"))?;
            let words = values.iter().flatten().filter_map(|value| value.first_chunk());
            Ok(words.map(|word| u64::from_ne_bytes(*word)).sum())
        };
        (0..count).map(sum).collect()
    }
}

/// The upper end of the class of delays that contains a percentile; 0 without delays.
fn delay_ns(counts: &[u64], percent: f64) -> f64 {
    let all: u64 = counts.iter().sum();
    let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (class, count) in (0_u32..).zip(counts) {
        seen += count;
        if seen >= wanted {
            let (bit, part) = (class >> DELAY_BITS, class & ((1 << DELAY_BITS) - 1));
            let step = f64::from(bit).exp2() / f64::from(1 << DELAY_BITS);
            return f64::from(bit).exp2() + step * f64::from(part + 1);
        }
    }
    0.0
}

/// XDP programs at both ends that pass every frame. Without GRO, a veth accepts redirected frames
/// only if it has a program. Detached when dropped.
pub(crate) struct OpenDoors {
    _links: Vec<Link>,
    _objects: Vec<Object>,
}

impl OpenDoors {
    /// Attaches to `g0` and `s0`.
    pub(crate) fn attach(testbed: &Testbed) -> Result<Self> {
        let mut doors = Self { _links: Vec::new(), _objects: Vec::new() };
        for (namespace, device) in [(&testbed.generator, "g0"), (&testbed.sink, "s0")] {
            let (link, object) = namespace.within(|| {
                let mut builder = ObjectBuilder::default();
                let object = builder
                    .open_memory(OBJECT)
                    .and_then(libbpf_rs::OpenObject::load)
                    .context("loading the passing program")?;
                let link = program_of(&object, "pass")?
                    .attach_xdp(index_of(device)?)
                    .context(format!("attaching the passing program to {device}"))?;
                Ok((link, object))
            })?;
            doors._links.push(link);
            doors._objects.push(object);
        }
        Ok(doors)
    }
}

/// The program of that name.
pub(crate) fn program_of<'object>(
    object: &'object Object,
    name: &str,
) -> Result<ProgramMut<'object>> {
    object
        .progs_mut()
        .find(|program| program.name() == name)
        .ok_or_else(|| Error::Other(format!("no eBPF program {name}")))
}

/// Index of a device in the calling thread's namespace.
pub(crate) fn index_of(device: &str) -> Result<i32> {
    let index = nix::net::if_::if_nametoindex(device).context(format!("device {device}"))?;
    i32::try_from(index).map_err(|_| Error::Other(format!("index of {device} is too large")))
}

fn attach_tcx(program: &ProgramMut<'_>, index: i32) -> Result<OwnedFd> {
    // SAFETY: the descriptor is open for the whole call, and a null pointer stands for
    // default options.
    let descriptor = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_fd().as_raw_fd(),
            index,
            libbpf_sys::BPF_TCX_INGRESS,
            std::ptr::null(),
        )
    };
    if descriptor < 0 {
        let error = std::io::Error::from_raw_os_error(-descriptor);
        return Err(Error::Io { what: "attaching the tcx sink".into(), source: error });
    }
    // SAFETY: the kernel has just made this descriptor; no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_two_cores_are_added() {
        let words = |values: [u64; 8]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_ne_bytes()).collect()
        };
        let sum = Counters::from_bytes(&words([1, 64, 0, 9, 2, 5, 4, 1]))
            .add(Counters::from_bytes(&words([2, 128, 1, 7, 0, 6, 1, 3])));
        let expected = Counters {
            packets: 3,
            bytes: 192,
            out_of_order: 1,
            highest: 9,
            wrong_ttl: 2,
            delay_ns: 11,
            jitter_ns: 5,
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn a_percentile_is_the_end_of_its_class() {
        let mut counts = vec![0; 64 << DELAY_BITS];
        assert_eq!(delay_ns(&counts, 50.0), 0.0);
        // 1024 to 1151 ns, 99 times, and 65,536 to 73,727 once.
        counts[10 << 3] = 99;
        counts[16 << 3] = 1;
        let found = [50.0, 99.0, 99.9].map(|percent| delay_ns(&counts, percent));
        assert_eq!(found, [1152.0, 1152.0, 73_728.0]);
    }
}
