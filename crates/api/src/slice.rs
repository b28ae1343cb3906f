//! `kind: slice`: a tenant.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields};
use crate::link::LinkAddresses;
use crate::reservation::Reservation;
use crate::source::At;
use crate::tree::Node;
use crate::values::Name;

/// A tenant, who owns routers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Slice {
    /// What routers call it.
    pub name: At<Name>,
    /// A word for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<At<String>>,
    /// Where links get addresses from that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<LinkAddresses>,
    /// Its part of the node. Default: what others leave, shared alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

impl Decode for Slice {
    fn decode(node: &Node, context: &mut Context) -> Option<Slice> {
        let mut fields = Fields::open(node, "a slice", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let description = fields.optional("description");
        let links = fields.optional("links");
        let reservation = fields.optional("reservation");
        fields.close();
        Some(Slice { name: name?, description, links, reservation })
    }
}
