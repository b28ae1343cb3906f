//! Makes the node follow the cluster: computes its part, and applies it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use europa_api::Key;
use europa_api::rest::{Applied, ApplyRequest, NodeInfo, Objects};
use europa_client::{Client, ClientError, Deadlines, escape};

use super::Settings;
use super::hold::{Pending, pending};
use crate::error::{ClusterError, Result};
use crate::part::{Part, part};
use crate::store::State;
use crate::whole::Whole;

/// The known state of the node and the cluster; it outlives sessions.
#[derive(Debug)]
pub(super) struct Follower {
    settings: Settings,
    client: Client,
    /// The cluster's state that was read last.
    pub(super) state: Arc<State>,
    /// The part that was computed last, and the revision of its head.
    computed: Option<(i64, Arc<Own>)>,
    /// The part that the node runs, and marks by which a change of the node is noticed.
    applied: Option<(Arc<Own>, Marks)>,
}

/// A node's part of a state, and the whole state.
#[derive(Debug)]
struct Own {
    part: Part,
    whole: Whole,
}

/// A node's start time and the revision of its documents.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    since: String,
    revision: u64,
}

impl Follower {
    pub(super) fn new(settings: &Settings) -> Follower {
        Follower {
            settings: settings.clone(),
            client: Client::new(&settings.socket),
            state: Arc::default(),
            computed: None,
            applied: None,
        }
    }

    /// Refuses a node with documents of its own, because the cluster's documents would replace
    /// them.
    pub(super) async fn join(&mut self) -> Result<()> {
        // A note that names another cluster does not count.
        let noted = fs::read_to_string(&self.settings.note).unwrap_or_default();
        if noted.trim() == self.settings.access.cluster {
            return Ok(());
        }
        let nothing = ApplyRequest { prune: true, dry_run: true, ..ApplyRequest::default() };
        let there = blocking({
            let client = self.client.clone();
            move || client.post::<Applied>("/v1/apply", &nothing).map_err(ClusterError::from)
        });
        let there = there.await?.changes.len();
        if there > 0 && !self.settings.replace {
            return Err(ClusterError::Refused(format!(
                "the node has {there} documents that are not of cluster {}. A cluster's documents replace them: keep \
                 them in a file by `europa get -o yaml`, add them to the cluster by `europa cluster \
                 apply`, and start the agent with --replace",
                self.settings.access.cluster
            )));
        }
        let note = &self.settings.note;
        let written = note
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(note, format!("{}\n", self.settings.access.cluster)));
        written.map_err(|error| ClusterError::Refused(format!("{}: {error}", note.display())))
    }

    /// The node's part of the present state.
    async fn own(&mut self) -> Result<Arc<Own>> {
        let own = match self.computed.take() {
            Some((changed, own)) if changed == self.state.changed => own,
            _ => Arc::new(own_part(self.state.clone(), self.settings.name.clone()).await?),
        };
        self.computed = Some((self.state.changed, Arc::clone(&own)));
        Ok(own)
    }

    /// Planned moves in changes after `passed`, if the node would change its objects now.
    pub(super) async fn pending(&mut self, passed: u64) -> Result<Vec<Pending>> {
        let own = self.own().await?;
        match &self.applied {
            Some((applied, _)) if applied.part != own.part => {
                Ok(pending(&own.whole.places, passed, |key| own.whole.homes(key).is_some()))
            }
            // The first part since the agent's start may end copies of objects that now run
            // elsewhere.
            _ => Ok(Vec::new()),
        }
    }

    /// Makes the node run its part of the present state; does nothing if it already runs it.
    pub(super) async fn follow(&mut self) -> Result<()> {
        if self.state.head.sequence == 0 {
            return Ok(());
        }
        let own = self.own().await?;
        let client = self.client.clone();
        let marks = blocking(move || marks(&client)).await?;
        if let Some((applied, old)) = &self.applied
            && applied.part == own.part
            && *old == marks
        {
            return Ok(());
        }
        let (client, request) = (self.client.clone(), own.part.request(false));
        let applied = blocking(move || {
            let applied = client.post::<Applied>("/v1/apply", &request)?;
            Ok((applied, marks_of(&client)?))
        });
        let (applied, marks) = applied.await?;
        if !applied.changes.is_empty() {
            tracing::info!(
                "change {} of the cluster: {} objects differ",
                self.state.head.sequence,
                applied.changes.len()
            );
        }
        self.applied = Some((own, marks));
        Ok(())
    }

    /// Ends routers and hosts that the node runs but that belong to another node now. It is for a
    /// node that cannot run its whole part.
    ///
    /// # Errors
    /// A router whose ports stop without a lease goes on: with a lease, it would send again.
    pub(super) async fn end_copies(&mut self) -> Result<()> {
        let own = self.own().await?;
        let (client, name) = (self.client.clone(), self.settings.name.clone());
        blocking(move || {
            let is_elsewhere =
                |key: &Key| own.whole.places.get(key).is_some_and(|place| place.node != name);
            for kind in ["router", "host"] {
                let running = client.get::<Objects>(&format!("/v1/{kind}s"))?;
                let keys = running.items.into_iter().map(|one| Key::new(kind, one.name));
                for key in keys.filter(is_elsewhere) {
                    let path: Vec<String> = key.name.split('/').map(escape).collect();
                    let ended =
                        client.delete::<Applied>(&format!("/v1/{kind}s/{}", path.join("/")));
                    match ended {
                        Ok(_) => tracing::info!("ended a copy of {key}, which is on another node"),
                        Err(error) if own.whole.stops_without_lease(&key) => {
                            return Err(error.into());
                        }
                        // Links of the copy have an old epoch, so no peer accepts their packets.
                        Err(error) => tracing::warn!("a copy of {key} goes on: {error}"),
                    }
                }
            }
            Ok(())
        })
        .await
    }

    /// The reason why the node cannot run its part of a state; `None` if it can.
    pub(super) async fn check(&self, state: State) -> Result<Option<String>> {
        let own = own_part(Arc::new(state), self.settings.name.clone()).await?.part;
        if self.applied.as_ref().is_some_and(|(applied, _)| applied.part == own) {
            return Ok(None);
        }
        let deadlines = Deadlines {
            silence: Duration::from_secs(2),
            probe: Duration::from_secs(1),
            changing: Duration::from_millis(4500),
            ..Deadlines::default()
        };
        let client = self.client.clone().with_deadlines(deadlines);
        blocking(move || match client.post::<Applied>("/v1/apply", &own.request(true)) {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(told(&error))),
        })
        .await
    }
}

/// The node's refusal as text, with the mistakes that it names.
fn told(error: &ClientError) -> String {
    error.to_string()
}

async fn own_part(state: Arc<State>, name: String) -> Result<Own> {
    blocking(move || {
        let whole = Whole::of(&state)?;
        Ok(Own { part: part(&whole, &name)?, whole })
    })
    .await
}

fn marks(client: &Client) -> Result<Marks> {
    Ok(marks_of(client)?)
}

fn marks_of(client: &Client) -> std::result::Result<Marks, ClientError> {
    let info: NodeInfo = client.get("/v1/node")?;
    Ok(Marks { since: info.since, revision: info.revision })
}

/// Runs long work in another thread, while the session renews its lease.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ClusterError::Refused(format!("the agent failed: {error}"))),
    }
}
