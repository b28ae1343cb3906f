//! `kind: node`: a machine of a cluster.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields};
use crate::host::{Texts, Word};
use crate::source::At;
use crate::tree::Node;
use crate::values::Name;

/// A machine of a cluster, on which a node of Europa runs. Only a cluster has such documents.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ClusterNode {
    /// The name, which `node` of other documents refers to.
    pub name: At<Name>,
    /// The address for tunnels to other nodes.
    pub address: At<IpAddr>,
    /// Most routers on this node. Default: its share of all routers of the cluster, and a fifth
    /// more. Routers with `node` count, but are always placed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routers: Option<At<u32>>,
    /// Labels for users, by name.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, Word>>")]
    pub labels: Texts,
}

impl Decode for ClusterNode {
    fn decode(node: &Node, context: &mut Context) -> Option<ClusterNode> {
        let mut fields = Fields::open(node, "a node", context)?;
        fields.take("kind");
        let (name, address) = (fields.required("name"), fields.required("address"));
        let routers = fields.optional("routers");
        let labels = fields.optional("labels").unwrap_or_default();
        fields.close();
        Some(ClusterNode { name: name?, address: address?, routers, labels })
    }
}
