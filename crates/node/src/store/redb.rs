//! Desired state in a file, an embedded database.

use std::collections::BTreeMap;
use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use europa_api::Key;
use europa_control::Commit;
use redb::{
    Database, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition,
    TransactionError, WriteTransaction,
};

use super::{NumberedRules, Snapshot, Store, StoreError, Stored, StoredToken};

/// Changes whenever a reader of this version could misunderstand the stored data.
const FORMAT: u64 = 2;
const DOCUMENTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("documents");
/// The key is the slice, and a rule's number divided by `TOGETHER`. The value has a line for each
/// rule, with its number and its JSON. With few long entries, a change of thousands of rules takes
/// a fraction of the time.
const RULES: TableDefinition<'_, (&str, u32), &str> = TableDefinition::new("rules");
const TOGETHER: u32 = 64;
/// The same in format 1: by slice and number, as JSON.
const FILTERS: TableDefinition<'_, (&str, u32), &str> = TableDefinition::new("filters");
/// By id, as JSON.
const TOKENS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tokens");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// A store in one file.
pub struct RedbStore {
    path: PathBuf,
    /// `None` only if it could not be opened again.
    database: Option<Database>,
}

impl std::fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbStore").field("path", &self.path).finish_non_exhaustive()
    }
}

fn access<T, E: Into<redb::Error>>(
    what: impl FnOnce() -> String,
    result: Result<T, E>,
) -> Result<T, StoreError> {
    result.map_err(|error| StoreError::Access { what: what(), error: error.into().to_string() })
}

/// Reads data that may be damaged, for which the database may panic.
fn careful<T>(path: &Path, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(StoreError::Damaged {
            what: path.display().to_string(),
            error: "the database in it is damaged; put a copy in its place, or move it away and \
                    apply everything again"
                .into(),
        })
    })
}

fn row(key: &Key) -> String {
    format!("{} {}", key.kind, key.name)
}

fn token(id: &str, text: &[u8]) -> Result<StoredToken, StoreError> {
    serde_json::from_slice(text).map_err(|error| StoreError::Damaged {
        what: format!("token {id}"),
        error: error.to_string(),
    })
}

/// The rules of an entry.
fn rules(text: &str) -> Result<BTreeMap<u32, &str>, StoreError> {
    text.lines().map(numbered).collect()
}

fn numbered(line: &str) -> Result<(u32, &str), StoreError> {
    let (number, rule) = line.split_once(' ').unwrap_or_default();
    let number = number.parse().map_err(|_| StoreError::Damaged {
        what: "a rule".into(),
        error: format!("{line:?} does not begin with its number"),
    })?;
    Ok((number, rule))
}

/// Removes rules of a slice that have no text, and adds others, in this order.
fn change_rules(
    table: &mut Table<'_, (&'static str, u32), &'static str>,
    what: impl Fn() -> String + Copy,
    slice: &str,
    mut changes: Vec<(u32, Option<&str>)>,
) -> Result<(), StoreError> {
    changes.sort_by_key(|(number, _)| *number);
    for together in changes.chunk_by(|one, next| one.0 / TOGETHER == next.0 / TOGETHER) {
        let Some((first, _)) = together.first() else { continue };
        let key = (slice, first / TOGETHER);
        let before = access(what, table.get(key))?.map(|text| text.value().to_owned());
        let before = before.unwrap_or_default();
        let mut all = rules(&before)?;
        for (number, rule) in together {
            match rule {
                Some(rule) => all.insert(*number, rule),
                None => all.remove(number),
            };
        }
        if all.is_empty() {
            access(what, table.remove(key))?;
        } else {
            let mut text = String::with_capacity(before.len().max(TOGETHER as usize * 128));
            all.iter().for_each(|(number, rule)| text += &format!("{number} {rule}\n"));
            access(what, table.insert(key, text.as_str()))?;
        }
    }
    Ok(())
}

