//! Figures of a server.

use super::Server;

macro_rules! counters {
    ($($(#[doc = $text:literal])* $name:ident,)*) => {
        /// Counters of a server since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $text])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and values.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Well-formed packets of clients.
    client_packets,
    /// Packets forwarded to other servers.
    forwarded,
    /// Packets sent to hosts.
    delivered,
    /// Packets without a trigger that were sent to the next id of their stacks.
    backups,
    /// Packets lost because their last id had no trigger.
    missing,
    /// Packets lost because they passed too many servers and triggers.
    looping,
    /// Copies that were not made because a packet had too many copies.
    copies_over,
    /// Packets lost because their stacks had more than 15 ids.
    long_stacks,
    /// Packets lost before the server joined.
    not_joined,
    /// Datagrams that were no packets.
    malformed,
    /// Messages whose tag was made with another key, or without meaning.
    refused_messages,
    /// Packets for hosts behind NATs that are unknown here.
    unknown_hosts,
    /// Challenges sent.
    challenges,
    /// Triggers inserted or refreshed.
    insertions,
    /// Triggers removed by their owners.
    removals,
    /// Triggers removed because their targets had no triggers.
    pushed_back,
    /// Triggers refused: form, constraint, nonce at removal, limits.
    refused_triggers,
    /// Copies of triggers sent to other servers.
    copies,
}

impl Server {
    /// Position, neighbours, fingers, number of triggers, and counters as JSON of at most 3 KB.
    pub fn state(&self) -> String {
        let quoted = |text: String| format!("\"{text}\"");
        let list = |all: &[crate::Member]| {
            let all: Vec<String> = all.iter().map(|one| quoted(one.at.to_string())).collect();
            format!("[{}]", all.join(", "))
        };
        let (me, around) = (self.ring.me(), self.ring.neighbours());
        let before = around.predecessor.map(|one| quoted(one.at.to_string()));
        let counters: Vec<String> = self
            .counters
            .list()
            .into_iter()
            .map(|(name, value)| format!("\"{name}\": {value}"))
            .collect();
        format!(
            "{{\"position\": \"{}\", \"address\": \"{}\", \"joined\": {}, \"predecessor\": {}, \
             \"successors\": {}, \"fingers\": {}, \"triggers\": {}, \"counters\": {{{}}}}}",
            me.id,
            me.at,
            self.ring.is_joined(),
            before.unwrap_or_else(|| "null".to_owned()),
            list(&around.successors),
            list(&self.ring.fingers()[..self.ring.fingers().len().min(32)]),
            self.table.len(),
            counters.join(", "),
        )
    }
}
