//! The common part of `RatedSplitter` and `BandwidthRatedSplitter`.

use super::bucket::{Bucket, BucketArguments};
use crate::prelude::*;

/// Splits off the excess over a rate of bytes or of packets.
#[derive(Default)]
pub(crate) struct RatedSplit<const BYTES: bool> {
    bucket: Bucket,
}

impl<const BYTES: bool> Element for RatedSplit<BYTES> {
    arguments! { this, given;
        let bucket = set BucketArguments<BYTES>;
        then {
            this.bucket = bucket.bucket();
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        context.push_each(batch, |packet| {
            let passes = self.bucket.has(now_ns);
            if passes {
                self.bucket.take_for::<BYTES>(packet);
            }
            Some(usize::from(!passes))
        });
    }

    handlers! { this, context, value;
        both "rate" => this.bucket.rate_text::<BYTES>(), set this.bucket.write_rate::<BYTES>(value)?;
    }
}
