//! The common code of elements with a table: sending, timers, arguments.

use europa_engine::{Arguments, Batch, ConfigError, Context, Names, Packet, Value};

use super::{Address, Neighbours, Told};
use crate::shared::made::encapsulate;

/// The timer of an element that has a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm(Option<u64>);

impl Alarm {
    /// Sets timer 0 to when the table needs it, if it is not yet set to that time.
    pub(crate) fn set<A: Address>(&mut self, table: &Neighbours<A>, context: &mut Context<'_>) {
        let due_ns = table.next_due_ns();
        if self.0 != due_ns {
            self.0 = due_ns;
            match due_ns {
                Some(due_ns) => context.schedule(0, due_ns),
                None => context.unschedule(0),
            }
        }
    }

    /// The timer has run.
    pub(crate) fn ran(&mut self) {
        self.0 = None;
    }
}

/// `IP ETH`, a word each.
pub(crate) fn pair<A: Value>(text: &str) -> Option<(A, [u8; 6])> {
    let mut words = text.split_whitespace();
    let names = Names::default();
    let pair = (A::parse(words.next()?, &names)?, <[u8; 6]>::parse(words.next()?, &names)?);
    words.next().is_none().then_some(pair)
}

/// The pairs of STATIC.
pub(crate) fn fixed<A: Value>(
    name: &'static str,
    given: &mut Arguments<'_>,
) -> Result<Vec<(A, [u8; 6])>, ConfigError> {
    let text = given.keyword::<String>(name)?.unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks(2).map(|words| {
        pair(&words.join(" ")).ok_or_else(|| {
            ConfigError::other(format!(
                "STATIC: expected address and Ethernet address, found '{}'",
                words.join(" ")
            ))
        })
    });
    pairs.collect()
}

impl<A: Address> Neighbours<A> {
    /// Sends all packets whose neighbour is confirmed; the others go into `unknown`.
    #[inline]
    pub(crate) fn send_known(
        &self,
        batch: &mut Batch,
        unknown: &mut Batch,
        target: impl Fn(&Packet) -> A,
        context: &mut Context<'_>,
    ) {
        let now_ns = context.now_ns();
        // Successive packets often have the same next hop.
        let (mut last, mut known) = (None, None);
        batch.filter(
            |packet| {
                let target = target(packet);
                if last != Some(target) {
                    (last, known) = (Some(target), self.header(target, now_ns));
                }
                known.is_some_and(|header| encapsulate(packet, header))
            },
            // A batch has room for the packets of another batch.
            |packet| drop(unknown.push(packet)),
        );
        context.push_batch(0, batch);
    }

    /// Stores a neighbour's claim, and sends the packets that waited for it. Returns how many of
    /// them were too long.
    pub(crate) fn learn_and_send(&mut self, told: Told<A>, context: &mut Context<'_>) -> u64 {
        let (now_ns, mut drops) = (context.now_ns(), 0);
        self.learn(told, now_ns, |mut packet, header| match encapsulate(&mut packet, header) {
            true => context.push(0, packet),
            false => drops += 1,
        });
        drops
    }
}
