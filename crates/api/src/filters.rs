//! `kind: filters`: rules for the packets of a slice's routers.

mod action;
mod contradiction;
mod opaque;
mod read;
mod rule;
mod table;
mod words;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub use self::action::{Action, Ecn};
pub use self::contradiction::Contradiction;
pub use self::opaque::{MOST_KEY_BYTES, MOST_RESULT_BYTES, OwnKey, RuleResult};
pub use self::rule::Rule;
pub use self::words::{Dscp, InterfaceOf, Ports, Protocol, TcpFlags};
use crate::decode::{Context, Decode, Fields};
use crate::source::At;
use crate::tree::Node;
use crate::values::Name;

/// Rules for the IP packets that the routers of a slice send. The matching rule with the highest
/// priority applies, whichever document it is in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Filters {
    /// Its name.
    pub name: At<Name>,
    /// The slice whose packets the rules are for.
    pub slice: At<Name>,
    /// The rules.
    pub rules: Rules,
}

/// Rules of a document. Their number may be very large.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Arc<Vec<At<Rule>>>);

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

impl JsonSchema for Rules {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rules".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<Rule>::json_schema(generator)
    }
}

impl Decode for Filters {
    fn decode(node: &Node, context: &mut Context) -> Option<Filters> {
        let mut fields = Fields::open(node, "filters", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let slice = fields.required("slice");
        let rules: Option<Vec<At<Rule>>> = fields.required("rules");
        fields.close();
        Some(Filters { name: name?, slice: slice?, rules: Rules(Arc::new(rules?)) })
    }
}
