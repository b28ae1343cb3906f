//! Keys of `control/` other than the head: nodes with a lease, the leader, and questions to nodes.

use std::collections::BTreeMap;

use etcd_client::{Compare, CompareOp, DeleteOptions, TxnOp};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::etcd::Etcd;
use crate::store::{Head, parse};

/// The key of the leader's name.
pub(crate) const LEADER: &str = "control/leader";

/// A node's description of itself. The key exists as long as the node's lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its version of Europa.
    pub version: String,
    /// Machine and socket, which distinguish this agent from another agent of the same name.
    pub at: String,
    /// The sequence of the last change that the node has passed.
    pub passed: u64,
    /// The reason why the node does not run the state of that sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A question to nodes, before a change is committed: could each of them run its part?
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// The nodes.
    pub(crate) nodes: Vec<String>,
    /// The head that would take effect.
    pub(crate) head: Head,
}

/// A node's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The reason if the node refuses; `None` if it agrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

pub(crate) fn node_key(node: &str) -> String {
    format!("control/nodes/{node}")
}

/// A comparison: the node has no lease.
pub(crate) fn is_absent(etcd: &Etcd, node: &str) -> Compare {
    Compare::create_revision(etcd.key(&node_key(node)), CompareOp::Equal, 0)
}

pub(crate) fn asked_key(request: &str) -> String {
    format!("control/asked/{request}")
}

pub(crate) fn answer_key(request: &str, node: &str) -> String {
    format!("control/answers/{request}/{node}")
}

/// Nodes with a lease, by name.
///
/// # Errors
/// etcd does not answer.
pub async fn members(etcd: &Etcd) -> Result<BTreeMap<String, Member>> {
    let (found, _) = etcd.list("control/nodes/", None, false).await?;
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    found.iter().map(|(key, one)| Ok((name(key), parse(key, &one.value)?))).collect()
}

/// The name of the leader, if one exists.
///
/// # Errors
/// etcd does not answer.
pub async fn leader(etcd: &Etcd) -> Result<Option<String>> {
    let (found, _) = etcd.get(LEADER).await?;
    Ok(found.map(|one| String::from_utf8_lossy(&one.value).into_owned()))
}

/// Removes a question and its answers.
pub(crate) fn withdraw(etcd: &Etcd, request: &str) -> Vec<TxnOp> {
    let answers = etcd.key(&format!("control/answers/{request}/"));
    vec![
        TxnOp::delete(etcd.key(&asked_key(request)), None),
        TxnOp::delete(answers, Some(DeleteOptions::new().with_prefix())),
    ]
}
