//! `kind: link`: joins two interfaces without a device.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields};
use crate::source::At;
use crate::tree::Node;
use crate::values::Name;

/// Joins the two interfaces that name it. The document need not be written: an
/// interface's `link: NAME` makes the link.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Link {
    /// What the two interfaces call it.
    pub name: At<Name>,
}

impl Decode for Link {
    fn decode(node: &Node, context: &mut Context) -> Option<Link> {
        let mut fields = Fields::open(node, "a link", context)?;
        fields.take("kind");
        let name = fields.required("name");
        fields.close();
        Some(Link { name: name? })
    }
}
