//! Desired state in a file, an embedded database.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use europa_api::Key;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{NumberedRules, Snapshot, Store, StoreError, Stored};

/// Changes whenever a reader of this version could misunderstand what is written.
const FORMAT: u64 = 1;
const DOCUMENTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("documents");
/// By slice and number, as JSON.
const FILTERS: TableDefinition<'_, (&str, u32), &str> = TableDefinition::new("filters");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// A store in one file.
pub struct RedbStore {
    path: PathBuf,
    database: Database,
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

fn row(key: &Key) -> String {
    format!("{} {}", key.kind, key.name)
}

impl RedbStore {
    /// Opens the store at `path`, or makes it; only root can look into a new folder.
    ///
    /// # Errors
    /// What the file system says, or that a newer version has written it.
    pub fn open(path: &Path) -> Result<RedbStore, StoreError> {
        let what = || format!("opening {}", path.display());
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|error| StoreError::Access { what: what(), error: error.to_string() })?;
        }
        let database = access(what, Database::create(path))?;
        let writing = access(what, database.begin_write())?;
        let found = {
            access(what, writing.open_table(DOCUMENTS))?;
            access(what, writing.open_table(FILTERS))?;
            let mut numbers = access(what, writing.open_table(NUMBERS))?;
            let found = access(what, numbers.get("format"))?.map(|value| value.value());
            if found.is_none() {
                access(what, numbers.insert("format", FORMAT))?;
            }
            found.unwrap_or(FORMAT)
        };
        if found > FORMAT {
            let file = path.display().to_string();
            return Err(StoreError::Newer { file, found, known: FORMAT });
        }
        access(what, writing.commit())?;
        Ok(RedbStore { path: path.to_owned(), database })
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} {}", self.path.display())
    }
}

impl Store for RedbStore {
    fn load(&self) -> Result<Snapshot, StoreError> {
        let what = || self.doing("reading");
        let reading = access(what, self.database.begin_read())?;
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

    fn change(&mut self, revision: u64, put: &[Stored], remove: &[Key]) -> Result<(), StoreError> {
        let what = || self.doing("writing");
        let writing = access(what, self.database.begin_write())?;
        {
            let mut table = access(what, writing.open_table(DOCUMENTS))?;
            for key in remove {
                access(what, table.remove(row(key).as_str()))?;
            }
            for stored in put {
                let text = serde_json::to_vec(stored).map_err(|error| StoreError::Damaged {
                    what: stored.key.to_string(),
                    error: error.to_string(),
                })?;
                access(what, table.insert(row(&stored.key).as_str(), text.as_slice()))?;
            }
            let mut numbers = access(what, writing.open_table(NUMBERS))?;
            access(what, numbers.insert("revision", revision))?;
        }
        access(what, writing.commit())
    }

    fn filters(&self) -> Result<BTreeMap<String, NumberedRules>, StoreError> {
        let what = || self.doing("reading");
        let reading = access(what, self.database.begin_read())?;
        let table = access(what, reading.open_table(FILTERS))?;
        let mut all: BTreeMap<String, NumberedRules> = BTreeMap::new();
        for entry in access(what, table.iter())? {
            let (key, text) = access(what, entry)?;
            let (slice, number) = key.value();
            let rules = all.entry(slice.to_owned()).or_default();
            rules.push((number, text.value().to_owned()));
        }
        Ok(all)
    }

    fn change_filters(
        &mut self,
        slice: &str,
        put: &[(u32, String)],
        remove: &[u32],
    ) -> Result<(), StoreError> {
        let what = || self.doing("writing");
        let writing = access(what, self.database.begin_write())?;
        {
            let mut table = access(what, writing.open_table(FILTERS))?;
            for number in remove {
                access(what, table.remove((slice, *number)))?;
            }
            for (number, text) in put {
                access(what, table.insert((slice, *number), text.as_str()))?;
            }
        }
        access(what, writing.commit())
    }

    fn forget_filters(&mut self, slice: &str) -> Result<(), StoreError> {
        let numbers = self.filters()?.remove(slice).unwrap_or_default();
        if numbers.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u32> = numbers.into_iter().map(|(number, _)| number).collect();
        self.change_filters(slice, &[], &numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, order: u64) -> Stored {
        Stored {
            key: Key::new("port", name),
            order,
            generation: 1,
            changed: "2026-01-01T00:00:00Z".into(),
            document: format!("{{\"kind\":\"port\",\"name\":\"{name}\",\"device\":\"eth0\"}}"),
            configuration: None,
        }
    }

    #[test]
    fn what_was_changed_is_found_again_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/state.redb");
        let mut store = RedbStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), Snapshot::default());
        let (a, b, c) = (stored("a", 3), stored("b", 1), stored("c", 2));
        store.change(1, &[a.clone(), b.clone(), c.clone()], &[]).unwrap();
        store.change(2, &[], std::slice::from_ref(&c.key)).unwrap();
        drop(store);
        let store = RedbStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), Snapshot { revision: 2, documents: vec![b, a] });
    }

    #[test]
    fn rules_are_found_again_by_slice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let mut store = RedbStore::open(&path).unwrap();
        let rules = |numbers: &[u32]| numbers.iter().map(|n| (*n, format!("rule {n}"))).collect();
        let (red, blue): (Vec<_>, Vec<_>) = (rules(&[1, 300, 2]), rules(&[1]));
        store.change_filters("red", &red, &[]).unwrap();
        store.change_filters("blue", &blue, &[]).unwrap();
        store.change_filters("red", &rules(&[9]), &[300, 1]).unwrap();
        drop(store);
        let mut store = RedbStore::open(&path).unwrap();
        let found = store.filters().unwrap();
        assert_eq!(found["red"], rules(&[2, 9]));
        store.forget_filters("red").unwrap();
        assert_eq!(store.filters().unwrap().into_keys().collect::<Vec<_>>(), ["blue"]);
    }

    #[test]
    fn a_newer_format_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let store = RedbStore::open(&path).unwrap();
        let writing = store.database.begin_write().unwrap();
        writing.open_table(NUMBERS).unwrap().insert("format", FORMAT + 1).unwrap();
        writing.commit().unwrap();
        drop(store);
        let error = RedbStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 2, .. }), "{error}");
    }
}
