//! # SetPacketType
//!
//! ## Synopsis
//! `SetPacketType(TYPE)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the packet type: which stations on its link the packet is for.
//!
//! ## Arguments
//! - TYPE: `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING`, `LOOPBACK` or `FASTROUTE`.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `HostEtherFilter`, `DropBroadcasts`

use europa_engine::PacketType;

use crate::prelude::*;

/// Sets the packet type.
#[derive(Default)]
pub(crate) struct SetPacketType(PacketType);

impl Class for SetPacketType {
    const INFO: ClassInfo = ClassInfo::new("SetPacketType", "1/1").inline();
}

impl Element for SetPacketType {
    arguments! { this, given;
        let word = mandatory "TYPE": String;
        then {
            this.0 = match word.to_ascii_uppercase().as_str() {
                "HOST" => PacketType::Host,
                "BROADCAST" => PacketType::Broadcast,
                "MULTICAST" => PacketType::Multicast,
                "OTHERHOST" => PacketType::OtherHost,
                "OUTGOING" => PacketType::Outgoing,
                "LOOPBACK" => PacketType::Loopback,
                "FASTROUTE" => PacketType::FastRoute,
                _ => return Err(ConfigError::at(0, format!("unrecognized packet type '{word}'"))),
            };
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_packet_type(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_engine::PacketType;

    #[test]
    fn types_have_names() {
        let mut bench = Bench::new("SetPacketType", &["multicast"]);
        bench.push(0, &[b"x"]);
        assert_eq!(bench.out[0].1.packet_type(), PacketType::Multicast);
        assert_eq!(Bench::error("SetPacketType", &["x"]), "unrecognized packet type 'x'");
    }
}
