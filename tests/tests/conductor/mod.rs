//! Receives a record of each effect of a real node, and provokes a fault at one of them.

mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use europa_control::witness::{Effect, Ending, Record};
use europa_simulate::Fault;
use nix::sys::signal::Signal;
use processes::{answerer, feed, fill, send, starve, stop_for_a_second, switch};

/// A way to provoke a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// The node can open only this many further files.
    Starve(u32),
    /// No file of the node can grow, as on a full disk.
    Fill,
    /// The node is killed before the effect.
    KillBefore,
    /// The node is killed after the effect.
    KillAfter,
    /// The switch is killed before the effect.
    KillSwitch,
    /// The switch stands still before the effect, until the node kills it.
    HangSwitch,
    /// The process that must answer is killed after the effect.
    KillAnswerer,
    /// The process that must answer stands still for a second after the effect.
    DelayAnswerer,
    /// The process that must answer stands still for longer than the node waits.
    HangAnswerer,
}

/// The records of a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The effects with their results.
    pub(crate) records: Vec<Record>,
    /// How the fault was provoked.
    pub(crate) act: Option<Act>,
    /// The fault that has happened.
    pub(crate) fault: Option<(Effect, Fault)>,
}

/// An effect that meets a fault.
struct UnderWay {
    effect: Effect,
    object: String,
    act: Act,
    /// The objects that existed before the effect's first attempt.
    objects: Vec<String>,
}

#[derive(Default)]
struct State {
    node: i32,
    /// The folder of the node's records.
    kept: PathBuf,
    /// Number of effects before the fault.
    wait: u32,
    /// The faults to provoke, by effect: the first of these effects meets its fault.
    acts: BTreeMap<Effect, Act>,
    /// Effects of this change so far.
    met: BTreeSet<Effect>,
    /// The effect that meets a fault now.
    under_way: Option<UnderWay>,
    /// A process that stands still.
    stopped: Option<i32>,
    seen: Seen,
}

/// Provokes faults at the effects of a node.
pub(crate) struct Conductor(Arc<Mutex<State>>);

impl Conductor {
    /// Listens at a path.
    pub(crate) fn start(path: &str) -> Self {
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).expect("a socket");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        // The threads end with the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || attend(stream, &shared));
            }
        });
        Self(state)
    }

    /// Conducts this process of the node from now on.
    pub(crate) fn conducts(&self, node: i32, kept: PathBuf) {
        let mut state = lock(&self.0);
        (state.node, state.kept) = (node, kept);
    }

    /// Begins a change. After `wait` effects, the first effect with an act meets that act.
    pub(crate) fn begin(&self, wait: u32, acts: BTreeMap<Effect, Act>) {
        let mut state = lock(&self.0);
        let kept = std::mem::take(&mut state.kept);
        *state = State { node: state.node, kept, wait, acts, ..State::default() };
    }

    /// Ends a change, and returns its records.
    pub(crate) fn end(&self) -> Seen {
        let mut state = lock(&self.0);
        state.acts.clear();
        if state.under_way.take().is_some() {
            feed(state.node);
        }
        if let Some(process) = state.stopped.take() {
            send(process, Signal::SIGCONT);
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
        let effect = record.effect;
        let is_first = self.met.insert(effect);
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        let Some(act) = self.acts.get(&effect).copied().filter(|_| is_first) else { return };
        self.acts.clear();
        self.seen.act = Some(act);
        match act {
            Act::Starve(more) => starve(self.node, more),
            Act::Fill => fill(self.node),
            Act::KillBefore => {
                send(self.node, Signal::SIGKILL);
                self.seen.fault = Some((effect, Fault::KilledBefore));
                return;
            }
            Act::KillSwitch | Act::HangSwitch => {
                let hang = matches!(act, Act::HangSwitch);
                if let Some(switch) = switch(&self.kept) {
                    send(switch, if hang { Signal::SIGSTOP } else { Signal::SIGKILL });
                    self.stopped = hang.then_some(switch);
                    self.seen.fault = Some((effect, Fault::SwitchKilled));
                }
                return;
            }
            Act::KillAfter | Act::KillAnswerer | Act::DelayAnswerer | Act::HangAnswerer => {}
        }
        let (object, objects) = (record.object.clone(), record.objects.clone());
        self.under_way = Some(UnderWay { effect, object, act, objects });
    }

    fn after(&mut self, record: &Record, ending: Ending) {
        let lacks = |act: &Act| matches!(act, Act::Starve(_) | Act::Fill);
        let is_it = |one: &mut UnderWay| {
            // The store writes in a thread beside the loop.
            let comes_later =
                one.effect == Effect::Commit && ending == Ending::Well && lacks(&one.act);
            (record.effect, &record.object) == (one.effect, &one.object)
                && ending != Ending::NotNow
                && !comes_later
        };
        let Some(UnderWay { effect, object, act, objects }) = self.under_way.take_if(is_it) else {
            return;
        };
        // Attempts before the last one have made changes.
        let ending = match ending {
            Ending::Refused if record.objects != objects => Ending::Half,
            ending => ending,
        };
        let fault = match (act, ending) {
            (Act::KillAfter, Ending::Well) => {
                send(self.node, Signal::SIGKILL);
                Some(Fault::KilledAfter)
            }
            (_, Ending::Well) => self.disturb_answer(effect, &object, act),
            (_, Ending::Refused) => Some(Fault::Refused),
            (_, Ending::Half) => Some(Fault::Half),
            (_, Ending::RefusedLater) if effect == Effect::Commit => Some(Fault::Refused),
            (_, Ending::RefusedLater) => Some(Fault::RefusedLater),
            (_, Ending::NotNow) => None,
        };
        if lacks(&act) {
            feed(self.node);
        }
        self.seen.fault = fault.map(|fault| (effect, fault));
    }

    /// Disturbs the process that must answer.
    fn disturb_answer(&mut self, effect: Effect, object: &str, act: Act) -> Option<Fault> {
        let of_router = matches!(effect, Effect::AddRouter | Effect::UpdateRouter);
        let process = match act {
            Act::KillAnswerer | Act::DelayAnswerer | Act::HangAnswerer => {
                answerer(self.node, effect, object)?
            }
            _ => return None,
        };
        match act {
            Act::KillAnswerer => {
                send(process, Signal::SIGKILL);
                Some(Fault::RefusedLater)
            }
            Act::DelayAnswerer => {
                stop_for_a_second(process);
                Some(Fault::Late)
            }
            _ => {
                send(process, Signal::SIGSTOP);
                self.stopped = Some(process);
                Some(if of_router { Fault::Silent } else { Fault::RefusedLater })
            }
        }
    }
}
