//! A rule: its conditions on a packet, and its action.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{Action, Written};
use super::opaque::OwnKey;
use super::table::table;
use super::words::{Dscp, InterfaceOf, Ports, Protocol, TcpFlags};

table! {
    /// A rule: a packet matches if it matches all fields. If several matching rules have the same
    /// priority, any of them may apply.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Rule {
        /// The rule's priority: a higher one applies first. Default: 0.
        pub priority: u32,
        /// Source addresses.
        #[schemars(with = "Option<String>")]
        pub source: Option<IpNet>,
        /// Destination addresses.
        #[schemars(with = "Option<String>")]
        pub destination: Option<IpNet>,
        /// Protocol of the IP packet: `tcp`, `udp`, `icmp`, or a number.
        pub protocol: Option<Protocol>,
        /// Source ports: `53` or `1024-65535`.
        pub source_port: Option<Ports>,
        /// Destination ports: `443` or `6000-6063`.
        pub destination_port: Option<Ports>,
        /// TCP flags that must be set, and flags that must not: `+syn-ack`.
        pub tcp_flags: Option<TcpFlags>,
        /// Differentiated services code point: `ef`, `af21`, or a number.
        pub dscp: Option<Dscp>,
        /// Whether the packet is a fragment other than the first, which has no ports.
        pub later_fragment: Option<bool>,
        /// The interface that sends the packet: `ROUTER.INTERFACE`.
        pub interface: Option<InterfaceOf>,
        /// In place of other fields: the key that a router's fast path has written for the packet.
        /// It is in quotes: hexadecimal digits from its first byte on, `?` for any digit; a mask
        /// may follow after `%`.
        pub key: Option<OwnKey>,
        required {
            /// Its action.
            #[schemars(with = "Written")]
            pub action: Action
        }
    }
}

impl Rule {
    /// Interfaces that it names.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceOf> {
        [&self.interface, &self.action.interface, &self.action.mirror].into_iter().flatten()
    }
}
