//! Documents in etcd: staged, and made effective by one head key.
//!
//! | key                        | value                                                       |
//! |----------------------------|-------------------------------------------------------------|
//! | `control/head`             | [`Head`]: number of the change, and where each bucket is    |
//! | `stages/STAGE/begin`       | there until the stage's change is committed or given up     |
//! | `stages/STAGE/OBJECT/PART` | a piece of a document or bucket; never changed, only removed |
//!
//! A bucket lists the documents whose keys have the same hash, and the place of each. A change
//! writes new objects and their buckets below a stage of its own. After that it writes the head, in
//! a transaction that compares the head's old revision. So a change of one document writes few
//! keys, and readers at any revision see a whole change or nothing of it.

mod clean;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::clean::{Cleaned, Cleaner};
pub use self::write::{Writer, outcome};
use crate::error::{ClusterError, Result};

/// Number of buckets of documents. The head has an entry of about 60 bytes for each.
const BUCKETS: u64 = 64;
/// Most bytes of a piece: two pieces fit into a request.
const PIECE: usize = 480_000;
/// Number of requests that a head records.
const MOST_RECENT: usize = 32;
/// The newest form of these values that this version reads.
const FORMAT: u32 = 1;

/// The key that makes changes effective.
pub(crate) const HEAD: &str = "control/head";

/// The state that is in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The form of the values.
    pub format: u32,
    /// Number of changes that took effect.
    pub sequence: u64,
    /// The last requests that took effect, oldest first, each with its sequence.
    pub recent: Vec<(String, u64)>,
    /// The position of each bucket with documents.
    pub buckets: BTreeMap<u64, Located>,
}

/// The position of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Located {
    /// Its stage.
    #[serde(rename = "s")]
    pub stage: String,
    /// Its number in the stage.
    #[serde(rename = "n")]
    pub number: u32,
    /// Its length in bytes.
    #[serde(rename = "b")]
    pub bytes: u64,
}

/// A document of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its position.
    #[serde(flatten)]
    pub at: Located,
    /// The document's rank among all documents: routers are started in this order.
    #[serde(rename = "o")]
    pub order: u64,
}

/// A bucket: documents by kind and name, as in `router red/r1`.
pub(crate) type Bucket = BTreeMap<String, Entry>;

/// An object, and where it is.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its entry in a bucket.
    pub entry: Entry,
    /// Its content.
    pub content: Arc<Vec<u8>>,
}

/// All documents at one revision.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The head.
    pub head: Head,
    /// etcd's revision of the head's last change; 0 if there is none.
    pub changed: i64,
    /// etcd's revision at which it was read.
    pub revision: i64,
    /// By kind and name.
    pub items: BTreeMap<String, Item>,
    /// The buckets that were read, so that they need not be read again.
    buckets: BTreeMap<u64, (Located, Bucket)>,
}

/// New contents by kind and name; `None` removes an object.
pub type Change = BTreeMap<String, Option<Vec<u8>>>;

impl Located {
    /// Names of its pieces.
    fn pieces(&self) -> impl Iterator<Item = String> + '_ {
        let count = self.bytes.div_ceil(PIECE as u64).max(1);
        (0..count).map(|piece| format!("stages/{}/{:06}/{piece:04}", self.stage, self.number))
    }
}

impl Head {
    /// The sequence with which a request took effect, if it is one of the last requests.
    pub fn sequence_of(&self, request: &str) -> Option<u64> {
        self.recent.iter().find(|(one, _)| one == request).map(|(_, sequence)| *sequence)
    }

    fn read(value: &[u8]) -> Result<Head> {
        let head: Head = parse(HEAD, value)?;
        if head.format > FORMAT {
            return Err(ClusterError::Refused(format!(
                "the cluster has format {}, this version knows formats up to {FORMAT}: install the \
                 version of the other nodes",
                head.format
            )));
        }
        Ok(head)
    }
}

fn bucket_of(key: &str) -> u64 {
    europa_api::hash(key) % BUCKETS
}

fn begin_of(stage: &str) -> String {
    format!("stages/{stage}/begin")
}

/// Reads a value.
pub(crate) fn parse<'v, T: Deserialize<'v>>(key: &str, value: &'v [u8]) -> Result<T> {
    serde_json::from_slice(value)
        .map_err(|error| ClusterError::Damaged { key: key.to_owned(), error: error.to_string() })
}

/// Writes a value.
pub(crate) fn text(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| ClusterError::Damaged {
        key: "a new value".to_owned(),
        error: error.to_string(),
    })
}
