//! Tells the node until when it has a lease: then ports of routers that stop without a lease drop all
//! frames.
//!
//! The deadline counts from the time at which the answered renewal was sent. etcd counts the lease
//! from a later time, so the deadline comes first, also if one clock is faster by up to a tenth.

use std::time::Duration;

use europa_api::rest::{Lease, Said};
use europa_client::{Client, Deadlines as Patience};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::time::sleep;

const SECOND_NS: u64 = 1_000_000_000;
/// The fence is up this long before the lease ends.
const MARGIN_NS: u64 = SECOND_NS;
/// Time until the next attempt to tell the node.
const AGAIN: Duration = Duration::from_millis(200);
/// The longest wait for the node's answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes deadlines in nanoseconds of `CLOCK_BOOTTIME`; 0 for a lease that has ended.
pub(super) type Deadlines = watch::Sender<Option<u64>>;

/// The present time of `CLOCK_BOOTTIME` in nanoseconds.
pub(super) fn boot_ns() -> u64 {
    // Cannot fail for this clock. Without a clock, no deadline is ever in the future.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0, |time| time.tv_sec() as u64 * SECOND_NS + time.tv_nsec() as u64)
}

/// The deadline of a lease whose renewal was sent at `sent_ns` and answered with a time to live of
/// `ttl` seconds; 0 if the lease has ended.
pub(super) fn deadline_ns(sent_ns: u64, ttl: i64) -> u64 {
    match u64::try_from(ttl) {
        Ok(0) | Err(_) => 0,
        Ok(ttl) => sent_ns.saturating_add((ttl * SECOND_NS).saturating_sub(MARGIN_NS)),
    }
}

/// Tells the node each deadline that is sent, until the agent ends.
pub(super) fn report(client: Client) -> Deadlines {
    let patience =
        Patience { silence: PATIENCE, probe: PATIENCE, changing: PATIENCE, ..Patience::default() };
    let client = client.with_deadlines(patience);
    let (deadlines, mut latest) = watch::channel(None::<u64>);
    tokio::spawn(async move {
        let mut failed = false;
        loop {
            let known = *latest.borrow_and_update();
            let told = match known {
                None => true,
                Some(deadline_ns) => {
                    let client = client.clone();
                    let tell = move || client.put::<Said>("/v1/lease", &Lease { deadline_ns });
                    let told = tokio::task::spawn_blocking(tell).await;
                    match told {
                        Ok(Ok(_)) => true,
                        Ok(Err(error)) => {
                            if !failed {
                                tracing::warn!("the node does not take its lease: {error}");
                            }
                            false
                        }
                        Err(_) => false,
                    }
                }
            };
            failed = !told;
            let next = if told {
                latest.changed().await
            } else {
                tokio::select! {
                    changed = latest.changed() => changed,
                    () = sleep(AGAIN) => Ok(()),
                }
            };
            if next.is_err() {
                return;
            }
        }
    });
    deadlines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_is_up_before_the_lease_ends() {
        for (sent, ttl, wanted) in [
            (7 * SECOND_NS, 5, 11 * SECOND_NS),
            (7 * SECOND_NS, 1, 7 * SECOND_NS),
            (7 * SECOND_NS, 0, 0),
            (7 * SECOND_NS, -1, 0),
        ] {
            assert_eq!(deadline_ns(sent, ttl), wanted, "{ttl}");
        }
    }
}
