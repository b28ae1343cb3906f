//! Common code of several elements.

use std::net::Ipv6Addr;

use europa_engine::{Arena, Arguments, BATCH, Batch, ConfigError, Context, InitContext, Packet};

/// Pushes the packets for which `passes` is false to output 1; returns their number.
pub(crate) fn part(
    batch: &mut Batch,
    context: &mut Context<'_>,
    passes: impl FnMut(&mut Packet) -> bool,
) -> u64 {
    let before = batch.len();
    batch.filter(passes, |packet| context.push(1, packet));
    (before - batch.len()) as u64
}

/// Pulls up to `max` packets (at most a batch) in a turn, and passes them to `take`. Returns their
/// number. In one-by-one graphs a pull returns one packet, but a turn has the configured length.
#[inline(always)]
pub(crate) fn pull_turn(
    most: usize,
    context: &mut Context<'_>,
    mut take: impl FnMut(&mut Batch, &mut Context<'_>),
) -> usize {
    let mut left = most.min(BATCH);
    let mut batch = context.take_batch();
    while left > 0 {
        let asked = left.min(context.burst());
        let count = context.pull(0, asked, &mut batch);
        take(&mut batch, context);
        left -= count;
        if count < asked {
            break;
        }
    }
    context.give_batch(batch);
    most.min(BATCH) - left
}

/// Drops packets that do not pass; returns how many.
pub(crate) fn retain(batch: &mut Batch, passes: impl FnMut(&mut Packet) -> bool) -> u64 {
    let before = batch.len();
    batch.retain(passes);
    (before - batch.len()) as u64
}

/// Time from the start of a graph until its addresses are announced: all programs that start with
/// it are ready by then.
pub(crate) const ANNOUNCE_AFTER_NS: u64 = 10_000_000;

/// The error of an element that cannot announce addresses.
pub(crate) const NEEDS_PUSH: &str = "ANNOUNCE needs a push output";

/// Starts an element's timer 0, which announces its addresses.
pub(crate) fn announce_soon(context: &mut InitContext<'_>) -> Result<(), ConfigError> {
    if !context.is_push_output(0) {
        return Err(ConfigError::other(NEEDS_PUSH));
    }
    context.schedule(0, context.now_ns().saturating_add(ANNOUNCE_AFTER_NS));
    Ok(())
}

/// Anycast addresses, and for each the own address that answers come from (RFC 4443 section 2.2).
#[derive(Debug, Default)]
pub(crate) struct Anycast(Vec<[Ipv6Addr; 2]>);

impl Anycast {
    /// The ANYCAST argument: `ADDRESS OWN ADDRESS OWN ...`.
    pub(crate) fn read(
        name: &'static str,
        given: &mut Arguments<'_>,
    ) -> Result<Anycast, ConfigError> {
        match given.keyword_list(name)?.as_chunks() {
            (pairs, []) => Ok(Anycast(pairs.to_vec())),
            _ => Err(ConfigError::other(format!("{name}: expected pairs of addresses"))),
        }
    }

    /// The own address, if this is an anycast address.
    pub(crate) fn own(&self, address: Ipv6Addr) -> Option<Ipv6Addr> {
        self.0.iter().find(|[anycast, _]| *anycast == address).map(|[_, own]| *own)
    }
}

/// The contents of packets from sources.
pub(crate) struct Data {
    /// The given pattern; repeated or cut to fill a packet.
    pattern: Vec<u8>,
    packet: Vec<u8>,
}

impl Default for Data {
    fn default() -> Data {
        // Click's text: configurations print it, and count its bytes.
        let text = b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";
        Data::new(Some(text.to_vec()), None)
    }
}

impl Data {
    /// Reads the DATA and LENGTH arguments.
    pub(crate) fn new(pattern: Option<Vec<u8>>, length: Option<usize>) -> Data {
        let Some(pattern) = pattern else {
            let mut data = Data::default();
            data.set_length(length.unwrap_or(data.length()));
            return data;
        };
        let length = length.unwrap_or(pattern.len());
        let mut data = Data { pattern, packet: Vec::new() };
        data.set_length(length);
        data
    }

    /// Length of a packet, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.packet.len()
    }

    /// Sets the length of a packet, in bytes.
    pub(crate) fn set_length(&mut self, length: usize) {
        // Longer packets would fit into no buffer.
        let length = length.min(65535);
        self.packet = self.pattern.iter().copied().cycle().take(length).collect();
        self.packet.resize(length, 0);
    }

    /// The data as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.pattern).into_owned()
    }

    /// Adds up to `count` packets to `batch`; returns how many.
    pub(crate) fn fill(&self, batch: &mut Batch, count: usize, arena: &Arena) -> usize {
        let before = batch.len();
        let count = arena.alloc_batch_of(batch, count, self.packet.len());
        for packet in batch.iter_mut().skip(before) {
            packet.data_mut().copy_from_slice(&self.packet);
        }
        count
    }
}

