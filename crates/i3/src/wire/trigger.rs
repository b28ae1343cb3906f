//! Triggers.

use super::{Address, Reader, WireError};
use crate::id::{ID_BITS, Id, Key, LEAST_PREFIX_BITS};

/// Flag: the trigger's receiver allows senders to learn its address.
pub const ALLOW_SHORTCUT: u8 = 0x01;
/// Flag: the trigger has a bucket.
pub const RATE_LIMIT: u8 = 0x02;

/// A trigger: packets for `id` are sent to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The id that packets have.
    pub id: Id,
    /// [`ALLOW_SHORTCUT`]; other flags are stored. [`RATE_LIMIT`] follows from `bucket`.
    pub flags: u8,
    /// Least number of bits that a packet's id has in common with the trigger's id; below 192
    /// counts as 192.
    pub prefix_bits: u16,
    /// The answer to the server's challenge.
    pub nonce: [u8; 16],
    /// The destination of packets.
    pub to: Address,
    /// The key of an address, for constraints; not sent if `to` is a stack.
    pub key: Key,
    /// A limit of its rate.
    pub bucket: Option<Bucket>,
}

/// A limit of a trigger's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// 0 if packets count, 1 if bytes count.
    pub kind: u8,
    /// Packets or bytes.
    pub depth: u16,
    /// Packets or bytes per second.
    pub rate: u16,
    /// Packets or bytes per second at most.
    pub highest: u16,
}

impl Trigger {
    /// A trigger without a nonce, for packets with exactly this id.
    pub fn new(id: Id, to: Address, key: Key) -> Trigger {
        let key = if matches!(to, Address::Stack(_)) { Key::default() } else { key };
        Trigger { id, flags: 0, prefix_bits: ID_BITS, nonce: [0; 16], to, key, bucket: None }
    }

    /// Number of bits that a packet's id must have in common: 192 to 256 if it is valid.
    pub fn needed_bits(&self) -> u16 {
        self.prefix_bits.max(LEAST_PREFIX_BITS)
    }

    /// Reads a trigger that begins with its flags.
    ///
    /// # Errors
    /// The bytes end too early, or the address type is unknown.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Trigger, WireError> {
        let flags = reader.byte("the flags of a trigger")?;
        let id = reader.id()?;
        let prefix_bits = reader.u16("a prefix length")?;
        let nonce = reader.array("a nonce")?;
        let to = Address::read(reader)?;
        let key = match &to {
            Address::Stack(_) => Key::default(),
            _ => Key(reader.array("a key")?),
        };
        let bucket = (flags & RATE_LIMIT != 0).then(|| Bucket::read(reader)).transpose()?;
        Ok(Trigger { id, flags, prefix_bits, nonce, to, key, bucket })
    }

    pub(crate) fn write(&self, wide: bool, out: &mut Vec<u8>) {
        let limited = if self.bucket.is_some() { RATE_LIMIT } else { 0 };
        out.push(self.flags & !RATE_LIMIT | limited);
        out.extend(self.id.0);
        out.extend(self.prefix_bits.to_be_bytes());
        out.extend(self.nonce);
        self.to.write(wide, out);
        if !matches!(self.to, Address::Stack(_)) {
            out.extend(self.key.0);
        }
        if let Some(bucket) = &self.bucket {
            bucket.write(out);
        }
    }
}

impl Bucket {
    fn read(reader: &mut Reader<'_>) -> Result<Bucket, WireError> {
        let kind = reader.byte("the type of a bucket")?;
        let mut number = || {
            let number = reader.u16("a bucket's number")?;
            reader.u16("a bucket's number").map(|_| number)
        };
        Ok(Bucket { kind, depth: number()?, rate: number()?, highest: number()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        for number in [self.depth, self.rate, self.highest] {
            out.extend(number.to_be_bytes());
            out.extend([0; 2]);
        }
    }
}
