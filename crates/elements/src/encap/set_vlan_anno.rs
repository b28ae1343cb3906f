//! # SetVLANAnno
//!
//! ## Synopsis
//! `SetVLANAnno(VLAN_TCI [, VLAN_PCP, VLAN_ID])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's VLAN annotation.
//!
//! ## Arguments
//! - VLAN_TCI: the tag, a number.
//! - VLAN_PCP: priority, 0 to 7.
//! - VLAN_ID (keyword): 0 to 4095, in place of VLAN_TCI.
//!
//! ## Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp` (read, write): the tag.
//!
//! ## See also
//! `VLANEncap`, `EtherVLANEncap`

use super::{Tag, set_vlan_annotation};
use crate::prelude::*;

/// Sets the VLAN annotation.
#[derive(Default)]
pub(crate) struct SetVLANAnno(Tag);

impl Class for SetVLANAnno {
    const INFO: ClassInfo = ClassInfo::new("SetVLANAnno", "1/1").inline().also(&["SetVlanAnno"]);
}

impl Element for SetVLANAnno {
    arguments! { this, given;
        set Tag => this.0;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        if let Some(tci) = self.0.tci {
            for packet in batch {
                set_vlan_annotation(packet, tci);
            }
        }
    }

    handlers! { this, context, value;
        both "vlan_tci" => this.0.text(), set this.0.tci = Some(parse("vlan_tci", value)?);
        both "vlan_id" => this.0.part(0, 0xfff), set this.0.set(0, 0xfff, parse("vlan_id", value)?);
        both "vlan_pcp" => this.0.part(13, 7), set this.0.set(13, 7, parse("vlan_pcp", value)?);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn tag_and_parts() {
        let mut bench = Bench::new("SetVLANAnno", &["2", "1"]);
        bench.push(0, &[b"x"]);
        assert_eq!(bench.out[0].1.annotation::<2>(20), [0x20, 2]);
        bench.router.write("e.vlan_id", "9").unwrap();
        assert_eq!(bench.router.read("e.vlan_tci", ""), Ok("8201".into()));
    }
}
