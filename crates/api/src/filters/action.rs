//! The action on a packet that a rule matches.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::opaque::RuleResult;
use super::table::table;
use super::words::{Dscp, InterfaceOf};
use crate::decode::{Context, Decode, Fields, word};
use crate::problem::Problem;
use crate::tree::{Node, Value};
use crate::values::Mac;

/// The message for an empty action, or an action with only a misspelt field.
const NOTHING: &str = "an action in braces does something";
const COUNT: &str = "a rule that only counts says `action: count`";

table! {
    /// An action's fields.
    // `remote` makes functions of serde's derived code: an action may also be one word, so its
    // `Serialize` and `Deserialize` are written below.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(remote = "Self", deny_unknown_fields)]
    #[schemars(rename = "ActionFields")]
    pub struct Action {
        /// Drop it.
        pub drop: bool,
        /// Give the packet to the router's own Linux.
        pub slow_path: bool,
        /// Put the packet into the slice's queue of this number.
        pub queue: Option<u16>,
        /// Send the packet by this interface of the same router.
        pub interface: Option<InterfaceOf>,
        /// The packet's new destination Ethernet address. Default: unchanged.
        pub destination_mac: Option<Mac>,
        /// Its new DSCP.
        pub dscp: Option<Dscp>,
        /// `ce`: mark the packet as having experienced congestion, if its ends support ECN.
        pub ecn: Option<Ecn>,
        /// Send a copy by this interface of the same router.
        pub mirror: Option<InterfaceOf>,
        /// Return the packet to its sender, with the `result`; for rules with a `key`.
        pub back: bool,
        /// Up to 16 bytes, as hexadecimal digits, for the next router that gets the packet: the
        /// router behind the link, or the sender with `back`. For rules with a `key`.
        pub result: Option<RuleResult>,
    }
}

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// Congestion experienced.
    Ce,
}

/// Actions that are one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// Only count it.
    Count,
    /// Drop it.
    Drop,
    /// Give the packet to the router's own Linux.
    SlowPath,
}

/// The action on a packet: `count`, `drop`, `slow_path`, or fields.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Action")]
pub(super) enum Written {
    /// One word.
    Word(Word),
    /// Several things at once.
    Fields(#[serde(with = "Action")] Action),
}

impl From<Word> for Action {
    fn from(word: Word) -> Action {
        match word {
            Word::Count => Action::default(),
            Word::Drop => Action { drop: true, ..Action::default() },
            Word::SlowPath => Action { slow_path: true, ..Action::default() },
        }
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Action, D::Error> {
        match <Written as Deserialize>::deserialize(deserializer)? {
            Written::Word(word) => Ok(word.into()),
            Written::Fields(fields) if fields == Action::default() => {
                Err(serde::de::Error::custom(format!("{NOTHING}; {COUNT}")))
            }
            Written::Fields(fields) => Ok(fields),
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = [Word::Count, Word::Drop, Word::SlowPath]
            .into_iter()
            .find(|word| Action::from(*word) == *self);
        match word {
            Some(word) => word.serialize(serializer),
            // The derived function.
            None => Action::serialize(self, serializer),
        }
    }
}

impl Decode for Action {
    fn decode(node: &Node, context: &mut Context) -> Option<Action> {
        if !matches!(node.value, Value::Map(_)) {
            let words =
                [("count", Word::Count), ("drop", Word::Drop), ("slow_path", Word::SlowPath)];
            let word = word(node, context, "an action", &words)?;
            return Some(word.into());
        }
        let mut fields = Fields::open(node, "an action", context)?;
        let action = Action::take(&mut fields);
        let (place, before) = (fields.place(), fields.context.problems.len());
        fields.close();
        if context.problems.len() == before && action == Action::default() {
            let problem = Problem::new(place, NOTHING).label("says nothing");
            context.report(problem.help(COUNT));
            return None;
        }
        Some(action)
    }
}

impl Decode for Ecn {
    fn decode(node: &Node, context: &mut Context) -> Option<Ecn> {
        word(node, context, "a notification of congestion", &[("ce", Ecn::Ce)])
    }
}
