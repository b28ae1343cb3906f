//! Options of packets.

use super::{Address, Reader, Trigger, WireError};
use crate::id::Id;

/// The meaning of an option with a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerUse {
    /// To a server: insert or refresh the trigger.
    Insert,
    /// From a server: insert the trigger again with this nonce.
    Challenge,
    /// From a server: the trigger is inserted.
    Acknowledge,
    /// To a server: remove the trigger.
    Remove,
    /// From a server: send packets for its prefix to the server at its address.
    CacheAddress,
    /// The same, but the receiver must use that server.
    ForceCacheAddress,
    /// From a server: the key of the trigger does not match.
    ConstraintFailed,
    /// From a server: the server at its address does not answer.
    RouteBroken,
    /// From a receiver: send packets for its id directly to its address.
    CacheShortcut,
    /// From a server: the receiver's address.
    CacheDestination,
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketOption {
    /// The address for answers.
    Sender(Address),
    /// The host to which a server passes the packet.
    Destination(Address),
    /// A trigger and its use.
    Trigger(TriggerUse, Trigger),
    /// There is no trigger for this id.
    NotPresent(Id),
    /// The trigger's rate is exceeded.
    RateExceeded(Id),
    /// Asks the server of the first id for its address.
    RequestForCache,
    /// Asks the receiver of the first id for its address.
    RequestForShortcut,
    /// The same, by the server.
    RequestForShortcutIndirect,
    /// Asks servers to log the packet.
    LogPacket,
    /// Asks servers to append the time.
    AppendTime,
}

const SENDER: u8 = 0x01;
const DESTINATION: u8 = 0x20;
const NOT_PRESENT: u8 = 0x06;
const RATE_EXCEEDED: u8 = 0x30;
const TRIGGERS: [(u8, TriggerUse); 10] = [
    (0x02, TriggerUse::Insert),
    (0x03, TriggerUse::Challenge),
    (0x04, TriggerUse::Acknowledge),
    (0x05, TriggerUse::Remove),
    (0x08, TriggerUse::CacheAddress),
    (0x09, TriggerUse::ForceCacheAddress),
    (0x10, TriggerUse::ConstraintFailed),
    (0x11, TriggerUse::RouteBroken),
    (0x13, TriggerUse::CacheShortcut),
    (0x14, TriggerUse::CacheDestination),
];
const BARE: [(u8, PacketOption); 5] = [
    (0x07, PacketOption::RequestForCache),
    (0x12, PacketOption::RequestForShortcut),
    (0x15, PacketOption::RequestForShortcutIndirect),
    (0x0a, PacketOption::LogPacket),
    (0x0b, PacketOption::AppendTime),
];

impl PacketOption {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PacketOption, WireError> {
        let kind = reader.byte("the type of an option")?;
        match kind {
            SENDER => return Address::read(reader).map(PacketOption::Sender),
            DESTINATION => return Address::read(reader).map(PacketOption::Destination),
            NOT_PRESENT => return reader.id().map(PacketOption::NotPresent),
            RATE_EXCEEDED => return reader.id().map(PacketOption::RateExceeded),
            _ => {}
        }
        if let Some((_, bare)) = BARE.iter().find(|(number, _)| *number == kind) {
            return Ok(bare.clone());
        }
        let (_, purpose) =
            TRIGGERS.iter().find(|(number, _)| *number == kind).ok_or(WireError::Option(kind))?;
        Trigger::read(reader).map(|trigger| PacketOption::Trigger(*purpose, trigger))
    }

    pub(crate) fn write(&self, wide: bool, out: &mut Vec<u8>) {
        match self {
            PacketOption::Sender(at) => {
                out.push(SENDER);
                at.write(wide, out);
            }
            PacketOption::Destination(at) => {
                out.push(DESTINATION);
                at.write(wide, out);
            }
            PacketOption::NotPresent(id) => {
                out.push(NOT_PRESENT);
                out.extend(id.0);
            }
            PacketOption::RateExceeded(id) => {
                out.push(RATE_EXCEEDED);
                out.extend(id.0);
            }
            PacketOption::Trigger(purpose, trigger) => {
                let number = TRIGGERS.iter().find(|(_, one)| one == purpose);
                out.extend(number.map(|(number, _)| *number));
                trigger.write(wide, out);
            }
            bare => {
                let number = BARE.iter().find(|(_, one)| one == bare);
                out.extend(number.map(|(number, _)| *number));
            }
        }
    }
}
