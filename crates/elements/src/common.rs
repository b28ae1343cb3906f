//! What several elements do the same way.

use std::net::Ipv6Addr;

use europa_engine::{
    Arena, Arguments, BATCH, Batch, ConfigError, Context, InitContext, Packet, Value,
};
use europa_pool::packet::annotation;

/// Sends packets that do not pass out of output 1; returns how many.
pub(crate) fn part(
    batch: &mut Batch,
    context: &mut Context<'_>,
    passes: impl FnMut(&mut Packet) -> bool,
) -> u64 {
    let before = batch.len();
    batch.filter(passes, |packet| context.push(1, packet));
    (before - batch.len()) as u64
}

/// A turn that pulls up to `most` packets, a batch at most, which `take` gets; returns how many. Where
/// they go one by one, a pull brings one, but a turn is as long as the configuration says.
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

/// Names of bytes of the annotation area that elements share, as in Click.
const ANNOTATIONS: [(&str, usize); 10] = [
    ("AGGREGATE", annotation::AGGREGATE),
    ("DST_IP", annotation::DST_IP),
    ("DST_IP6", annotation::DST_IP),
    ("EXTRA_LENGTH", annotation::EXTRA_LENGTH),
    ("EXTRA_PACKETS", annotation::EXTRA_PACKETS),
    ("FIRST_TIMESTAMP", annotation::FIRST_TIMESTAMP),
    ("FIX_IP_SRC", annotation::FIX_IP_SRC),
    ("PAINT", annotation::PAINT),
    ("VLAN", annotation::VLAN_TCI),
    ("VLAN_TCI", annotation::VLAN_TCI),
];

/// The ANNO argument of the paint elements.
pub(crate) fn annotation(arguments: &mut Arguments<'_>) -> Result<usize, ConfigError> {
    Ok(annotation_of(arguments, 1)?.unwrap_or(annotation::PAINT))
}

/// An ANNO argument, by number or name, where so many bytes fit into the annotation area.
pub(crate) fn annotation_of(
    arguments: &mut Arguments<'_>,
    bytes: usize,
) -> Result<Option<usize>, ConfigError> {
    let Some(word) = arguments.positional::<String>("ANNO")? else { return Ok(None) };
    let named = ANNOTATIONS.iter().find(|(name, _)| *name == word).map(|(_, at)| *at);
    let most = 48 - bytes;
    match named.or_else(|| usize::parse(&word, arguments.names())).filter(|at| *at <= most) {
        Some(at) => Ok(Some(at)),
        None => Err(ConfigError::Value {
            name: "ANNO".to_owned(),
            index: None,
            found: word,
            wanted: format!("annotation byte, 0 to {most}"),
        }),
    }
}

/// Time from the start of a graph until its addresses are announced: whatever else starts with it
/// has done so then.
pub(crate) const ANNOUNCE_AFTER_NS: u64 = 10_000_000;

/// Has an element's timer 0 run then, to announce its addresses.
pub(crate) fn announce_soon(context: &mut InitContext<'_>) -> Result<(), ConfigError> {
    if !context.is_push_output(0) {
        return Err(ConfigError::other("ANNOUNCE needs a push output"));
    }
    context.schedule(0, context.now_ns().saturating_add(ANNOUNCE_AFTER_NS));
    Ok(())
}

/// Anycast addresses, and for each the own address that answers come from (RFC 4443 section 2.2).
#[derive(Debug, Default)]
pub(crate) struct Anycast(Vec<[Ipv6Addr; 2]>);

impl Anycast {
    /// The ANYCAST argument: `ADDRESS OWN ADDRESS OWN ...`.
    pub(crate) fn configure(arguments: &mut Arguments<'_>) -> Result<Anycast, ConfigError> {
        let text: String = arguments.keyword("ANYCAST")?.unwrap_or_default();
        let words = text.split_whitespace();
        let addresses: Vec<Ipv6Addr> =
            words.map(|word| arguments.value("ANYCAST", 0, word)).collect::<Result<_, _>>()?;
        match addresses.as_chunks() {
            (pairs, []) => Ok(Anycast(pairs.to_vec())),
            _ => Err(ConfigError::other("ANYCAST: expected pairs of addresses")),
        }
    }

    /// The own address, if this is an anycast address.
    pub(crate) fn own(&self, address: Ipv6Addr) -> Option<Ipv6Addr> {
        self.0.iter().find(|[anycast, _]| *anycast == address).map(|[_, own]| *own)
    }
}

/// What sources put into their packets.
pub(crate) struct Data {
    /// As it was given; repeated or cut to fill a packet.
    pattern: Vec<u8>,
    packet: Vec<u8>,
}

impl Default for Data {
    fn default() -> Data {
        // Click's words: configurations print them, and count their bytes.
        let text = b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";
        Data::new(Some(text.to_vec()), None)
    }
}

impl Data {
    /// From the DATA and LENGTH arguments.
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
        // Longer ones would fit into no buffer.
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

/// A turn of a source that makes one packet at a time: whether there was one.
pub(crate) fn push_next(packet: Option<Packet>, context: &mut Context<'_>) -> bool {
    let Some(packet) = packet else { return false };
    context.push(0, packet);
    true
}

/// A pull from such a source: packets from `next` as long as it has any, `max` at most.
pub(crate) fn fill(max: usize, batch: &mut Batch, next: impl FnMut() -> Option<Packet>) {
    for packet in std::iter::from_fn(next).take(max.min(batch.room())) {
        // There is room.
        let _ = batch.push(packet);
    }
}

/// The part of all packets that SAMPLE asks for, at most 1; default 1.
pub(crate) fn sample(arguments: &mut Arguments<'_>) -> Result<f64, ConfigError> {
    let sample: f64 = arguments.keyword("SAMPLE")?.unwrap_or(1.0);
    if sample > 1.0 {
        arguments.warn("SAMPLE probability reduced to 1");
    } else if sample == 0.0 {
        arguments.warn("SAMPLE probability is 0; emitting no packets");
    }
    Ok(sample.min(1.0))
}
