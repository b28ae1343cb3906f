//! Access to etcd's keys below a prefix, with a deadline for every call.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, Error, GetOptions, Identity,
    TlsOptions, Txn, TxnOp, TxnOpResponse, TxnResponse, WatchOptions, WatchStream,
};

use crate::error::{ClusterError, Result};

/// The longest wait for an answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Most operations of a transaction: etcd's limit is 128.
pub(crate) const MOST_OPERATIONS: usize = 100;
/// Most bytes of a transaction's values: etcd's limit is 1.5 MB a request.
pub(crate) const MOST_BYTES: usize = 1_000_000;
/// Most keys of one answer to a listing.
const PAGE: i64 = 500;

/// How to reach a cluster's etcd.
#[derive(Clone, Debug)]
pub struct Access {
    /// URLs of members.
    pub endpoints: Vec<String>,
    /// The cluster's name; one etcd may hold several clusters.
    pub cluster: String,
    /// Files for TLS.
    pub tls: Option<TlsFiles>,
}

/// Files for TLS with etcd, as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificates of the authorities that have signed those of etcd's members.
    pub authority: PathBuf,
    /// The certificate and the key of this client.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// A connection to etcd. Clones share it.
#[derive(Clone)]
pub struct Etcd {
    client: Client,
    at: String,
    prefix: String,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("at", &self.at).field("prefix", &self.prefix).finish()
    }
}

/// A member of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its version.
    pub version: String,
    /// Bytes of its database.
    pub bytes: i64,
    /// etcd's alarms, such as a full database.
    pub errors: Vec<String>,
}

/// A key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The value.
    pub(crate) value: Vec<u8>,
    /// The revision of the key's last change.
    pub(crate) changed: i64,
}

impl Access {
    fn options(&self) -> Result<ConnectOptions> {
        let options = ConnectOptions::new()
            .with_require_leader(true)
            .with_keep_alive(Duration::from_secs(2), Duration::from_secs(3))
            .with_keep_alive_while_idle(true)
            .with_connect_timeout(Duration::from_secs(2));
        let Some(TlsFiles { authority, own }) = &self.tls else { return Ok(options) };
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|error| ClusterError::Refused(format!("{}: {error}", path.display())))
        };
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(authority)?));
        if let Some((certificate, key)) = own {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(options.with_tls(tls))
    }
}

impl Etcd {
    /// Connects, and checks that a member answers.
    ///
    /// # Errors
    /// No member answers, or its version has known faults.
    pub async fn connect(access: &Access) -> Result<Etcd> {
        let at = access.endpoints.join(",");
        let failed = |error: Error| ClusterError::Etcd {
            what: format!("connecting to {at}"),
            error: error.to_string(),
        };
        let client = Client::connect(&access.endpoints, Some(access.options()?));
        let client = client.await.map_err(failed)?;
        let prefix = format!("/europa/{}/", access.cluster);
        let etcd = Etcd { client, at, prefix };
        let mut client = etcd.client.clone();
        let status = etcd.call("asking for its version", client.status()).await;
        let status = status.map_err(|error| match error {
            ClusterError::Etcd { error: why, .. } => {
                ClusterError::Unreachable { at: etcd.at.clone(), why }
            }
            other => other,
        })?;
        refuse(status.version())?;
        Ok(etcd)
    }

    /// Version and database size of the member that answers, and its alarms.
    ///
    /// # Errors
    /// None answers.
    pub async fn service(&self) -> Result<Service> {
        let mut client = self.client.clone();
        let status = self.call("asking for its state", client.status()).await?;
        Ok(Service {
            version: status.version().to_owned(),
            bytes: status.db_size(),
            errors: status.errors().to_vec(),
        })
    }

