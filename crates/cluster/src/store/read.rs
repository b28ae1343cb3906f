//! Reads the head, then the objects that differ from a known state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Bucket, HEAD, Head, Item, Located, State, parse};
use crate::error::{ClusterError, Result};
use crate::etcd::{Etcd, MOST_BYTES, MOST_OPERATIONS};

/// Number of attempts to read a state, because etcd may compact it meanwhile.
const TRIES: usize = 8;

impl State {
    /// The present state (linearisable). Objects in `known` are not read again.
    ///
    /// # Errors
    /// etcd does not answer, or a value cannot be read.
    pub async fn read(etcd: &Etcd, known: &State) -> Result<State> {
        for _ in 0..TRIES {
            let (found, revision) = etcd.get(HEAD).await?;
            let (head, changed) = match found {
                Some(found) => (Head::read(&found.value)?, found.changed),
                None => (Head::default(), 0),
            };
            match State::of(etcd, head, changed, revision, known).await {
                Err(ClusterError::Compacted(_)) => {}
                other => return other,
            }
        }
        Err(ClusterError::Compacted(known.revision))
    }

    /// The state of a head at a revision. For a head that is only proposed, `changed` is that of
    /// its base.
    pub(crate) async fn of(
        etcd: &Etcd,
        head: Head,
        changed: i64,
        revision: i64,
        known: &State,
    ) -> Result<State> {
        let mut buckets = BTreeMap::new();
        let mut unknown = Vec::new();
        for (number, at) in &head.buckets {
            match known.buckets.get(number).filter(|(known, _)| known == at) {
                Some(same) => drop(buckets.insert(*number, same.clone())),
                None => unknown.push((*number, at.clone())),
            }
        }
        let places: Vec<&Located> = unknown.iter().map(|(_, at)| at).collect();
        let contents = objects(etcd, &places, revision).await?;
        for ((number, at), content) in unknown.into_iter().zip(contents) {
            let bucket: Bucket = parse(&format!("bucket {number}"), &content)?;
            buckets.insert(number, (at, bucket));
        }
        let mut items = BTreeMap::new();
        let mut unknown = Vec::new();
        for (key, entry) in buckets.values().flat_map(|(_, bucket)| bucket) {
            match known.items.get(key).filter(|item| item.entry.at == entry.at) {
                Some(same) => {
                    let item = Item { entry: entry.clone(), content: same.content.clone() };
                    items.insert(key.clone(), item);
                }
                None => unknown.push((key.clone(), entry.clone())),
            }
        }
        let places: Vec<&Located> = unknown.iter().map(|(_, entry)| &entry.at).collect();
        let contents = objects(etcd, &places, revision).await?;
        for ((key, entry), content) in unknown.into_iter().zip(contents) {
            items.insert(key, Item { entry, content: Arc::new(content) });
        }
        Ok(State { head, changed, revision, items, buckets })
    }
}

/// The contents of objects, in the same order, by as few requests as possible.
async fn objects(etcd: &Etcd, places: &[&Located], revision: i64) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for place in places {
        let mut left = place.bytes;
        for name in place.pieces() {
            let bytes = left.min(super::PIECE as u64);
            left -= bytes;
            names.push((name, usize::try_from(bytes).unwrap_or(usize::MAX)));
        }
    }
    let mut pieces = Vec::with_capacity(names.len());
    let mut rest = names.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(MOST_OPERATIONS).take_while(|(_, length)| {
            bytes += length;
            bytes <= MOST_BYTES
        });
        let count = fits.count().max(1);
        let (now, later) = rest.split_at(count);
        let batch: Vec<String> = now.iter().map(|(name, _)| name.clone()).collect();
        for (name, value) in batch.iter().zip(etcd.read(&batch, revision).await?) {
            let value = value.ok_or_else(|| ClusterError::Damaged {
                key: name.clone(),
                error: "it is missing".to_owned(),
            })?;
            pieces.push(value);
        }
        rest = later;
    }
    let mut pieces = pieces.into_iter();
    let whole = |place: &&Located| -> Result<Vec<u8>> {
        let content: Vec<u8> = pieces.by_ref().take(place.pieces().count()).flatten().collect();
        match content.len() as u64 == place.bytes {
            true => Ok(content),
            false => Err(ClusterError::Damaged {
                key: format!("stages/{}/{:06}", place.stage, place.number),
                error: format!("it has {} bytes, not {}", content.len(), place.bytes),
            }),
        }
    };
    places.iter().map(whole).collect()
}
