//! Writes a stage, step by step, and then the head.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use etcd_client::{Compare, DeleteOptions, TxnOp, TxnOpResponse};

use super::{
    Bucket, Change, Entry, FORMAT, HEAD, Head, Located, MOST_RECENT, PIECE, State, begin_of,
    bucket_of, text,
};
use crate::error::{ClusterError, Result};
use crate::etcd::{Etcd, MOST_BYTES, MOST_OPERATIONS};

/// A change that is being written to etcd. Each [`Writer::step`] is one request; a writer that ends
/// between two steps leaves a stage without effect.
#[derive(Debug)]
pub struct Writer {
    stage: String,
    base: i64,
    head: Head,
    /// Remaining requests: keys and values.
    steps: VecDeque<Vec<(String, Vec<u8>)>>,
    begun: bool,
}

impl Writer {
    /// A writer of a change to `state`, which is the present one. `stage` is the request's id,
    /// which is used only once.
    ///
    /// # Errors
    /// A value cannot be written as JSON.
    pub fn new(state: &State, change: &Change, stage: &str) -> Result<Writer> {
        let mut objects = Objects { stage: stage.to_owned(), number: 0, pieces: Vec::new() };
        let mut order = state.items.values().map(|item| item.entry.order + 1).max().unwrap_or(0);
        let mut touched: BTreeMap<u64, Bucket> = BTreeMap::new();
        let numbers: BTreeSet<u64> = change.keys().map(|key| bucket_of(key)).collect();
        for number in numbers {
            let known = state.buckets.get(&number).map(|(_, bucket)| bucket.clone());
            touched.insert(number, known.unwrap_or_default());
        }
        for (key, content) in change {
            let bucket = touched.entry(bucket_of(key)).or_default();
            let Some(content) = content else {
                bucket.remove(key);
                continue;
            };
            let at = objects.add(content);
            let old = bucket.get(key).map(|entry| entry.order);
            let place = old.unwrap_or_else(|| {
                order += 1;
                order - 1
            });
            bucket.insert(key.clone(), Entry { at, order: place });
        }
        let mut head = state.head.clone();
        for (number, bucket) in touched {
            match bucket.is_empty() {
                true => drop(head.buckets.remove(&number)),
                false => drop(head.buckets.insert(number, objects.add(&text(&bucket)?))),
            }
        }
        head.format = FORMAT;
        head.sequence += 1;
        head.recent.push((stage.to_owned(), head.sequence));
        let old = head.recent.len().saturating_sub(MOST_RECENT);
        head.recent.drain(..old);
        let steps = batches(objects.pieces);
        Ok(Writer { stage: stage.to_owned(), base: state.changed, head, steps, begun: false })
    }

    /// The head that the change will make effective.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The stage, which is the request's id.
    pub fn stage(&self) -> &str {
        &self.stage
    }

    /// Writes the next part of the stage; returns false when everything is written.
    ///
    /// # Errors
    /// etcd does not answer, or the stage has been removed.
    pub async fn step(&mut self, etcd: &Etcd) -> Result<bool> {
        let begin = begin_of(&self.stage);
        if !self.begun {
            let put = TxnOp::put(etcd.key(&begin), "", None);
            etcd.transact("beginning a change", &[], vec![put], Vec::new()).await?;
            self.begun = true;
            return Ok(true);
        }
        let Some(step) = self.steps.pop_front() else { return Ok(false) };
        let puts: Vec<TxnOp> =
            step.into_iter().map(|(key, value)| TxnOp::put(etcd.key(&key), value, None)).collect();
        let when = [etcd.is_there(&begin)];
        let answer = etcd.transact("staging documents", &when, puts, Vec::new()).await?;
        if answer.succeeded() { Ok(true) } else { Err(ClusterError::Removed) }
    }

    /// Writes the whole stage.
    ///
    /// # Errors
    /// Those of [`Writer::step`].
    pub async fn stage_all(&mut self, etcd: &Etcd) -> Result<()> {
        while self.step(etcd).await? {}
        Ok(())
    }

    /// Makes the change effective; returns its sequence.
    ///
    /// # Errors
    /// [`ClusterError::Conflict`]: another change came first. After a lost answer the outcome is
    /// looked up; [`ClusterError::Unknown`]: this failed, too.
    pub async fn commit(&self, etcd: &Etcd) -> Result<u64> {
        self.commit_while(etcd, &[]).await
    }

