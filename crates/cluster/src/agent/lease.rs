//! A node's lease. It only detects failures.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, TxnOp};
use tokio::time::{Instant, sleep, timeout};

use super::deadline::{Deadlines, boot_ns, deadline_ns};
use crate::error::{ClusterError, Result};
use crate::etcd::Etcd;
use crate::member::{LEADER, Member, node_key};
use crate::store::{parse, text};
use crate::takeover::LEASE;

/// Seconds for which a lease lasts without renewal.
const SECONDS: i64 = LEASE.as_secs() as i64;
/// Time between two renewals.
const RENEW: Duration = Duration::from_millis(1500);
/// The longest wait for the answer to a renewal.
const RENEWAL: Duration = Duration::from_secs(2);

/// A lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease(i64);

impl Lease {
    /// Asks for a lease, and tells the node its deadline. The node has ended copies of routers that
    /// run elsewhere.
    pub(super) async fn grant(etcd: &Etcd, deadlines: &Deadlines) -> Result<Lease> {
        let mut client = etcd.client();
        let asked = boot_ns();
        let granted = etcd.call("asking for a lease", client.lease_grant(SECONDS, None)).await?;
        deadlines.send_replace(Some(deadline_ns(asked, granted.ttl())));
        Ok(Lease(granted.id()))
    }

    /// Options of a key that is deleted with the lease.
    pub(super) fn options(self) -> Option<PutOptions> {
        Some(PutOptions::new().with_lease(self.0))
    }

    /// Renews it until that fails. Tells the node each new deadline.
    pub(super) async fn keep(self, etcd: &Etcd, deadlines: &Deadlines) -> Result<()> {
        let lost = |error: String| ClusterError::Etcd { what: "renewing the lease".into(), error };
        let mut client = etcd.client();
        let (mut keeper, mut answers) =
            etcd.call("renewing the lease", client.lease_keep_alive(self.0)).await?;
        loop {
            sleep(RENEW).await;
            let asked = boot_ns();
            keeper.keep_alive().await.map_err(|error| lost(error.to_string()))?;
            let answer = timeout(RENEWAL, answers.message())
                .await
                .map_err(|_| lost(format!("no answer within {} s", RENEWAL.as_secs())))?
                .map_err(|error| lost(error.to_string()))?
                .ok_or_else(|| lost("the connection ended".into()))?;
            let deadline = deadline_ns(asked, answer.ttl());
            deadlines.send_replace(Some(deadline));
            if deadline == 0 {
                return Err(lost("it has ended".into()));
            }
        }
    }

    /// Puts the node's key, unless an agent of another machine has it.
    pub(super) async fn register(self, etcd: &Etcd, name: &str, member: &Member) -> Result<()> {
        let key = node_key(name);
        let start = Instant::now();
        loop {
            let (found, _) = etcd.get(&key).await?;
            let changed = found.as_ref().map_or(0, |found| found.changed);
            let other = found.map(|found| parse::<Member>(&key, &found.value)).transpose()?;
            match other.filter(|other| other.at != member.at) {
                Some(other) if start.elapsed() > Duration::from_secs(3 + SECONDS as u64) => {
                    return Err(ClusterError::Refused(format!(
                        "node {name} is in the cluster already, at {}: give each node a name of its \
                         own by --name",
                        other.at
                    )));
                }
                // The other agent may have been killed; its lease then ends soon.
                Some(_) => sleep(RENEW).await,
                None => {
                    let put = TxnOp::put(etcd.key(&key), text(member)?, self.options());
                    let when = [etcd.unchanged(&key, changed)];
                    let answer = etcd.transact("joining", &when, vec![put], Vec::new()).await?;
                    if answer.succeeded() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reports the change that the node has passed.
    pub(super) async fn report(self, etcd: &Etcd, name: &str, member: &Member) -> Result<()> {
        let put = TxnOp::put(etcd.key(&node_key(name)), text(member)?, self.options());
        etcd.transact("reporting", &[], vec![put], Vec::new()).await.map(drop)
    }

    /// Becomes the leader if there is none. Returns a comparison that holds as long as it leads.
    pub(super) async fn lead(self, etcd: &Etcd, name: &str) -> Result<Option<Compare>> {
        let key = etcd.key(LEADER);
        let when = [Compare::create_revision(key.clone(), CompareOp::Equal, 0)];
        let put = TxnOp::put(key.clone(), name, self.options());
        let answer = etcd.transact("becoming the leader", &when, vec![put], Vec::new()).await?;
        let created = answer.header().map_or(0, |header| header.revision());
        let leads = answer.succeeded();
        Ok(leads.then(|| Compare::create_revision(key, CompareOp::Equal, created)))
    }
}
