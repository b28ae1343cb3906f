//! Label stack entries (RFC 3032), and the pipe and uniform models (RFC 3443, RFC 3270).

/// How the TTL and traffic class of a label relate to those of the packet below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// The LSP counts as one hop for its payload, and does not change the payload's traffic class.
    Pipe,
    /// Each hop of the LSP counts for the payload.
    #[default]
    Uniform,
}

/// One entry of a label stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEntry {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 3 bits.
    pub class: u8,
    /// Whether it is the last before the payload.
    pub is_bottom: bool,
    /// Hops that are left.
    pub ttl: u8,
}

impl StackEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 4;

    /// Reads an entry.
    #[inline(always)]
    pub const fn from_bytes(bytes: [u8; 4]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self {
            label: word >> 12,
            class: (word >> 9 & 7) as u8,
            is_bottom: word & 0x100 != 0,
            ttl: word as u8,
        }
    }

    /// Writes an entry.
    #[inline(always)]
    pub const fn to_bytes(self) -> [u8; 4] {
        let bottom = if self.is_bottom { 0x100 } else { 0 };
        let class = (self.class as u32 & 7) << 9;
        (self.label << 12 | class | bottom | self.ttl as u32).to_be_bytes()
    }

    /// The entry that a packet without labels gets at the head; `ttl` is its header's TTL after the
    /// decrement, `dscp` its DSCP.
    #[inline(always)]
    pub const fn push(model: Model, label: u32, ttl: u8, dscp: u8) -> Self {
        let ttl = match model {
            Model::Pipe => 255,
            Model::Uniform => ttl,
        };
        // RFC 3270, section 3.3 leaves the mapping to the router; this one uses the class selector.
        Self { label, class: dscp >> 3, is_bottom: true, ttl }
    }

    /// The entry with a TTL lower by one and another label; `None` if the TTL expires.
    #[inline(always)]
    pub const fn swap(self, label: u32) -> Option<Self> {
        match self.ttl {
            0 | 1 => None,
            ttl => Some(Self { label, ttl: ttl - 1, ..self }),
        }
    }

    /// The TTL of the header below after this entry is removed; `None` if the TTL expires.
    #[inline(always)]
    pub const fn pop(self, model: Model, below: u8) -> Option<u8> {
        match (model, self.ttl) {
            (_, 0 | 1) => None,
            (Model::Pipe, _) => Some(below),
            // RFC 3443, section 5.4: the TTL never rises, whatever the head did.
            (Model::Uniform, ttl) => Some(if ttl - 1 < below { ttl - 1 } else { below }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_rfc_3032_draws_them() {
        let table = [
            ([0, 1, 0x01, 64], StackEntry { label: 16, class: 0, is_bottom: true, ttl: 64 }),
            (
                [0xff, 0xff, 0xf0, 1],
                StackEntry { label: 0xf_ffff, class: 0, is_bottom: false, ttl: 1 },
            ),
            ([0, 0, 0x0f, 255], StackEntry { label: 0, class: 7, is_bottom: true, ttl: 255 }),
        ];
        for (bytes, entry) in table {
            assert_eq!(StackEntry::from_bytes(bytes), entry);
            assert_eq!(entry.to_bytes(), bytes);
        }
    }

    #[test]
    fn ttl_follows_the_model() {
        use Model::{Pipe, Uniform};
        assert_eq!(StackEntry::push(Pipe, 16, 7, 46).ttl, 255);
        let pushed = StackEntry::push(Uniform, 16, 7, 46);
        assert_eq!((pushed.ttl, pushed.class), (7, 5));
        let entry = |ttl| StackEntry { label: 16, class: 0, is_bottom: true, ttl };
        let swaps = [(0, None), (1, None), (2, Some(1)), (255, Some(254))];
        for (ttl, wanted) in swaps {
            assert_eq!(entry(ttl).swap(17).map(|swapped| swapped.ttl), wanted, "{ttl}");
        }
        let pops = [
            (Uniform, 1, 64, None),
            (Pipe, 1, 64, None),
            (Uniform, 9, 64, Some(8)),
            (Uniform, 200, 64, Some(64)),
            (Pipe, 9, 64, Some(64)),
        ];
        for (model, ttl, below, wanted) in pops {
            assert_eq!(entry(ttl).pop(model, below), wanted, "{model:?} {ttl} {below}");
        }
    }
}
