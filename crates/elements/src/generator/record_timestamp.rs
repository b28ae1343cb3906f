//! # RecordTimestamp
//!
//! ## Synopsis
//! `RecordTimestamp([COUNTER, N, OFFSET, DYNAMIC, NET_ORDER, SAMPLE])`
//!
//! ## Ports
//! At least one push input, as many outputs.
//!
//! ## Description
//! Records when each packet passes, for a later `TimestampDiff`. The time is that of the router's
//! round.
//!
//! ## Arguments
//! - COUNTER (keyword): a `NumberPacket`; its NET_ORDER applies to this element, too.
//! - N (keyword): number of packets that are recorded, default 65536.
//! - OFFSET (keyword): where packets have their number; without it, packets are numbered in their
//!   order.
//! - DYNAMIC (keyword): record as many packets as come, up to 64 times N; default false.
//! - NET_ORDER (keyword): numbers are in network byte order; default false.
//! - SAMPLE (keyword): record one packet of this many, default 1.
//!
//! ## Handlers
//! - `count` (read): packets noted.
//!
//! ## See also
//! `NumberPacket`, `TimestampDiff`

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use super::number;
use super::number_packet::NumberPacket;
use crate::prelude::*;

/// Number of noted packets, by default and at most.
const PLACES: usize = 65536;
const MOST: usize = 1 << 26;
/// Factor by which a dynamic number of places may grow.
const GROWTH: usize = 64;

/// Times of packets, by number; 0 for none.
pub(super) type Times = Rc<RefCell<Vec<u64>>>;

/// Notes when packets pass.
#[derive(Default)]
pub(crate) struct RecordTimestamp {
    counter: Option<String>,
    offset: Option<usize>,
    pub(super) network_order: bool,
    pub(super) sample: u64,
    pub(super) times: Times,
    most: usize,
    next: u64,
    count: u64,
}

impl Class for RecordTimestamp {
    const INFO: ClassInfo = ClassInfo::new("RecordTimestamp", "1-/=").processing("h/h").flow("#/#");
}

impl Element for RecordTimestamp {
    arguments! { this, given;
        keyword "COUNTER": String => this.counter;
        keyword "OFFSET": i64 = -1, with |offset| usize::try_from(offset).ok() => this.offset;
        let places = keyword "N": usize = PLACES;
        let dynamic = keyword "DYNAMIC": bool = false;
        keyword "NET_ORDER": bool = false => this.network_order;
        keyword "SAMPLE": u64 = 1, with |sample| sample.max(1) => this.sample;
        then {
            let places = if places == 0 { PLACES } else { places };
            if places > MOST {
                return Err(ConfigError::other(format!("N must be at most {MOST}")));
            }
            this.most = if dynamic { places.saturating_mul(GROWTH).min(MOST) } else { places };
            *this.times.borrow_mut() = vec![0; places];
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some(name) = &self.counter else { return Ok(()) };
        let found = context.find(name);
        let element = found.and_then(|index| context.element(index));
        let counter = element.and_then(|e| (e as &mut dyn Any).downcast_mut::<NumberPacket>());
        let Some(counter) = counter else {
            return Err(ConfigError::other("COUNTER must be a valid NumberPacket element"));
        };
        self.network_order = counter.network_order;
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        // 0 means that nothing was noted.
        let now_ns = context.now_ns().max(1);
        let mut times = self.times.borrow_mut();
        for packet in batch.iter() {
            let number = match self.offset {
                Some(at) => number(packet, at, self.network_order),
                None => {
                    self.next += 1;
                    Some(self.next - 1)
                }
            };
            let Some(number) = number.filter(|n| n.is_multiple_of(self.sample)) else { continue };
            let index = usize::try_from(number / self.sample).unwrap_or(usize::MAX);
            if index >= times.len() && index < self.most {
                let length = (times.len() * 2).max(index + 1).min(self.most);
                times.resize(length, 0);
            }
            if let Some(place) = times.get_mut(index) {
                *place = now_ns;
                self.count += 1;
            }
        }
        drop(times);
        context.forward(port, batch);
    }

    handlers! { this, context, value; read "count" => this.count; }
}
