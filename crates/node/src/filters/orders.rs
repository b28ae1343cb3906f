//! A connection to the thread of the switch that changes rules.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use europa_channel::{Channel, ChannelError, pair};
use europa_pool::Mapping;
use europa_switch::{Batch, FilterAnswer, FilterOrder};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::{Doing, NodeError};

/// Time limit of the switch for a change of rules.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of an entry's counters: number, packets, bytes.
const ROW_BYTES: usize = 24;

/// The node's end.
pub(crate) struct Orders(Channel<FilterOrder, FilterAnswer>);

fn failed(error: ChannelError) -> NodeError {
    NodeError::Channel { who: "the switch's filters".into(), error }
}

/// Memory with these bytes, to be handed over.
fn memory(bytes: &[u8]) -> Result<File, NodeError> {
    let file =
        memfd_create(c"filters", MFdFlags::MFD_CLOEXEC).doing("making memory for filters")?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(|error| NodeError::Refused(format!("filters: {error}")))?;
    Ok(file)
}

impl Orders {
    /// Both ends: the node's, and the switch's.
    pub(crate) fn new() -> Result<(Self, OwnedFd), NodeError> {
        let (orders, theirs) = pair().map_err(failed)?;
        Ok((Self(orders), theirs))
    }

    fn ask(&mut self, order: FilterOrder, memory: Option<&File>) -> Result<u32, NodeError> {
        let descriptors: Vec<_> = memory.iter().map(|memory| memory.as_fd()).collect();
        self.0.send(&order, &descriptors).map_err(failed)?;
        match self.0.receive_within(PATIENCE).map_err(failed)? {
            Some((FilterAnswer::Done(count), _)) => Ok(count),
            Some((FilterAnswer::Refused(why), _)) => {
                Err(NodeError::Refused(format!("the switch refuses filters: {why}")))
            }
            // A late answer would be mistaken for that to another order.
            None => Err(failed(ChannelError::Closed)),
        }
    }

    /// Has the switch carry out a batch of changes, all at once.
    ///
    /// # Errors
    /// It refuses, or has ended (`NodeError::Channel`).
    pub(super) fn tell(
        &mut self,
        order: impl FnOnce(&Batch) -> FilterOrder,
        batch: &Batch,
    ) -> Result<(), NodeError> {
        let bytes = batch.bytes();
        let memory = if bytes.is_empty() { None } else { Some(memory(&bytes)?) };
        self.ask(order(batch), memory.as_ref()).map(drop)
    }

    /// Packets and bytes by entry, of a slice with at most `room` entries.
    ///
    /// # Errors
    /// The switch refuses, or has ended.
    pub(super) fn hits(&mut self, slice: u16, room: usize) -> Result<Vec<[u64; 3]>, NodeError> {
        let file = memory(&vec![0; room * ROW_BYTES])?;
        let order = FilterOrder::Hits { slice, room: room as u32 };
        let count = self.ask(order, Some(&file))? as usize;
        let memory = Mapping::new(&file, room * ROW_BYTES).doing("reading counters of filters")?;
        let words = memory.words(0, count.min(room) * 3).unwrap_or_default();
        let row = |row: &[std::sync::atomic::AtomicU64]| {
            let word = |at: usize| {
                row.get(at).map_or(0, |word| word.load(std::sync::atomic::Ordering::Relaxed))
            };
            [word(0), word(1), word(2)]
        };
        Ok(words.chunks_exact(3).map(row).collect())
    }
}
