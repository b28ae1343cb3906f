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

fn commit(base: u64, put: &[Stored], remove: &[Key]) -> Commit {
    Commit { base, revision: base + 1, put: put.to_vec(), remove: remove.to_vec() }
}

#[test]
fn what_was_changed_is_found_again_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/state.redb");
    let mut store = RedbStore::open(&path).unwrap();
    assert_eq!(store.load().unwrap(), Snapshot::default());
    let (a, b, c) = (stored("a", 3), stored("b", 1), stored("c", 2));
    store.change(&commit(0, &[a.clone(), b.clone(), c.clone()], &[])).unwrap();
    store.change(&commit(1, &[], std::slice::from_ref(&c.key))).unwrap();
    let stale = store.change(&commit(1, &[], std::slice::from_ref(&a.key)));
    assert!(matches!(stale, Err(StoreError::Conflict { found: 2, wanted: 1 })), "{stale:?}");
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
    let (red, blue): (Vec<_>, Vec<_>) = (rules(&[1, 300, 2, 301, 64]), rules(&[1]));
    store.change_filters("red", &red, &[]).unwrap();
    store.change_filters("blue", &blue, &[]).unwrap();
    // 301 is removed, and another rule gets its number.
    let new = [(9, "rule 9".to_owned()), (301, "new".to_owned())];
    store.change_filters("red", &new, &[300, 1, 64, 301]).unwrap();
    drop(store);
    let mut store = RedbStore::open(&path).unwrap();
    let found = store.filters().unwrap();
    assert_eq!(found["red"], [rules(&[2, 9]), vec![(301, "new".to_owned())]].concat());
    let slice = Key::new("slice", "red");
    store.change(&commit(0, &[], std::slice::from_ref(&slice))).unwrap();
    assert_eq!(store.filters().unwrap().into_keys().collect::<Vec<_>>(), ["blue"]);
}

#[test]
fn tokens_go_with_their_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut store = RedbStore::open(&path).unwrap();
    let token = |id: &str, user: &str| StoredToken {
        info: europa_api::rest::TokenInfo {
            id: id.into(),
            user: user.into(),
            ..Default::default()
        },
        hash: "00".into(),
    };
    let all = ["1", "2", "3"].map(|id| token(id, if id == "2" { "bob" } else { "alice" }));
    store.change_tokens(&all, &[]).unwrap();
    store.change_tokens(&[], &["3".to_owned()]).unwrap();
    drop(store);
    let mut store = RedbStore::open(&path).unwrap();
    assert_eq!(store.tokens().unwrap(), all[..2]);
    store.change(&commit(0, &[], &[Key::new("user", "alice")])).unwrap();
    assert_eq!(store.tokens().unwrap(), all[1..2]);
}

#[test]
fn a_damaged_file_is_named_and_one_whose_disk_failed_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut store = RedbStore::open(&path).unwrap();
    store.change(&commit(0, &[stored("a", 1)], &[])).unwrap();
    store.database = None;
    assert!(store.load().is_err());
    store.change(&commit(1, &[stored("b", 2)], &[])).unwrap();
    assert_eq!(store.load().unwrap().documents.len(), 2);
    drop(store);
    let whole = fs::read(&path).unwrap();
    let written: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let mut refused = 0;
    for at in written.iter().step_by(written.len() / 24) {
        let at = *at;
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(&path, damaged).unwrap();
        // Bytes that are not read may have any value.
        let read = || RedbStore::open(&path).and_then(|store| store.load().map(drop));
        let read = careful(&path, read);
        if let Err(error) = read {
            refused += 1;
            let error = error.to_string();
            assert!(["state.redb", "cannot be read"].iter().any(|p| error.contains(p)), "{error}");
        }
    }
    assert!(refused > 0, "{} bytes", whole.len());
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let store = RedbStore::open(&path).unwrap();
    let writing = store.opened().unwrap().begin_write().unwrap();
    writing.open_table(NUMBERS).unwrap().insert("format", FORMAT + 1).unwrap();
    writing.commit().unwrap();
    drop(store);
    let error = RedbStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 3, .. }), "{error}");
}

#[test]
fn rules_of_format_1_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let store = RedbStore::open(&path).unwrap();
    let writing = store.opened().unwrap().begin_write().unwrap();
    writing.open_table(NUMBERS).unwrap().insert("format", 1).unwrap();
    let old = [("red", 7, "seven"), ("red", 70, "seventy"), ("blue", 7, "other")];
    for (slice, number, text) in old {
        writing.open_table(FILTERS).unwrap().insert((slice, number), text).unwrap();
    }
    writing.commit().unwrap();
    drop(store);
    // Once to convert them, once to find them converted.
    for _ in 0..2 {
        let store = RedbStore::open(&path).unwrap();
        let found = store.filters().unwrap();
        assert_eq!(found["red"], [(7, "seven".to_owned()), (70, "seventy".to_owned())]);
        assert_eq!(found["blue"], [(7, "other".to_owned())]);
    }
}
