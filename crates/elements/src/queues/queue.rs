//! # Queue
//!
//! ## Synopsis
//! `Queue([CAPACITY])`
//!
//! ## Ports
//! One push input, one pull output. A second, push output, if connected, gets the packets
//! that do not fit.
//!
//! ## Description
//! Keeps packets in order until they are pulled. Packets that arrive when it is full are
//! dropped, or leave by output 1. All queues of a router together keep at most five eighths of its
//! packet pool, so that it can always receive.
//!
//! ## Arguments
//! - CAPACITY: most packets, default 1000.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): most packets that were in the queue at one time.
//! - `capacity` (read, write): most packets. If a written value is below `length`, the newest
//!   packets are dropped.
//! - `drops` (read): packets that did not fit.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): drops all packets.
//!
//! ## See also
//! `Unqueue`

use std::collections::VecDeque;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Notifies, Packet, Purpose,
    Share, arguments, handlers, keep,
};

/// Keeps packets until they are pulled.
pub(crate) struct Queue {
    packets: VecDeque<Packet>,
    capacity: usize,
    /// Its limit in the pool.
    share: Share,
    highwater: usize,
    drops: u64,
    /// Whether packets have arrived since a pull last found the queue empty. Click's queues signal
    /// packets during this time.
    awake: bool,
    /// Whether the signal ends as soon as the last packet has left.
    quick: bool,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            packets: VecDeque::new(),
            capacity: 1000,
            share: Share::default(),
            highwater: 0,
            drops: 0,
            awake: false,
            quick: false,
        }
    }
}

impl Class for Queue {
    const INFO: ClassInfo =
        ClassInfo::new("Queue", "1/1-2").processing("h/lh").inline().keeps_long();
}

/// Largest capacity.
const MAX_CAPACITY: usize = 1 << 20;

impl Queue {
    /// A queue whose signal ends as soon as there are no packets.
    pub(crate) fn quick() -> Queue {
        Queue { quick: true, ..Queue::default() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Free places.
    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.packets.len()).min(self.share.left())
    }

    /// Notes that packets were added or removed.
    fn note(&mut self) {
        self.share.set(self.packets.len());
        self.highwater = self.highwater.max(self.packets.len());
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.packets.len() * 2 >= self.capacity
    }

    /// Adds a packet at the end; returns it if there is no room.
    pub(crate) fn push_back(&mut self, packet: Packet) -> Option<Packet> {
        if self.is_full() {
            return Some(packet);
        }
        self.packets.push_back(packet);
        self.note();
        None
    }

    /// Adds a packet at the front; returns it if there is no room.
    pub(crate) fn push_front(&mut self, packet: Packet) -> Option<Packet> {
        if self.is_full() {
            return Some(packet);
        }
        self.packets.push_front(packet);
        self.note();
        None
    }

    pub(crate) fn pop_front(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front();
        self.note();
        packet
    }

    pub(crate) fn pop_back(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_back();
        self.note();
        packet
    }

    /// A packet without room.
    pub(crate) fn overflow(&mut self, packet: Packet, context: &mut Context<'_>) {
        self.say(1, context);
        context.push(1, packet);
    }

    /// Counts packets without room, and reports the first.
    fn say(&mut self, count: usize, context: &mut Context<'_>) {
        if count > 0 && self.drops == 0 && self.capacity > 0 {
            context.log_with(|name| format!("{name}: overflow"));
        }
        self.drops += count as u64;
    }

    fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.packets.truncate(capacity);
        self.note();
        self.reserve();
    }

    /// Allocates memory for all packets of the capacity, so that adding packets never allocates.
    fn reserve(&mut self) {
        let most = self.capacity.min(self.share.most());
        self.packets.reserve(most.saturating_sub(self.packets.len()));
    }
}

impl Element for Queue {
    arguments! { this, given;
        positional "CAPACITY": usize = 1000 => this.capacity;
        then {
            if this.capacity > MAX_CAPACITY {
                return Err(ConfigError::other(format!("CAPACITY: at most {MAX_CAPACITY}")));
            }
        }
        live new, context {
            this.set_capacity(new.capacity);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.share = context.share(Purpose::Queues);
        self.reserve();
        Ok(())
    }

    fn notifies(&self) -> Notifies {
        Notifies::BOTH
    }

    fn has_packets(&mut self, _: usize, _: &mut Context<'_>) -> bool {
        self.awake || !self.packets.is_empty()
    }

    fn has_room(&mut self, _: usize, _: &mut Context<'_>) -> bool {
        !self.is_full()
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let room = self.room();
        self.awake |= room > 0;
        self.packets.extend(batch.drain_front(room));
        self.note();
        self.say(batch.len(), context);
        context.push_batch(1, batch);
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, _: &mut Context<'_>) {
        let count = max.min(self.packets.len()).min(batch.room());
        self.awake &= count > 0 && !self.quick;
        for packet in self.packets.drain(..count) {
            // The batch has room: `count` is limited to it.
            let _ = batch.push(packet);
        }
        self.note();
    }

    handlers! { this, context, value;
        read "length" => this.packets.len();
        read "highwater_length" => this.highwater;
        both "capacity" => this.capacity, argument "CAPACITY" 0;
        read "drops" => this.drops;
        button "reset_counts" => (this.drops, this.highwater) = (0, this.packets.len());
        button "reset" => {
            this.packets.clear();
            this.note();
        };
    }

    fn held(&self) -> Option<usize> {
        Some(self.packets.len())
    }

    keep! { this, old;
        then {
            let count = this.room().min(old.packets.len());
            this.packets.extend(old.packets.drain(..count));
            this.awake |= old.awake;
            this.note();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn keeps_order_and_drops_what_does_not_fit() {
        let mut bench = Bench::new("Queue", &["2"]);
        assert_eq!(bench.push(0, &[b"a", b"b", b"c"]), [(1, b"c".to_vec())]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
        assert_eq!(bench.pull(1), [b"a".to_vec()]);
        bench.push(0, &[b"d"]);
        assert_eq!(bench.router.read("e.length", ""), Ok("2".into()));
        bench.router.write("e.capacity", "1").unwrap();
        assert_eq!(bench.pull(5), [b"b".to_vec()]);
        assert_eq!(bench.pull(5), Vec::<Vec<u8>>::new());
        assert_eq!(bench.router.read("e.highwater_length", ""), Ok("2".into()));
    }

    #[test]
    fn queues_leave_a_part_of_the_pool_to_others() {
        let mut bench = Bench::new("Queue", &["2000"]);
        bench.log();
        for _ in 0..5 {
            bench.push(0, &[&b"a"[..]; 200]);
        }
        let most = bench.arena.capacity() / 8 * 5;
        assert_eq!(bench.router.read("e.length", ""), Ok(most.to_string()));
        assert_eq!(bench.router.read("e.drops", ""), Ok((1000 - most).to_string()));
        assert_eq!(bench.pull(9).len(), 9);
        assert_eq!(bench.push(0, &[&b"b"[..]; 20]).len(), 11);
        bench.router.write("e.reset", "").unwrap();
        assert_eq!(bench.push(0, &[&b"c"[..]; 200]), []);
    }

    #[test]
    fn hot_swap_keeps_packets() {
        let mut old = Bench::new("Queue", &["4"]);
        old.push(0, &[b"a", b"b", b"c"]);
        let mut new = Bench::new("Queue", &["2"]);
        new.router.take_state(&mut old.router);
        drop(old);
        assert_eq!(new.pull(9), [b"a".to_vec(), b"b".to_vec()]);
    }
}
