//! Ctrl-C: the run stops at the next wait, and unwinding removes all objects of the run.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Context, Error, Result};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, the first terminating signal only requests an end. The second signal ends the
/// program at once; its next start then removes the remains.
pub(crate) fn install() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(asked))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(asked)))
            .context("installing signal handlers")?;
    }
    Ok(())
}

/// `Err` once the user has requested the end.
pub(crate) fn check() -> Result<()> {
    match ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// Sleeps until the time is over, or the user requests the end.
pub(crate) fn sleep(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}