    /// The same, if further comparisons hold in the same transaction.
    ///
    /// # Errors
    /// The same as for [`Writer::commit`]; [`ClusterError::Outdated`]: a comparison does not hold.
    pub async fn commit_while(&self, etcd: &Etcd, further: &[Compare]) -> Result<u64> {
        match self.try_commit(etcd, further).await {
            Err(error @ (ClusterError::Silent { .. } | ClusterError::Etcd { .. })) => {
                match outcome(etcd, &self.stage).await {
                    Ok(Some(sequence)) => Ok(sequence),
                    // The change did not take effect, and cannot do so later.
                    Ok(None) => Err(error),
                    Err(why) => Err(ClusterError::Unknown {
                        request: self.stage.clone(),
                        why: why.to_string(),
                    }),
                }
            }
            other => other,
        }
    }

    async fn try_commit(&self, etcd: &Etcd, further: &[Compare]) -> Result<u64> {
        let begin = begin_of(&self.stage);
        let own = [etcd.unchanged(HEAD, self.base), etcd.is_there(&begin)];
        let when = [&own[..], further].concat();
        let then = vec![
            TxnOp::put(etcd.key(HEAD), text(&self.head)?, None),
            TxnOp::delete(etcd.key(&begin), None),
        ];
        let read = |key: &str| TxnOp::get(etcd.key(key), None);
        let otherwise = vec![read(&begin), read(HEAD)];
        let answer = etcd.transact("committing a change", &when, then, otherwise).await?;
        if answer.succeeded() {
            return Ok(self.head.sequence);
        }
        // Revisions of the last changes of both keys.
        let changed = answer.op_responses().into_iter().map(|one| match one {
            TxnOpResponse::Get(got) => got.kvs().first().map_or(0, |one| one.mod_revision()),
            _ => 0,
        });
        Err(match changed.collect::<Vec<i64>>()[..] {
            [0, _] => ClusterError::Removed,
            [_, head] if head == self.base => ClusterError::Outdated,
            _ => ClusterError::Conflict,
        })
    }

    /// Removes the stage of a change that is not committed.
    ///
    /// # Errors
    /// etcd does not answer; the stage is removed later.
    pub async fn give_up(self, etcd: &Etcd) -> Result<()> {
        let folder = etcd.key(&format!("stages/{}/", self.stage));
        let gone = TxnOp::delete(folder, Some(DeleteOptions::new().with_prefix()));
        let when = [etcd.is_there(&begin_of(&self.stage))];
        etcd.transact("giving up a change", &when, vec![gone], Vec::new()).await.map(drop)
    }
}

/// Whether a change took effect, and with which sequence. If it did not, it cannot do so later: the
/// same transaction closes its stage.
///
/// # Errors
/// etcd does not answer.
pub async fn outcome(etcd: &Etcd, stage: &str) -> Result<Option<u64>> {
    let begin = begin_of(stage);
    let when = [etcd.is_there(&begin)];
    let close = vec![TxnOp::delete(etcd.key(&begin), None)];
    let read = vec![TxnOp::get(etcd.key(HEAD), None)];
    let answer = etcd.transact("looking up a change", &when, close, read).await?;
    if answer.succeeded() {
        return Ok(None);
    }
    let Some(TxnOpResponse::Get(got)) = answer.op_responses().into_iter().next() else {
        return Ok(None);
    };
    let Some(head) = got.kvs().first() else { return Ok(None) };
    Ok(Head::read(head.value())?.sequence_of(stage))
}

/// Objects of a stage, split into pieces.
struct Objects {
    stage: String,
    number: u32,
    pieces: Vec<(String, Vec<u8>)>,
}

impl Objects {
    fn add(&mut self, content: &[u8]) -> Located {
        let bytes = content.len() as u64;
        let at = Located { stage: self.stage.clone(), number: self.number, bytes };
        self.number += 1;
        let empty: &[u8] = &[];
        let chunks = content.chunks(PIECE).chain(content.is_empty().then_some(empty));
        self.pieces.extend(at.pieces().zip(chunks.map(<[u8]>::to_vec)));
        at
    }
}

/// Puts that fit into one request each.
fn batches(pieces: Vec<(String, Vec<u8>)>) -> VecDeque<Vec<(String, Vec<u8>)>> {
    let mut all = VecDeque::new();
    let (mut now, mut bytes) = (Vec::new(), 0);
    for (key, value) in pieces {
        let length = key.len() + value.len();
        if now.len() == MOST_OPERATIONS || (bytes + length > MOST_BYTES && !now.is_empty()) {
            all.push_back(std::mem::take(&mut now));
            bytes = 0;
        }
        bytes += length;
        now.push((key, value));
    }
    if !now.is_empty() {
        all.push_back(now);
    }
    all
}
