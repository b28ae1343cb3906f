//! # DRRSched
//!
//! ## Synopsis
//! `DRRSched([QUANTUM])`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Pulls packets from its inputs in turn, the same number of bytes from each (deficit round
//! robin).
//!
//! ## Arguments
//! - QUANTUM: bytes that an input gains with each turn, default 500.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinSched`, `StrideSched`

use crate::prelude::*;

/// Pulls the same number of bytes from each input.
#[derive(Default)]
pub(crate) struct DRRSched {
    quantum: usize,
    /// By input: the packet that waits for its turn, and the number of bytes that may be sent.
    inputs: Vec<(Option<Packet>, usize)>,
    next: usize,
}

impl Class for DRRSched {
    const INFO: ClassInfo = ClassInfo::new("DRRSched", "-/1").processing("l/l").inline();
}

impl DRRSched {
    fn pull_one(&mut self, batch: &mut Batch, context: &mut Context<'_>) -> bool {
        let count = self.inputs.len();
        let mut waiting = true;
        // While any input has a packet, inputs get turns until one of them has enough credit.
        while std::mem::take(&mut waiting) {
            for _ in 0..count {
                let Some((head, deficit)) = self.inputs.get_mut(self.next) else { return false };
                if head.is_none() && context.pull(self.next, 1, batch) > 0 {
                    *head = batch.pop();
                }
                match head.take() {
                    None => *deficit = 0,
                    Some(packet) if packet.len() <= *deficit => {
                        *deficit -= packet.len();
                        // The batch has room: the caller asked for one packet.
                        return batch.push(packet).is_ok();
                    }
                    Some(packet) => {
                        *head = Some(packet);
                        waiting = true;
                    }
                }
                self.next = (self.next + 1) % count;
                if let Some((_, deficit)) = self.inputs.get_mut(self.next) {
                    *deficit += self.quantum;
                }
            }
        }
        false
    }
}

impl Element for DRRSched {
    arguments! { this, given;
        positional "QUANTUM": usize = 500 => this.quantum;
        then {
            if this.quantum == 0 {
                return Err(ConfigError::at(0, "bad QUANTUM"));
            }
            this.inputs.resize_with(given.inputs(), || (None, 0));
        }
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for _ in 0..max.min(batch.room()) {
            if !self.pull_one(batch, context) {
                break;
            }
        }
    }

    // Packets that wait at inputs that no longer exist are dropped.
    keep! { this, old;
        then {
            for (input, old) in this.inputs.iter_mut().zip(&mut old.inputs) {
                *input = std::mem::take(old);
            }
            this.next = if old.next < this.inputs.len() { old.next } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn bytes_are_shared_evenly() {
        let mut bench = pull_bench("DRRSched", &["100"], 2);
        bench.give(0, &[&[0; 100][..]; 40]);
        bench.give(1, &[&[1; 25][..]; 80]);
        let out = bench.pull(50);
        let bytes = |of: u8| out.iter().filter(|data| data[0] == of).map(Vec::len).sum::<usize>();
        assert!(bytes(0).abs_diff(bytes(1)) <= 100, "{} {}", bytes(0), bytes(1));
        assert_eq!(bench.pull(200).len(), 70);
    }
}
