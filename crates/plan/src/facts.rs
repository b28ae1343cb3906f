//! The facts about the machine before any change.

use std::collections::{BTreeMap, HashMap};

use europa_api::Fault;

use crate::ids::PortId;

/// The facts about a port's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Ethernet address of the device.
    pub mac: [u8; 6],
    /// Longest packet, in bytes.
    pub mtu: u32,
    /// Whether VLAN matches can be trusted; if not, the reason.
    pub vlan: Result<(), String>,
}

/// The facts about all ports that documents name.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// By port.
    pub ports: HashMap<PortId, PortFacts>,
    /// Ports whose devices are missing or unsuitable, each with the reason.
    pub missing: BTreeMap<PortId, Failure>,
}

/// The reason why a change cannot be, or was not, carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Text for users.
    pub text: String,
    /// Objects and fields that cause the failure, as far as known.
    pub faults: Vec<Fault>,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self { text: fault.to_string(), faults: vec![fault] }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, faults: Vec::new() }
    }
}

impl Failure {
    /// Joins failures into one; `None` if there are none.
    pub fn all<'f>(failures: impl Iterator<Item = &'f Failure>) -> Option<Failure> {
        let all: Vec<_> = failures.collect();
        (!all.is_empty()).then(|| Failure {
            text: all.iter().map(|one| &*one.text).collect::<Vec<_>>().join("\n"),
            faults: all.iter().flat_map(|one| one.faults.iter().cloned()).collect(),
        })
    }
}
