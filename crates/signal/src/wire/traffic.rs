//! SENDER_TSPEC, class 12, and FLOWSPEC, class 9, of integrated services (RFC 2210, sections 3.1 and
//! 3.2).

use super::object::Body;
use super::{Float, Malformed, Reader, Writer};

const GENERAL: u8 = 1;
const GUARANTEED: u8 = 2;
const CONTROLLED_LOAD: u8 = 5;
const TOKEN_BUCKET: u8 = 127;
const GUARANTEED_RATE: u8 = 130;

/// A token bucket. Rates are bytes a second; all numbers are unchecked: see [`TokenBucket::check`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// r: bytes a second.
    pub rate: Float,
    /// b: bytes.
    pub depth: Float,
    /// p: bytes a second; infinity if unknown.
    pub peak: Float,
    /// m: smaller packets count as this many bytes.
    pub smallest: u32,
    /// M: the longest packet, in bytes.
    pub largest: u32,
}

/// The limits of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBucket {
    /// A rate is NaN, infinite or negative; or `r` is 0 although bandwidth is reserved.
    #[error("the rate r is not a positive finite number")]
    Rate,
    /// NaN, infinite or negative.
    #[error("the depth b is not a finite number of at least 0")]
    Depth,
    /// NaN, negative, or below `r`.
    #[error("the peak rate p is below the rate r, or no number")]
    Peak,
    /// m is 0: packets could not be counted.
    #[error("the smallest packet m is 0")]
    Smallest,
    /// 0, or below `m`.
    #[error("the largest packet M is 0 or below the smallest m")]
    Largest,
}

impl TokenBucket {
    /// Checks that the numbers describe traffic: r > 0 and finite, b >= 0 and finite, p >= r,
    /// possibly infinite, 0 < m <= M (RFC 2210, section 3.1; RFC 2212, section "TSpec"). A rate of
    /// 0 is allowed if `may_be_idle`: it means an LSP without bandwidth, whose p may be 0 too.
    ///
    /// # Errors
    /// The first invalid number.
    pub fn check(&self, may_be_idle: bool) -> Result<(), BadBucket> {
        let (rate, depth, peak) = (self.rate.get(), self.depth.get(), self.peak.get());
        let is_idle = rate == 0.0 && may_be_idle;
        if !(rate.is_finite() && (rate > 0.0 || is_idle)) {
            return Err(BadBucket::Rate);
        }
        if !(depth.is_finite() && depth >= 0.0) {
            return Err(BadBucket::Depth);
        }
        if peak.is_nan() || peak < rate {
            return Err(BadBucket::Peak);
        }
        // Other implementations send m = M = 0 for an LSP that reserves nothing.
        if self.smallest == 0 && !is_idle {
            return Err(BadBucket::Smallest);
        }
        if self.largest < self.smallest || self.largest == 0 && !is_idle {
            return Err(BadBucket::Largest);
        }
        Ok(())
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            rate: Float::from_bits(from.u32()?),
            depth: Float::from_bits(from.u32()?),
            peak: Float::from_bits(from.u32()?),
            smallest: from.u32()?,
            largest: from.u32()?,
        })
    }

    fn write(&self, to: &mut Writer) {
        write_parameter(to, TOKEN_BUCKET, 5);
        for float in [self.rate, self.depth, self.peak] {
            to.u32(float.to_bits());
        }
        to.u32(self.smallest);
        to.u32(self.largest);
    }
}

fn write_parameter(to: &mut Writer, number: u8, words: u16) {
    to.u8(number);
    to.u8(0);
    to.u16(words);
}

fn write_header(to: &mut Writer, service: u8, words: u16) {
    to.u16(0);
    to.u16(words + 1);
    write_parameter(to, service, words);
}

/// Reads the header of the first service block; returns its service, and the block.
fn read_header<'a>(from: &mut Reader<'a>) -> Result<Option<(u8, Reader<'a>)>, Malformed> {
    let version = from.u16()? >> 12;
    let words = from.u16()?;
    if version != 0 {
        return Ok(None);
    }
    let mut blocks = Reader::new(from.take(usize::from(words) * 4)?);
    let (service, _) = (blocks.u8()?, blocks.u8()?);
    let words = blocks.u16()?;
    let block = blocks.take(usize::from(words) * 4)?;
    if blocks.is_empty() { Ok(Some((service, Reader::new(block)))) } else { Ok(None) }
}

/// A parameter's value, if it has this number and length.
fn read_parameter<'a>(
    from: &mut Reader<'a>,
    number: u8,
    words: u16,
) -> Result<Option<Reader<'a>>, Malformed> {
    let (found, _) = (from.u8()?, from.u8()?);
    let length = from.u16()?;
    let value = from.take(usize::from(length) * 4)?;
    Ok((found == number && length == words).then(|| Reader::new(value)))
}

fn read_bucket(block: &mut Reader<'_>) -> Result<Option<TokenBucket>, Malformed> {
    let Some(mut value) = read_parameter(block, TOKEN_BUCKET, 5)? else { return Ok(None) };
    TokenBucket::read(&mut value).map(Some)
}

/// A sender's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tspec(
    /// Its traffic.
    pub TokenBucket,
);

impl Body for Tspec {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 2 {
            return Ok(None);
        }
        let Some((GENERAL, mut block)) = read_header(from)? else { return Ok(None) };
        let Some(bucket) = read_bucket(&mut block)? else { return Ok(None) };
        Ok(block.is_empty().then_some(Self(bucket)))
    }

    fn c_type(&self) -> u8 {
        2
    }

    fn write(&self, to: &mut Writer) {
        write_header(to, GENERAL, 6);
        self.0.write(to);
    }
}

/// A receiver's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flowspec {
    /// The traffic of the flow.
    pub bucket: TokenBucket,
    /// The kind of service.
    pub service: Service,
}

/// An integrated service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// RFC 2211: service as in an unloaded network.
    ControlledLoad,
    /// RFC 2212: a bound for each packet's delay.
    Guaranteed {
        /// R: bytes a second; at least r.
        rate: Float,
        /// S: microseconds by which the delay may exceed the delay that follows from R.
        slack_us: u32,
    },
}

impl Body for Flowspec {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 2 {
            return Ok(None);
        }
        let Some((service, mut block)) = read_header(from)? else { return Ok(None) };
        if ![CONTROLLED_LOAD, GUARANTEED].contains(&service) {
            return Ok(None);
        }
        let Some(bucket) = read_bucket(&mut block)? else { return Ok(None) };
        let service = match service {
            CONTROLLED_LOAD => Service::ControlledLoad,
            GUARANTEED => {
                let Some(mut value) = read_parameter(&mut block, GUARANTEED_RATE, 2)? else {
                    return Ok(None);
                };
                Service::Guaranteed { rate: Float::from_bits(value.u32()?), slack_us: value.u32()? }
            }
            _ => return Ok(None),
        };
        Ok(block.is_empty().then_some(Self { bucket, service }))
    }

    fn c_type(&self) -> u8 {
        2
    }

    fn write(&self, to: &mut Writer) {
        match self.service {
            Service::ControlledLoad => {
                write_header(to, CONTROLLED_LOAD, 6);
                self.bucket.write(to);
            }
            Service::Guaranteed { rate, slack_us } => {
                write_header(to, GUARANTEED, 9);
                self.bucket.write(to);
                write_parameter(to, GUARANTEED_RATE, 2);
                to.u32(rate.to_bits());
                to.u32(slack_us);
            }
        }
    }
}