    /// Waits for an answer until the deadline.
    pub(crate) async fn call<T>(
        &self,
        what: &str,
        call: impl Future<Output = std::result::Result<T, Error>>,
    ) -> Result<T> {
        let silent = || ClusterError::Silent {
            at: self.at.clone(),
            what: what.to_owned(),
            seconds: DEADLINE.as_secs(),
        };
        match tokio::time::timeout(DEADLINE, call).await {
            Err(_) => Err(silent()),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Error::GRpcStatus(status))) if status.message().contains("compacted") => {
                Err(ClusterError::Compacted(0))
            }
            Ok(Err(error)) => {
                Err(ClusterError::Etcd { what: what.to_owned(), error: error.to_string() })
            }
        }
    }

    /// etcd's key for one of this cluster's.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The client, for leases and watches.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The newest value of a key, and the revision at which it was read (linearisable).
    pub(crate) async fn get(&self, name: &str) -> Result<(Option<Found>, i64)> {
        let mut client = self.client.clone();
        let answer =
            self.call(&format!("reading {name}"), client.get(self.key(name), None)).await?;
        let revision = answer.header().map_or(0, |header| header.revision());
        Ok((answer.kvs().first().map(found), revision))
    }

    /// The number of etcd's present term, in which it has one leader (linearisable).
    pub(crate) async fn term(&self) -> Result<u64> {
        let mut client = self.client.clone();
        let options = GetOptions::new().with_count_only();
        let reading = client.get(self.key("control/"), Some(options));
        let answer = self.call("reading the term", reading).await?;
        Ok(answer.header().map_or(0, |header| header.raft_term()))
    }

    /// Keys that begin with `folder`, which ends with `/`, at one revision: `at`, or the newest.
    /// The prefix is removed. Also returns that revision.
    pub(crate) async fn list(
        &self,
        folder: &str,
        at: Option<i64>,
        keys_only: bool,
    ) -> Result<(Vec<(String, Found)>, i64)> {
        let mut client = self.client.clone();
        let first = self.key(folder);
        // `0` follows `/`.
        let end = format!("{}0", first.trim_end_matches('/'));
        let (mut from, mut revision) = (first, at.unwrap_or(0));
        let mut all = Vec::new();
        loop {
            let mut options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
            if keys_only {
                options = options.with_keys_only();
            }
            let options = options.with_revision(revision);
            let reading = client.get(from.clone(), Some(options));
            let answer = self.call(&format!("listing {folder}"), reading).await?;
            if revision == 0 {
                revision = answer.header().map_or(0, |header| header.revision());
            }
            for one in answer.kvs() {
                let key = String::from_utf8_lossy(one.key()).into_owned();
                let name = key.strip_prefix(&self.prefix).unwrap_or(&key).to_owned();
                from = key + "\0";
                all.push((name, found(one)));
            }
            if !answer.more() {
                return Ok((all, revision));
            }
        }
    }

    /// The values of keys at a revision, in the same order. They must fit into one answer.
    pub(crate) async fn read(&self, names: &[String], at: i64) -> Result<Vec<Option<Vec<u8>>>> {
        let options = || Some(GetOptions::new().with_revision(at));
        let reads: Vec<TxnOp> =
            names.iter().map(|name| TxnOp::get(self.key(name), options())).collect();
        let answer = self.transact("reading documents", &[], reads, Vec::new()).await?;
        let values = answer.op_responses().into_iter().map(|one| match one {
            TxnOpResponse::Get(mut got) => {
                got.take_kvs().into_iter().next().map(|one| one.into_key_value().1)
            }
            _ => None,
        });
        Ok(values.collect())
    }

    /// Runs one transaction: `then` if all of `when` holds, otherwise `otherwise`.
    pub(crate) async fn transact(
        &self,
        what: &str,
        when: &[Compare],
        then: Vec<TxnOp>,
        otherwise: Vec<TxnOp>,
    ) -> Result<TxnResponse> {
        let transaction = Txn::new().when(when).and_then(then).or_else(otherwise);
        let mut client = self.client.clone();
        self.call(what, client.txn(transaction)).await
    }

    /// A comparison: the key exists.
    pub(crate) fn is_there(&self, name: &str) -> Compare {
        Compare::create_revision(self.key(name), CompareOp::Greater, 0)
    }

    /// A comparison: the last change of the key was at this revision; 0 for a missing key.
    pub(crate) fn unchanged(&self, name: &str, revision: i64) -> Compare {
        Compare::mod_revision(self.key(name), CompareOp::Equal, revision)
    }

    /// Follows the keys of a folder from a revision on.
    pub(crate) async fn watch(&self, folder: &str, from: i64) -> Result<WatchStream> {
        let mut client = self.client.clone();
        let options = WatchOptions::new().with_prefix().with_start_revision(from);
        self.call("starting a watch", client.watch(self.key(folder), Some(options))).await
    }
}

fn found(one: &etcd_client::KeyValue) -> Found {
    Found { value: one.value().to_vec(), changed: one.mod_revision() }
}

/// Whether members of this version may revoke living leases, after their leader has stalled: before
/// 3.4.31 and 3.5.13 (etcd issue 15247).
pub(crate) fn revokes_early(version: &str) -> bool {
    match number(version) {
        [3, 5, patch] => patch < 13,
        number => number < [3, 4, 31],
    }
}

fn number(version: &str) -> [u32; 3] {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Refuses versions whose members may lose or mix up data: 3.5.0 to 3.5.2 (etcd issue 13766), and
/// versions before 3.4.
fn refuse(version: &str) -> Result<()> {
    let refused = match number(version) {
        [3, 5, patch] if patch <= 2 => "can lose data when it is killed: install 3.5.3 or later",
        number if number < [3, 4, 0] => "is too old: install 3.4 or later",
        _ => return Ok(()),
    };
    Err(ClusterError::Refused(format!("etcd {version} {refused}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_revocations() {
        for (version, wanted) in [
            ("3.4.23", true),
            ("3.4.31", false),
            ("3.5.12", true),
            ("3.5.13", false),
            ("3.6.0-rc.1", false),
        ] {
            assert_eq!(revokes_early(version), wanted, "{version}");
        }
    }

    #[test]
    fn versions() {
        for (version, wanted) in [
            ("3.4.23", true),
            ("3.4.0", true),
            ("3.3.25", false),
            ("3.5.0", false),
            ("3.5.2", false),
            ("3.5.3", true),
            ("3.6.0-rc.1", true),
        ] {
            assert_eq!(refuse(version).is_ok(), wanted, "{version}");
        }
    }
}
