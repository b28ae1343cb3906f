//! The storage of desired state. It is a trait, so that a cluster can store the state elsewhere.

use std::collections::BTreeMap;

use europa_api::rest::TokenInfo;
use europa_api::{Configuration, Kept, Key};
use serde::{Deserialize, Serialize};

use crate::accepted::Commit;

/// A document in its stored form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Its key.
    pub key: Key,
    /// The document's rank among all documents: routers are started in this order.
    pub order: u64,
    /// Number of changes of the document, counted from 1.
    pub generation: u64,
    /// The time of the last change, as RFC 3339 writes it.
    pub changed: String,
    /// The document, as JSON.
    pub document: String,
    /// The Click configuration in the file that the document names, or in its own text.
    pub configuration: Option<StoredConfiguration>,
}

/// A token in its stored form, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// The token's description.
    #[serde(flatten)]
    pub info: TokenInfo,
    /// The SHA-256 of the secret, in hexadecimal digits.
    pub hash: String,
}

/// A Click configuration in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConfiguration {
    /// The file's name for messages.
    pub file: String,
    /// The line of that file where the configuration begins.
    pub first_line: usize,
    /// The configuration.
    pub text: String,
}

/// All documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// One more with each change.
    pub revision: u64,
    /// In their order.
    pub documents: Vec<Stored>,
}

/// The reason why state cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of the file system or the database.
    #[error("{what}: {error}")]
    Access {
        /// The attempted operation.
        what: String,
        /// The error.
        error: String,
    },
    /// Another writer has changed it.
    #[error("desired state has revision {found}, this change builds on {wanted}")]
    Conflict {
        /// Its revision.
        found: u64,
        /// The revision on which the change is based.
        wanted: u64,
    },
    /// Written by a newer Europa.
    #[error("{file} has format {found}, this version knows formats up to {known}")]
    Newer {
        /// The file.
        file: String,
        /// Its format.
        found: u64,
        /// The newest readable format.
        known: u64,
    },
    /// The store was not written by Europa.
    #[error("{what} cannot be read: {error}")]
    Damaged {
        /// The document.
        what: String,
        /// The mistake.
        error: String,
    },
}

/// A store in which desired state survives the node.
pub trait Store: Send {
    /// Reads the whole store.
    ///
    /// # Errors
    /// The error that prevents reading.
    fn load(&self) -> Result<Snapshot, StoreError>;

    /// Makes these changes, all or none, if the store has the revision on which they are based.
    /// They are on the disk when this returns. Numbered rules are removed with their slice, and
    /// tokens with their user.
    ///
    /// # Errors
    /// The error that prevents writing.
    fn change(&mut self, commit: &Commit) -> Result<(), StoreError>;

    /// The rules of slices that are in no document, by slice, as numbers and JSON.
    ///
    /// # Errors
    /// The error that prevents reading them.
    fn filters(&self) -> Result<BTreeMap<String, NumberedRules>, StoreError>;

    /// Removes rules of a slice and then adds rules, all or none; the changes are on the disk when
    /// this returns.
    ///
    /// # Errors
    /// The error that prevents writing it.
    fn change_filters(
        &mut self,
        slice: &str,
        put: &[(u32, String)],
        remove: &[u32],
    ) -> Result<(), StoreError>;

    /// All tokens of users.
    ///
    /// # Errors
    /// The error of reading them.
    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError>;

    /// Removes tokens by their ids and then adds tokens, all or none; the changes are on the disk
    /// when this returns.
    ///
    /// # Errors
    /// The error of writing them.
    fn change_tokens(&mut self, put: &[StoredToken], remove: &[String]) -> Result<(), StoreError>;
}

/// Rules as JSON, with their numbers.
pub type NumberedRules = Vec<(u32, String)>;

impl Stored {
    /// The document in the form that the checks use.
    pub fn kept(&self) -> Kept {
        Kept {
            key: self.key.clone(),
            document: self.document.clone(),
            configuration: self.configuration.clone().map(|c| Configuration {
                file: c.file,
                first_line: c.first_line,
                text: c.text,
            }),
        }
    }
}

impl From<&Configuration> for StoredConfiguration {
    fn from(from: &Configuration) -> Self {
        Self { file: from.file.clone(), first_line: from.first_line, text: from.text.clone() }
    }
}
