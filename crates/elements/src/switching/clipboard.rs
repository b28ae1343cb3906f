//! # Clipboard
//!
//! ## Synopsis
//! `Clipboard(RANGE, ...)`
//!
//! ## Ports
//! Two inputs, two outputs, push or pull, in pairs.
//!
//! ## Description
//! Copies bytes from packets that pass by port 0 into packets that pass by port 1. Bytes beyond a
//! packet's end are neither read nor written.
//!
//! ## Arguments
//! - RANGE: `OFFSET/LENGTH`, in bytes.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `StoreData`

use crate::prelude::*;

/// Copies bytes from packet to packet.
#[derive(Default)]
pub(crate) struct Clipboard {
    /// Offset of each range, and the bytes last copied from it.
    ranges: Vec<(usize, Vec<u8>)>,
}

impl Class for Clipboard {
    const INFO: ClassInfo =
        ClassInfo::new("Clipboard", "2/2").processing("a/a").flow("#/#").inline();
}

impl Clipboard {
    fn work(&mut self, port: usize, batch: &mut Batch) {
        for packet in batch {
            for (offset, bytes) in &mut self.ranges {
                let place = packet.data_mut().get_mut(*offset..).unwrap_or_default();
                for (byte, kept) in place.iter_mut().zip(bytes) {
                    match port {
                        0 => *kept = *byte,
                        _ => *byte = *kept,
                    }
                }
            }
        }
    }
}

impl Element for Clipboard {
    arguments! { this, given;
        let texts = rest "RANGE": "OFFSET/LENGTH";
        then {
            for (index, text) in texts {
                let range = text.split_once('/').and_then(|(offset, length)| {
                    Some((
                        offset.trim().parse().ok()?,
                        length.trim().parse().ok().filter(|n| *n <= 65535)?,
                    ))
                });
                match range {
                    Some((offset, length)) => this.ranges.push((offset, vec![0; length])),
                    None => given.error(ConfigError::at(
                        index,
                        format!("bad range '{text}', expected OFFSET/LENGTH"),
                    )),
                }
            }
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.work(port, batch);
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(port, max, &mut own);
        self.work(port, &mut own);
        batch.append(&mut own);
        context.give_batch(own);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn bytes_travel() {
        let mut bench = Bench::new("Clipboard", &["0/1", "2/2"]);
        assert_eq!(bench.push(0, &[b"abcd"]), [(0, b"abcd".to_vec())]);
        assert_eq!(
            bench.push(1, &[b"ABCDE", b"ABC"]),
            [(1, b"aBcdE".to_vec()), (1, b"aBc".to_vec())]
        );
        assert_eq!(Bench::error("Clipboard", &["1"]), "bad range '1', expected OFFSET/LENGTH");
    }
}
