//! Tests the store against a real etcd: a change takes effect as a whole or not at all, even if a
//! process ends between two requests.

mod etcd;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use etcd::{Server, is_there};
use europa_cluster::{Change, Cleaner, ClusterError, Etcd, Result, State, Writer, outcome, wait};

/// Slightly more than the time in which a stage must take effect.
const OLD: Duration = Duration::from_secs(601);

type Contents = BTreeMap<String, Vec<u8>>;

fn contents(state: &State) -> Contents {
    state.items.iter().map(|(key, item)| (key.clone(), item.content.to_vec())).collect()
}

fn change(contents: &Contents) -> Change {
    contents.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
}

async fn read(etcd: &Etcd) -> State {
    State::read(etcd, &State::default()).await.expect("the state")
}

/// Stages and commits a change of the present state.
async fn write(etcd: &Etcd, change: &Change, stage: &str) -> Result<u64> {
    let mut writer = Writer::new(&read(etcd).await, change, stage)?;
    writer.stage_all(etcd).await?;
    writer.commit(etcd).await
}

/// Keys and bytes below `stages/`.
async fn stored(server: &Server, folder: &str) -> (usize, usize) {
    let mut client = etcd_client::Client::connect([server.url()], None).await.expect("a client");
    let options = etcd_client::GetOptions::new().with_prefix();
    let found = client.get(format!("/europa/test/{folder}"), Some(options)).await.expect("keys");
    let bytes = found.kvs().iter().map(|one| one.key().len() + one.value().len()).sum();
    (found.kvs().len(), bytes)
}

fn run(test: impl Future<Output = ()>) {
    wait(async {
        test.await;
        Ok(())
    })
    .expect("a runtime");
}

#[test]
fn five_thousand_documents_and_one_of_8_mb() {
    if !is_there() {
        return;
    }
    run(async {
        let (server, etcd) = Server::start().await;
        let mut all: Contents = (0..5000)
            .map(|number| (format!("router red/r{number}"), vec![b'x'; 200 + number % 300]))
            .collect();
        let pattern: Vec<u8> = (0..8_000_000_u32).map(|byte| (byte % 251) as u8).collect();
        all.insert("filters large".into(), pattern);
        all.insert("slice empty".into(), Vec::new());
        let start = Instant::now();
        assert_eq!(write(&etcd, &change(&all), "first").await.expect("a change"), 1);
        println!("written in {:?}", start.elapsed());
        let start = Instant::now();
        let state = read(&etcd).await;
        println!("read in {:?}", start.elapsed());
        assert!(contents(&state) == all);

        // A change of one document among many writes few keys, and little else.
        let one = Change::from([("router red/r7".to_owned(), Some(vec![b'y'; 1000]))]);
        let (before, head) =
            (stored(&server, "stages/second/").await, stored(&server, "control/").await);
        assert_eq!((before, head.0), ((0, 0), 1));
        assert_eq!(write(&etcd, &one, "second").await.expect("a change"), 2);
        let (staged, head) =
            (stored(&server, "stages/second/").await, stored(&server, "control/").await);
        let (keys, bytes) = (staged.0 + head.0, staged.1 + head.1);
        println!("a change of 1,000 bytes wrote {keys} keys and {bytes} bytes");
        assert!(keys <= 10 && bytes - 1000 <= 64_000, "{keys} keys, {bytes} bytes");
        all.insert("router red/r7".into(), vec![b'y'; 1000]);
        // Only differences are read again; a reader without a known state gets the same result.
        let again = State::read(&etcd, &state).await.expect("the state");
        assert!(contents(&again) == all && contents(&read(&etcd).await) == all);

        let gone = Change::from([("filters large".to_owned(), None)]);
        write(&etcd, &gone, "third").await.expect("a change");
        all.remove("filters large");
        let state = State::read(&etcd, &again).await.expect("the state");
        assert!(contents(&state) == all);
        // Superseded objects are removed, and nothing else.
        let now = Instant::now();
        let cleaned = Cleaner::default().turn(&etcd, &state, &[], now).await.expect("a turn");
        assert!(cleaned.keys >= 17, "{cleaned:?}");
        assert!(stored(&server, "stages/").await.1 < 4_000_000);
        assert!(contents(&read(&etcd).await) == all);
    });
}

