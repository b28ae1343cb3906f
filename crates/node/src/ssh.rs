//! Logins of users to routers by SSH: `europa node --ssh ADDRESS:PORT`.
//!
//! ```text
//! ssh client ─▶ sshd ─▶ europa session ─session.sock─▶ node: may this user enter this router?
//!                │        (account europa)               │ starts, in the router's pid namespace
//!                └▶ europa ssh-keys ─keys.sock─▶ node    ▼ and control group
//!                                                 europa ssh-attend ─▶ europa ssh-enter ─▶ command
//! ```
//!
//! - The node starts an sshd with a configuration and a host key of its own. All users log in as
//!   one account of the machine, [`ACCOUNT`], which has no rights. A key identifies its user: the
//!   line that `europa ssh-keys` prints for a key forces the command `europa session --user NAME`.
//! - Two sockets are in a folder that only root and the account can enter. They answer only the
//!   account's processes (`SO_PEERCRED`). One returns the user of a key, the other starts sessions.
//!   The node's REST socket is in a folder that the account cannot enter.
//! - `europa session` sends its standard input, output and error, and the words of the user. The
//!   node checks key, role and router in its accepted documents, and starts `europa ssh-attend`
//!   with these descriptors. That process is root of the machine, but runs nothing of the user. Its
//!   child `europa ssh-enter` enters the router as commands of `europa exec` do, gives up all
//!   rights on the machine, and executes a shell with a cleared environment and three descriptors.
//! - `europa ssh-attend` reaps all that the session starts. It ends all processes of the session
//!   when the command, the client or the node ends, or when the node orders it. So no process
//!   outlives its session.
//! - A thread compares all sessions with the documents four times a second. It ends sessions whose
//!   user, key, role or router was removed.
//! - The node's loop only looks up names. A few threads serve connections.
//!
//! The account runs nothing but sshd's processes without rights, `europa ssh-keys` and `europa
//! session`. Processes of tenants never have its user id.
//!
//! | file       | concern                                                   |
//! |------------|-----------------------------------------------------------|
//! | `account`  | the user of the machine that all logins have              |
//! | `daemon`   | sshd: its files, and its process                          |
//! | `server`   | sockets for the account                                   |
//! | `keys`     | users of keys                                             |
//! | `line`     | the words of a user: router and command                   |
//! | `admit`    | whether a user may enter a router                         |
//! | `sessions` | sessions begin and end                                    |
//! | `attend`   | the process that starts and ends all others of a session  |
//! | `enter`    | the process that becomes a shell inside the router        |
//! | `client`   | the processes that sshd starts                            |
//! | `wire`     | messages between all of these                             |

mod account;
mod admit;
mod attend;
mod client;
mod daemon;
mod enter;
mod keys;
mod line;
mod server;
mod sessions;
mod wire;

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::mount::{MntFlags, umount2};

pub use self::account::ACCOUNT;
use self::account::Account;
pub(crate) use self::admit::admit;
pub use self::attend::attend;
pub use self::client::{keys, session};
use self::daemon::Daemon;
pub use self::daemon::supervise;
pub use self::enter::{Entry, enter};
pub(crate) use self::line::Target;
use self::sessions::Sessions;
use crate::control::Control;
use crate::events::Events;
use crate::{Doing, Instance, Lifetime, NodeError};

/// How often sessions are compared with the documents, and the sshd is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The files of a node's logins; no process runs yet.
pub(crate) struct Prepared {
    instance: Instance,
    account: Account,
    daemon: Daemon,
}

/// The thread that keeps the sshd running and watches sessions.
pub(crate) struct Ssh {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// The socket for `europa ssh-keys`.
fn keys_socket(instance: &Instance) -> PathBuf {
    instance.ssh().join("keys.sock")
}

/// The socket for `europa session`.
fn session_socket(instance: &Instance) -> PathBuf {
    instance.ssh().join("session.sock")
}

impl Prepared {
    /// Checks the machine's requirements, and makes the files.
    ///
    /// # Errors
    /// The account or sshd is missing, or the address is in use.
    pub(crate) fn new(
        instance: &Instance,
        lifetime: Lifetime,
        at: SocketAddr,
    ) -> Result<Prepared, NodeError> {
        let account = Account::find()?;
        remove(instance);
        let daemon =
            Daemon::prepare(instance, lifetime, at, &account).inspect_err(|_| remove(instance))?;
        Ok(Prepared { instance: instance.clone(), account, daemon })
    }

    /// Takes logins from now on.
    ///
    /// # Errors
    /// A socket or a thread cannot be made.
    pub(crate) fn start(self, control: Control, events: Events) -> Result<Ssh, NodeError> {
        let Prepared { instance, account, mut daemon } = self;
        let sessions = Sessions::new(&instance, control.clone(), events.clone());
        let answer = keys::answers(&instance, control);
        server::serve(&keys_socket(&instance), &account, "ssh-keys", answer)?;
        let begin = sessions.clone();
        let begin = move |socket| begin.serve(socket);
        server::serve(&session_socket(&instance), &account, "ssh-session", begin)?;
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !stopped.load(Ordering::Relaxed) {
                daemon.look(&events);
                sessions.look();
                std::thread::sleep(LOOK_EVERY);
            }
            daemon.end();
            sessions.end();
        };
        let thread = std::thread::Builder::new().name("ssh".into());
        Ok(Ssh { stop, thread: thread.spawn(run).doing("starting the thread for logins")? })
    }
}

impl Ssh {
    /// Ends all sessions and the sshd.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread does not panic; after a panic it would have no resources left.
        let _ = self.thread.join();
    }
}

/// Removes the files of an instance's logins. No process runs there.
pub(crate) fn remove(instance: &Instance) {
    let folder = instance.ssh();
    // A file that is mounted there prevents removal of the folder.
    let _ = umount2(&daemon::program(instance), MntFlags::MNT_DETACH);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!("removing {}: {error}", folder.display());
        }
        _ => {}
    }
    if let Some(above) = folder.parent() {
        // Other nodes may have logins.
        let _ = fs::remove_dir(above);
    }
}
