//! A rule: its conditions on a packet, and its action.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{Action, Written};
use super::opaque::OwnKey;
use super::table::table;
use super::words::{Dscp, InterfaceOf, Ports, Protocol, TcpFlags};

table! {
    /// A rule: a packet matches if all its fields do. Of matching rules with the same priority, any
    /// may apply.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Rule {
        /// Higher applies first. Default: 0.
        pub priority: u32,
        /// Source addresses.
        #[schemars(with = "Option<String>")]
        pub source: Option<IpNet>,
        /// Destination addresses.
        #[schemars(with = "Option<String>")]
        pub destination: Option<IpNet>,
        /// Protocol in IP: `tcp`, `udp`, `icmp`, or a number.
        pub protocol: Option<Protocol>,
        /// Source ports: `53` or `1024-65535`.
        pub source_port: Option<Ports>,
        /// Destination ports: `443` or `6000-6063`.
        pub destination_port: Option<Ports>,
        /// Flags of TCP that are set and that are not: `+syn-ack`.
        pub tcp_flags: Option<TcpFlags>,
        /// Differentiated services code point: `ef`, `af21`, or a number.
        pub dscp: Option<Dscp>,
        /// Whether it is a fragment other than the first, which has no ports.
        pub later_fragment: Option<bool>,
        /// The interface that sends it: `ROUTER.INTERFACE`.
        pub interface: Option<InterfaceOf>,
        /// In place of a packet's fields: the key that a router's fast path has written for the
        /// packet. In quotes, hexadecimal digits from its first byte on, `?` for any digit; a mask
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
