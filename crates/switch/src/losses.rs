//! The devices' losses of sent frames. A separate thread reads them, because reading waits for the
//! kernel's lock on devices, which the kernel holds for milliseconds while a device is made or
//! removed.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, Thread, park};

use europa_port::DropCounters;

use crate::process::Ends;

/// A port's counters.
struct Counted {
    counters: Mutex<DropCounters>,
    wanted: AtomicBool,
    live_frames: AtomicU64,
}

impl Counted {
    /// A removed device loses no more frames.
    fn read(&self) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(drops) = counters.read() {
            self.live_frames.store(drops.live_frames, Ordering::Relaxed);
        }
    }
}

/// The thread that reads.
#[derive(Clone)]
pub(crate) struct Reader {
    thread: Thread,
    all: Arc<Mutex<Vec<Weak<Counted>>>>,
}

impl Reader {
    /// Starts it. It sleeps until it is asked.
    pub(crate) fn start() -> io::Result<Self> {
        let all: Arc<Mutex<Vec<Weak<Counted>>>> = Arc::default();
        let of_thread = all.clone();
        let read = move || {
            let _ends = Ends;
            loop {
                park();
                let mut all = of_thread.lock().unwrap_or_else(PoisonError::into_inner);
                all.retain(|counted| counted.strong_count() > 0);
                let there: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
                drop(all);
                let asked = |counted: &&Arc<Counted>| counted.wanted.swap(false, Ordering::Acquire);
                there.iter().filter(asked).for_each(|counted| counted.read());
            }
        };
        let thread = Builder::new().name("losses".to_owned()).spawn(read)?.thread().clone();
        Ok(Self { thread, all })
    }

    /// Reads a port's counters, from now on when it is asked.
    pub(crate) fn of(&self, counters: DropCounters) -> Losses {
        let counted = Arc::new(Counted {
            counters: Mutex::new(counters),
            wanted: AtomicBool::new(false),
            live_frames: AtomicU64::new(0),
        });
        counted.read();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(&counted));
        drop(all);
        Losses { counted, thread: self.thread.clone() }
    }
}

/// The losses of a port's device.
pub(crate) struct Losses {
    counted: Arc<Counted>,
    thread: Thread,
}

impl Losses {
    /// Lost live frames at the last request.
    pub(crate) fn ask(&self) -> u64 {
        let known = self.counted.live_frames.load(Ordering::Relaxed);
        self.counted.wanted.store(true, Ordering::Release);
        self.thread.unpark();
        known
    }
}
