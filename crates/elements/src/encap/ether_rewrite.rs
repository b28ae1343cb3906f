//! # EtherRewrite
//!
//! ## Synopsis
//! `EtherRewrite(SRC, DST)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the Ethernet source and destination address of each packet.
//!
//! ## Arguments
//! - SRC, DST: Ethernet addresses.
//!
//! ## Handlers
//! - `src`, `dst` (read, write): see the arguments.
//!
//! ## See also
//! `EtherEncap`, `StoreEtherAddress`, `EtherMirror`

use europa_packet::MacAddr;

use crate::prelude::*;
use crate::shared::fields::set;

/// Sets Ethernet addresses.
#[derive(Default)]
pub(crate) struct EtherRewrite {
    source: [u8; 6],
    destination: [u8; 6],
}

impl Class for EtherRewrite {
    const INFO: ClassInfo = ClassInfo::new("EtherRewrite", "1/1").inline().keeps_long();
}

impl Element for EtherRewrite {
    arguments! { this, given;
        mandatory "SRC": [u8; 6] => this.source;
        mandatory "DST": [u8; 6] => this.destination;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            set(packet.data_mut(), 0, self.destination);
            set(packet.data_mut(), 6, self.source);
        }
    }

    handlers! { this, context, value;
        both "src" => MacAddr(this.source), set this.source = parse("src", value)?;
        both "dst" => MacAddr(this.destination), set this.destination = parse("dst", value)?;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn both_are_set() {
        let mut bench = Bench::new("EtherRewrite", &["61:61:61:61:61:61", "62:62:62:62:62:62"]);
        assert_eq!(bench.push(0, &[b"------------xy"]), [(0, b"bbbbbbaaaaaaxy".to_vec())]);
    }
}