/// Brings the data of format 1 into the form of format 2.
fn gather(writing: &WriteTransaction, what: impl Fn() -> String + Copy) -> Result<(), StoreError> {
    let mut all: BTreeMap<String, NumberedRules> = BTreeMap::new();
    for entry in access(what, access(what, writing.open_table(FILTERS))?.iter())? {
        let (key, text) = access(what, entry)?;
        let (slice, number) = key.value();
        all.entry(slice.to_owned()).or_default().push((number, text.value().to_owned()));
    }
    let mut table = access(what, writing.open_table(RULES))?;
    for (slice, rules) in &all {
        let changes = rules.iter().map(|(number, text)| (*number, Some(&**text))).collect();
        change_rules(&mut table, what, slice, changes)?;
    }
    access(what, writing.delete_table(FILTERS)).map(drop)
}

impl RedbStore {
    /// Opens the store at `path`, or makes it; only root can look into a new folder.
    ///
    /// # Errors
    /// The file system's error, or that a newer version has written it.
    pub fn open(path: &Path) -> Result<RedbStore, StoreError> {
        let what = || format!("opening {}", path.display());
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|error| StoreError::Access { what: what(), error: error.to_string() })?;
        }
        let database = careful(path, || Self::open_database(path))?;
        Ok(RedbStore { path: path.to_owned(), database: Some(database) })
    }

    fn open_database(path: &Path) -> Result<Database, StoreError> {
        let what = || format!("opening {}", path.display());
        // A database that panicked would panic again when dropped.
        let database = ManuallyDrop::new(access(what, Database::create(path))?);
        let prepared = Self::prepare(&database, path);
        let database = ManuallyDrop::into_inner(database);
        prepared.map(|()| database)
    }

    /// Makes the missing tables.
    fn prepare(database: &Database, path: &Path) -> Result<(), StoreError> {
        let what = || format!("opening {}", path.display());
        let writing = access(what, database.begin_write())?;
        let found = {
            access(what, writing.open_table(DOCUMENTS))?;
            access(what, writing.open_table(RULES))?;
            access(what, writing.open_table(TOKENS))?;
            let mut numbers = access(what, writing.open_table(NUMBERS))?;
            let found = access(what, numbers.get("format"))?.map(|value| value.value());
            if found == Some(1) {
                gather(&writing, what)?;
            }
            if found.is_none_or(|found| found < FORMAT) {
                access(what, numbers.insert("format", FORMAT))?;
            }
            found.unwrap_or(FORMAT)
        };
        if found > FORMAT {
            let file = path.display().to_string();
            return Err(StoreError::Newer { file, found, known: FORMAT });
        }
        access(what, writing.commit())
    }

    /// Begins a change. After a failure of the disk, such as a full disk, the database must be
    /// opened again.
    fn begin_write(&mut self) -> Result<WriteTransaction, StoreError> {
        let begun = self.database.as_ref().map(Database::begin_write);
        if let None | Some(Err(TransactionError::Storage(StorageError::PreviousIo))) = begun {
            self.database = None;
            self.database = Some(careful(&self.path, || Self::open_database(&self.path))?);
        }
        let path = &self.path;
        let what = || format!("writing {}", path.display());
        match begun {
            Some(Ok(writing)) => Ok(writing),
            _ => access(what, self.opened()?.begin_write()),
        }
    }

    fn opened(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or_else(|| StoreError::Access {
            what: self.doing("reading"),
            error: "it could not be opened again".into(),
        })
    }

    fn documents(&self) -> Result<Snapshot, StoreError> {
        let what = || self.doing("reading");
        let reading = access(what, self.opened()?.begin_read())?;
        let table = access(what, reading.open_table(DOCUMENTS))?;
        let numbers = access(what, reading.open_table(NUMBERS))?;
        let revision = access(what, numbers.get("revision"))?.map_or(0, |value| value.value());
        let mut documents = Vec::new();
        for entry in access(what, table.iter())? {
            let (name, text) = access(what, entry)?;
            let stored: Stored = serde_json::from_slice(text.value()).map_err(|error| {
                StoreError::Damaged { what: name.value().to_owned(), error: error.to_string() }
            })?;
            documents.push(stored);
        }
        documents.sort_by_key(|stored| stored.order);
        Ok(Snapshot { revision, documents })
    }

    fn rules(&self) -> Result<BTreeMap<String, NumberedRules>, StoreError> {
        let what = || self.doing("reading");
        let reading = access(what, self.opened()?.begin_read())?;
        let table = access(what, reading.open_table(RULES))?;
        let mut all: BTreeMap<String, NumberedRules> = BTreeMap::new();
        for entry in access(what, table.iter())? {
            let (key, text) = access(what, entry)?;
            let of_slice = all.entry(key.value().0.to_owned()).or_default();
            let rules = rules(text.value())?.into_iter();
            of_slice.extend(rules.map(|(number, rule)| (number, rule.to_owned())));
        }
        Ok(all)
    }

    fn all_tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        let what = || self.doing("reading");
        let reading = access(what, self.opened()?.begin_read())?;
        let table = access(what, reading.open_table(TOKENS))?;
        let mut all = Vec::new();
        for entry in access(what, table.iter())? {
            let (id, text) = access(what, entry)?;
            all.push(token(id.value(), text.value())?);
        }
        Ok(all)
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} {}", self.path.display())
    }
}