/// A turn of a source that makes one packet at a time. Returns whether there was one.
pub(crate) fn push_next(packet: Option<Packet>, context: &mut Context<'_>) -> bool {
    let Some(packet) = packet else { return false };
    context.push(0, packet);
    true
}

/// Answers a pull from such a source: packets from `next` while it has any, `max` at most.
pub(crate) fn fill(max: usize, batch: &mut Batch, next: impl FnMut() -> Option<Packet>) {
    for packet in std::iter::from_fn(next).take(max.min(batch.room())) {
        // There is room.
        let _ = batch.push(packet);
    }
}

/// The fraction of packets that SAMPLE selects, at most 1; default 1.
pub(crate) fn sample(name: &'static str, given: &mut Arguments<'_>) -> Result<f64, ConfigError> {
    let sample: f64 = given.keyword(name)?.unwrap_or(1.0);
    if sample > 1.0 {
        given.warn("SAMPLE probability reduced to 1");
    } else if sample == 0.0 {
        given.warn("SAMPLE probability is 0; emitting no packets");
    }
    Ok(sample.min(1.0))
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// Every class with an argument that names a place in the annotation area, and the number of
    /// bytes at that place.
    const PLACES: &[(&str, &[&str], &str, usize)] = &[
        ("CheckPaint", &["1"], "ANNO", 1),
        ("FilterResult", &[], "ANNO", 16),
        ("GetIPAddress", &["16"], "ANNO", 4),
        ("ICMPPingRewriter", &["drop", "drop", "drop", "drop"], "REPLY_ANNO", 1),
        ("IPAddrRewriter", &["drop", "drop", "drop", "drop"], "REPLY_ANNO", 1),
        ("IPReassembler", &[], "MAX_MTU_ANNO", 2),
        ("IPRewriter", &["drop", "drop", "drop", "drop"], "REPLY_ANNO", 1),
        ("Paint", &["1"], "ANNO", 1),
        ("PaintSwitch", &[], "ANNO", 1),
        ("PaintTee", &["1"], "ANNO", 1),
        ("SetAnnoByte", &["3", "1"], "ANNO", 1),
        ("SetIPAddress", &["10.0.0.1"], "ANNO", 4),
        ("TCPRewriter", &["drop", "drop", "drop", "drop"], "REPLY_ANNO", 1),
        ("UDPRewriter", &["drop", "drop", "drop", "drop"], "REPLY_ANNO", 1),
    ];

    #[test]
    fn places_lie_in_the_annotation_area() {
        for (class, arguments, name, bytes) in PLACES {
            let most = 48 - bytes;
            let tried = |value: String| {
                let argument = format!("{name} {value}");
                let mut all: Vec<&str> = arguments.to_vec();
                // Given by position there.
                if *class == "SetAnnoByte" {
                    all.remove(0);
                }
                all.push(&argument);
                Bench::try_new(class, &all, None, None).map(drop)
            };
            for good in ["0".to_owned(), most.to_string(), "DST_IP".to_owned()] {
                assert_eq!(tried(good.clone()), Ok(()), "{class} {name} {good}");
            }
            for bad in [(most + 1).to_string(), u64::MAX.to_string(), "-1".into(), "NOWHERE".into()]
            {
                let wanted = format!("annotation byte, 0 to {most}, found '{bad}'");
                let error = tried(bad).expect_err(class);
                assert_eq!(error, format!("{name}: expected {wanted}"), "{class}");
            }
        }
    }
}
