//! `kind: slice`: a tenant.

use schemars::JsonSchema;
use serde::Serialize;

use crate::allow::Allow;
use crate::decode::{Context, Decode, Fields, word};
use crate::link::LinkAddresses;
use crate::reservation::Reservation;
use crate::source::At;
use crate::tree::Node;
use crate::values::Name;

/// A tenant, the owner of routers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Slice {
    /// Its name for routers.
    pub name: At<Name>,
    /// A text for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<At<String>>,
    /// Ranges of addresses for links that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<LinkAddresses>,
    /// The slice's share of the node. Default: an equal share of the unreserved rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// The XDP programs of the slice's routers that may run in the kernel.
    #[serde(skip_serializing_if = "Programs::is_none")]
    #[schemars(with = "Option<Programs>")]
    pub programs: Programs,
    /// Fields that name objects of the machine, which documents of the slice's owners may contain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Allow>>")]
    pub allow: Vec<At<Allow>>,
}

/// The XDP programs that may run in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Programs {
    /// No programs.
    #[default]
    None,
    /// Programs that the kernel's verifier accepts from users without privileges: they cannot
    /// handle headers of variable length.
    Tenant,
    /// Programs that the verifier accepts from an operator, if they cannot leak an address of the
    /// kernel.
    Operator,
}

impl Programs {
    /// Whether no programs may run in the kernel.
    pub fn is_none(&self) -> bool {
        *self == Programs::None
    }
}

impl Decode for Programs {
    fn decode(node: &Node, context: &mut Context) -> Option<Programs> {
        let words = [
            ("none", Programs::None),
            ("tenant", Programs::Tenant),
            ("operator", Programs::Operator),
        ];
        word(node, context, "whose programs run in the kernel", &words)
    }
}

impl Decode for Slice {
    fn decode(node: &Node, context: &mut Context) -> Option<Slice> {
        let mut fields = Fields::open(node, "a slice", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let description = fields.optional("description");
        let links = fields.optional("links");
        let reservation = fields.optional("reservation");
        let programs = fields.optional("programs").unwrap_or_default();
        let allow = fields.list("allow");
        fields.close();
        Some(Slice { name: name?, description, links, reservation, programs, allow })
    }
}