impl Store for RedbStore {
    fn load(&self) -> Result<Snapshot, StoreError> {
        careful(&self.path, || self.documents())
    }

    fn change(&mut self, commit: &Commit) -> Result<(), StoreError> {
        let writing = self.begin_write()?;
        let what = || self.doing("writing");
        {
            let mut numbers = access(what, writing.open_table(NUMBERS))?;
            let found = access(what, numbers.get("revision"))?.map_or(0, |number| number.value());
            if found != commit.base {
                return Err(StoreError::Conflict { found, wanted: commit.base });
            }
            access(what, numbers.insert("revision", commit.revision))?;
            let mut table = access(what, writing.open_table(DOCUMENTS))?;
            let mut rules = access(what, writing.open_table(RULES))?;
            let mut tokens = access(what, writing.open_table(TOKENS))?;
            for key in &commit.remove {
                access(what, table.remove(row(key).as_str()))?;
                if key.kind == "slice" {
                    let of_slice = (&*key.name, 0)..=(&*key.name, u32::MAX);
                    access(what, rules.retain_in(of_slice, |_, _| false))?;
                }
                if key.kind == "user" {
                    let is_other = |id: &str, text: &[u8]| {
                        token(id, text).is_ok_and(|token| token.info.user != key.name)
                    };
                    access(what, tokens.retain(|id, text| is_other(id, text)))?;
                }
            }
            for stored in &commit.put {
                let text = serde_json::to_vec(stored).map_err(|error| StoreError::Damaged {
                    what: stored.key.to_string(),
                    error: error.to_string(),
                })?;
                access(what, table.insert(row(&stored.key).as_str(), text.as_slice()))?;
            }
        }
        access(what, writing.commit())
    }

    fn filters(&self) -> Result<BTreeMap<String, NumberedRules>, StoreError> {
        careful(&self.path, || self.rules())
    }

    fn change_filters(
        &mut self,
        slice: &str,
        put: &[(u32, String)],
        remove: &[u32],
    ) -> Result<(), StoreError> {
        let writing = self.begin_write()?;
        let what = || self.doing("writing");
        {
            let mut table = access(what, writing.open_table(RULES))?;
            let gone = remove.iter().map(|number| (*number, None));
            let come = put.iter().map(|(number, text)| (*number, Some(&**text)));
            change_rules(&mut table, what, slice, gone.chain(come).collect())?;
        }
        access(what, writing.commit())
    }

    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        careful(&self.path, || self.all_tokens())
    }

    fn change_tokens(&mut self, put: &[StoredToken], remove: &[String]) -> Result<(), StoreError> {
        let writing = self.begin_write()?;
        let what = || self.doing("writing");
        {
            let mut table = access(what, writing.open_table(TOKENS))?;
            for id in remove {
                access(what, table.remove(id.as_str()))?;
            }
            for token in put {
                let text = serde_json::to_vec(token).map_err(|error| StoreError::Damaged {
                    what: format!("token {}", token.info.id),
                    error: error.to_string(),
                })?;
                access(what, table.insert(token.info.id.as_str(), text.as_slice()))?;
            }
        }
        access(what, writing.commit())
    }
}

#[cfg(test)]
mod tests;