#[test]
fn a_writer_that_ends_between_two_requests_changes_nothing() {
    if !is_there() {
        return;
    }
    run(async {
        let (server, etcd) = Server::start().await;
        let base: Contents = (0..40).map(|i| (format!("link l{i}"), vec![b'a'; 50])).collect();
        write(&etcd, &change(&base), "base").await.expect("a change");
        // Large enough for several requests, and in many buckets.
        let new: Contents = (0..200).map(|i| (format!("link l{i}"), vec![b'b'; 20_000])).collect();
        let mut cleaner = Cleaner::default();
        let mut steps = 0;
        loop {
            let state = read(&etcd).await;
            let mut writer =
                Writer::new(&state, &change(&new), &format!("killed{steps}")).expect("a writer");
            let mut done = false;
            for _ in 0..steps {
                done = !writer.step(&etcd).await.expect("a step");
            }
            drop(writer);
            assert!(contents(&read(&etcd).await) == base, "after {steps} requests");
            if done {
                break;
            }
            steps += 1;
        }
        println!("a writer of {} requests was ended after each", steps - 1);
        assert!(steps > 5, "{steps}");
        // The stages are removed ten minutes after the cleaner first saw them.
        let state = read(&etcd).await;
        let start = Instant::now();
        let turn = cleaner.turn(&etcd, &state, &[], start).await.expect("a turn");
        assert_eq!((turn.stages, turn.keys), (0, 0));
        let turn = cleaner.turn(&etcd, &state, &[], start + OLD).await.expect("a turn");
        assert_eq!(turn.stages, steps);
        let needed = stored(&server, "stages/base/").await;
        assert_eq!(stored(&server, "stages/").await, needed);
        // The next change takes effect as a whole.
        write(&etcd, &change(&new), "whole").await.expect("a change");
        assert!(contents(&read(&etcd).await) == new);
    });
}

#[test]
fn a_lost_answer_is_looked_up() {
    if !is_there() {
        return;
    }
    run(async {
        let (_server, etcd) = Server::start().await;
        let mut taken = [0, 0];
        for round in 0..40 {
            let before = read(&etcd).await;
            let value = round.to_string().into_bytes();
            let one = Change::from([("slice red".to_owned(), Some(value.clone()))]);
            let stage = format!("lost{round}");
            let mut writer = Writer::new(&before, &one, &stage).expect("a writer");
            writer.stage_all(&etcd).await.expect("a stage");
            // The writer ends before its last request, or during it.
            if round % 4 > 0 {
                let patience = Duration::from_secs_f64(1e-6 * 1.4_f64.powi(round));
                let _ = tokio::time::timeout(patience, writer.commit(&etcd)).await;
            }
            let found = outcome(&etcd, &stage).await.expect("an answer");
            taken[usize::from(found.is_some())] += 1;
            // The answer is final: it is the same a moment later, and the state agrees.
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(outcome(&etcd, &stage).await.expect("an answer"), found);
            let after = read(&etcd).await;
            let is_new = after.items.get("slice red").is_some_and(|one| *one.content == value);
            assert_eq!(is_new, found.is_some(), "round {round}");
            assert_eq!(after.head.sequence, before.head.sequence + u64::from(is_new));
            if found.is_none() {
                let late = writer.commit(&etcd).await;
                assert!(matches!(late, Err(ClusterError::Removed)), "{late:?}");
            }
        }
        println!("of 40 changes without an answer {} took effect", taken[1]);
        assert!(taken[0] > 0 && taken[1] > 0, "{taken:?}");
    });
}

#[test]
fn of_two_changes_one_comes_first() {
    if !is_there() {
        return;
    }
    run(async {
        let (_server, etcd) = Server::start().await;
        let state = read(&etcd).await;
        let mut writers = Vec::new();
        for name in ["a", "b"] {
            let one = Change::from([(format!("slice {name}"), Some(name.into()))]);
            let mut writer = Writer::new(&state, &one, name).expect("a writer");
            writer.stage_all(&etcd).await.expect("a stage");
            writers.push(writer);
        }
        let (first, second) = tokio::join!(writers[0].commit(&etcd), writers[1].commit(&etcd));
        assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|ok| **ok).count(), 1);
        let lost = if first.is_err() { first } else { second };
        assert!(matches!(lost, Err(ClusterError::Conflict)), "{lost:?}");
        assert_eq!(read(&etcd).await.items.len(), 1);
    });
}

#[test]
fn a_compaction_and_a_restart_of_etcd_lose_nothing() {
    if !is_there() {
        return;
    }
    run(async {
        let (mut server, etcd) = Server::start().await;
        let all: Contents = (0..300).map(|i| (format!("host h{i}"), vec![b'h'; 100])).collect();
        write(&etcd, &change(&all), "first").await.expect("a change");
        let old = read(&etcd).await;
        let one = Change::from([("host h1".to_owned(), Some(b"new".to_vec()))]);
        write(&etcd, &one, "second").await.expect("a change");
        let mut client =
            etcd_client::Client::connect([server.url()], None).await.expect("a client");
        let now = read(&etcd).await.revision;
        client.compact(now, None).await.expect("a compaction");
        // The reader's known revision is older than all revisions that etcd still has.
        let state = State::read(&etcd, &old).await.expect("the state");
        assert_eq!(*state.items["host h1"].content, b"new");
        server.kill();
        let start = Instant::now();
        let silent = State::read(&etcd, &state).await.expect_err("no etcd");
        assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
        assert!(
            matches!(silent, ClusterError::Silent { .. } | ClusterError::Etcd { .. }),
            "{silent}"
        );
        server.again();
        let etcd = server.connect().await;
        assert!(contents(&read(&etcd).await) == contents(&state));
    });
}
