//! Reading fields in order.

use super::WireError;
use crate::id::Id;

/// Takes fields from the start of some bytes.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    left: &'a [u8],
    /// Whether an IPv4 address has 8 bytes.
    pub(crate) wide: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes, wide: false }
    }

    /// The bytes that are not yet taken.
    pub(crate) fn left(&self) -> &'a [u8] {
        self.left
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(crate) fn slice(
        &mut self,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], WireError> {
        let found = self.left.len();
        let (taken, left) = self.left.split_at_checked(length).ok_or(WireError::Short {
            what,
            needed: length,
            found,
        })?;
        self.left = left;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], WireError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.slice(N, what)?);
        Ok(bytes)
    }

    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, WireError> {
        self.array(what).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, WireError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, WireError> {
        self.array(what).map(u64::from_be_bytes)
    }

    pub(crate) fn id(&mut self) -> Result<Id, WireError> {
        self.array("an id").map(Id)
    }

    /// A number of ids, and the ids.
    pub(crate) fn stack(&mut self) -> Result<Vec<Id>, WireError> {
        let count = self.byte("the number of ids")?;
        if usize::from(count) > super::MOST_IDS {
            return Err(WireError::Stack(count));
        }
        (0..count).map(|_| self.id()).collect()
    }
}
