//! Hears of each effect of a real node, and provokes a fault at one of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use europa_control::witness::{Effect, Ending, Record};
use europa_simulate::Fault;
use europa_tests::run;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How a fault is provoked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// The node can open so many more files, and then none.
    Starve(u32),
    /// The node is killed before the effect.
    KillBefore,
    /// The node is killed after the effect.
    KillAfter,
    /// The switch is killed before the effect.
    KillSwitch,
}

/// What was seen of a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The effects with their results.
    pub(crate) records: Vec<Record>,
    /// The fault that has happened.
    pub(crate) fault: Option<(Effect, Fault)>,
}

#[derive(Default)]
struct State {
    node: i32,
    /// Its records.
    kept: PathBuf,
    /// The fault waits for so many effects.
    act: Option<(u32, Act)>,
    /// Effects of this change so far.
    met: BTreeSet<Effect>,
    /// The effect that meets a fault now.
    under_way: Option<(Effect, String, Act)>,
    seen: Seen,
}

/// See the file.
pub(crate) struct Conductor(Arc<Mutex<State>>);

impl Conductor {
    /// Listens at a path.
    pub(crate) fn start(path: &str) -> Self {
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).expect("a socket");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        // It ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = attend(stream, &shared);
            }
        });
        Self(state)
    }

    /// The process of the node from now on.
    pub(crate) fn conducts(&self, node: i32, kept: PathBuf) {
        let mut state = lock(&self.0);
        (state.node, state.kept) = (node, kept);
    }

    /// A change begins: its fault comes at the first effect of a kind after so many effects.
    pub(crate) fn begin(&self, act: Option<(u32, Act)>) {
        let mut state = lock(&self.0);
        let kept = std::mem::take(&mut state.kept);
        *state = State { node: state.node, kept, act, ..State::default() };
    }

    /// A change has ended.
    pub(crate) fn end(&self) -> Seen {
        let mut state = lock(&self.0);
        state.act = None;
        if state.under_way.take().is_some() {
            feed(state.node);
        }
        std::mem::take(&mut state.seen)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attend(stream: UnixStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let record: Record = serde_json::from_str(&line?)?;
        lock(state).hear(record);
        answers.write_all(b"go\n")?;
    }
    Ok(())
}

impl State {
    fn hear(&mut self, record: Record) {
        match record.ending {
            None => self.before(&record),
            Some(ending) => self.after(&record, ending),
        }
        self.seen.records.push(record);
    }

    fn before(&mut self, record: &Record) {
        let is_first = self.met.insert(record.effect);
        // A look changes nothing: a fault there is one of the next effect.
        let Some((wait, act)) = &mut self.act else { return };
        if *wait > 0 {
            *wait -= 1;
            return;
        }
        let kills = !matches!(act, Act::Starve(_));
        if !is_first || (kills && record.effect == Effect::Look) {
            return;
        }
        let act = *act;
        self.act = None;
        let effect = record.effect;
        match act {
            Act::Starve(more) => starve(self.node, more),
            Act::KillBefore => {
                self.end_of("node", self.node);
                self.seen.fault = Some((effect, Fault::KilledBefore));
                return;
            }
            Act::KillSwitch => {
                if let Some(switch) = switch(&self.kept) {
                    self.end_of("switch", switch);
                    self.seen.fault = Some((effect, Fault::SwitchKilled));
                }
                return;
            }
            Act::KillAfter => {}
        }
        self.under_way = Some((effect, record.object.clone(), act));
    }

    fn after(&mut self, record: &Record, ending: Ending) {
        let is_it = |(effect, object, _): &mut (Effect, String, Act)| {
            (record.effect, &record.object) == (*effect, object) && ending != Ending::NotNow
        };
        let Some((effect, _, act)) = self.under_way.take_if(is_it) else { return };
        let fault = match (act, ending) {
            (Act::KillAfter, Ending::Well) => {
                self.end_of("node", self.node);
                Some(Fault::KilledAfter)
            }
            (_, Ending::Refused) => Some(Fault::Refused),
            (_, Ending::Half) => Some(Fault::Half),
            (_, Ending::RefusedLater) => Some(Fault::RefusedLater),
            (_, Ending::Well | Ending::NotNow) => None,
        };
        if let Act::Starve(_) = act {
            feed(self.node);
        }
        self.seen.fault = fault.map(|fault| (effect, fault));
    }

    fn end_of(&self, role: &str, process: i32) {
        kill(Pid::from_raw(process), Signal::SIGKILL).unwrap_or_else(|e| panic!("{role}: {e}"));
    }
}

/// Descriptors that a node may have otherwise.
const USUAL: u32 = 4096;

/// Leaves a process so many descriptors.
fn starve(process: i32, more: u32) {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open: BTreeSet<u32> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let free = (0..).filter(|number| !open.contains(number));
    limit(process, free.skip(more as usize).next().unwrap_or(USUAL));
}

fn feed(process: i32) {
    limit(process, USUAL);
}

fn limit(process: i32, most: u32) {
    // A node that has ended has no limit.
    let _ = run(&["prlimit", "--pid", &process.to_string(), &format!("--nofile={most}:")]);
}

/// The switch, by the records that a node keeps of its processes in this folder.
fn switch(kept: &Path) -> Option<i32> {
    let records = fs::read_dir(kept).into_iter().flatten().flatten();
    let of_record = |entry: fs::DirEntry| -> Option<i32> {
        entry.file_name().to_str()?.strip_suffix(".json")?.rsplit('.').next()?.parse().ok()
    };
    records.filter_map(of_record).find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"switch")
    })
}
