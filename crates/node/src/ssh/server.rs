//! Sockets that answer processes of the account, and no others.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, socket, sockopt,
};

use super::account::Account;
use crate::{Doing, NodeError};

/// Connections that are answered at a time. More wait.
const MOST: usize = 32;
/// Connections that wait.
const BACKLOG: i32 = 128;
/// The pause before another look for a free place, or after an error.
const PAUSE: Duration = Duration::from_millis(10);

/// A place of a connection, free again when this is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers each connection at `path` in a thread, until this process ends.
///
/// # Errors
/// The socket or the thread cannot be made.
pub(super) fn serve(
    path: &Path,
    account: &Account,
    name: &'static str,
    answer: impl Fn(OwnedFd) + Send + Sync + 'static,
) -> Result<(), NodeError> {
    let what = || format!("listening at {}", path.display());
    let flags = SockFlag::SOCK_CLOEXEC;
    let bound = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).doing(what())?;
    let address = UnixAddr::new(path).doing(what())?;
    bind(bound.as_raw_fd(), &address).doing(what())?;
    chown(path, Some(0), Some(account.group.as_raw())).doing(what())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660)).doing(what())?;
    listen(&bound, Backlog::new(BACKLOG).doing(what())?).doing(what())?;
    // Its connections keep message boundaries: the type is that of the socket.
    let listener = UnixListener::from(bound);
    let (answer, account, taken) = (Arc::new(answer), *account, Arc::new(AtomicUsize::new(0)));
    let run = move || {
        loop {
            while taken.load(Ordering::Relaxed) >= MOST {
                sleep(PAUSE);
            }
            let Ok((stream, _)) = listener.accept() else {
                // No descriptors are left, for example.
                sleep(PAUSE);
                continue;
            };
            let peer = getsockopt(&stream, sockopt::PeerCredentials).map(|peer| peer.uid());
            if peer != Ok(account.user.as_raw()) {
                continue;
            }
            taken.fetch_add(1, Ordering::Relaxed);
            let (answer, place) = (Arc::clone(&answer), Place(Arc::clone(&taken)));
            let one = move || {
                answer(stream.into());
                drop(place);
            };
            if let Err(error) = thread::Builder::new().name(name.into()).spawn(one) {
                tracing::warn!("{name}: {error}");
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(run).doing(what())?;
    Ok(())
}
