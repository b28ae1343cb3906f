//! A rule: what it says of a packet, and what becomes of it.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{Action, Written};
use super::opaque::OwnKey;
use super::table::table;
use super::words::{Dscp, InterfaceOf, Ports, Protocol, TcpFlags};

table! {
    /// A rule: what it says of a packet must all be so. Of rules with the same priority that match
    /// the same packet, any may count.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Rule {
        /// Higher goes first. Default: 0.
        pub priority: u32,
        /// Addresses that it comes from.
        #[schemars(with = "Option<String>")]
        pub source: Option<IpNet>,
        /// Addresses that it goes to.
        #[schemars(with = "Option<String>")]
        pub destination: Option<IpNet>,
        /// Protocol in IP: `tcp`, `udp`, `icmp`, or a number.
        pub protocol: Option<Protocol>,
        /// Ports that it comes from: `53` or `1024-65535`.
        pub source_port: Option<Ports>,
        /// Ports that it goes to: `443` or `6000-6063`.
        pub destination_port: Option<Ports>,
        /// Flags of TCP that are set and that are not: `+syn-ack`.
        pub tcp_flags: Option<TcpFlags>,
        /// Differentiated services code point: `ef`, `af21`, or a number.
        pub dscp: Option<Dscp>,
        /// Whether it is a fragment other than the first, which has no ports.
        pub later_fragment: Option<bool>,
        /// The interface that it leaves by: `ROUTER.INTERFACE`.
        pub interface: Option<InterfaceOf>,
        /// Not a packet's fields, but a key that a router's fast path has written for it: hexadecimal
        /// digits from its first byte on, `?` for any, in quotes; a mask may follow after `%`.
        pub key: Option<OwnKey>,
        required {
            /// What becomes of it.
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
