//! Makes connections repeatedly for processes that may not connect themselves.
//!
//! A process opens a pair of sockets and passes one end to another process. That process sends
//! requests through its end, and a thread of the first process connects and sends the new socket
//! back. The thread ends when either end closes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use europa_channel::{Channel, ChannelError, pair};
use europa_memif::{MemifError, socket};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

/// The requesting process may be hostile, so there is a pause between two connections.
const PAUSE: Duration = Duration::from_millis(20);

/// An answer; the first kind comes with a socket.
#[derive(Serialize, Deserialize)]
enum Answer {
    Connected,
    /// The system's error.
    Refused(i32),
}

/// The end that asks.
pub struct Connector(Channel<(), Answer>);

/// The reason why a connection was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    /// The system refuses it: usually, no process listens at the path.
    #[error("cannot connect: {}", .0.desc())]
    Refused(Errno),
    /// The connecting thread has ended. Another one must be started.
    #[error("whoever connects for this router has gone")]
    Gone,
}

impl Connector {
    /// Takes the opened socket.
    pub fn new(opened: OwnedFd) -> Self {
        Self(Channel::new(opened))
    }

    /// Asks for a connection.
    ///
    /// # Errors
    /// [`Missed::Gone`].
    pub fn ask(&self) -> Result<(), Missed> {
        self.0.send(&(), &[]).map_err(|_| Missed::Gone)
    }

    /// Takes the answer if it has arrived, without waiting.
    ///
    /// # Errors
    /// The reason why a connection was not made.
    pub fn answer(&mut self) -> Result<Option<OwnedFd>, Missed> {
        match self.0.try_receive() {
            Ok(None) => Ok(None),
            Ok(Some((Answer::Connected, mut sockets))) => sockets.pop().map_or(
                // The limit of open descriptors is reached.
                Err(Missed::Refused(Errno::EMFILE)),
                |socket| Ok(Some(socket)),
            ),
            Ok(Some((Answer::Refused(errno), _))) => Err(Missed::Refused(Errno::from_raw(errno))),
            Err(_) => Err(Missed::Gone),
        }
    }
}

impl AsFd for Connector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Connects to the memif server at `path` at each request from the returned end.
pub(crate) fn serve(path: PathBuf) -> io::Result<OwnedFd> {
    let failed = |error: ChannelError| io::Error::other(error.to_string());
    let (asked, end) = pair::<Answer, ()>().map_err(failed)?;
    // Room for a few answers: unused sockets must not accumulate.
    setsockopt(&asked, sockopt::SndBuf, &1)?;
    let connect = move || answer_all(asked, &path);
    thread::Builder::new().name("connector".to_owned()).spawn(connect)?;
    Ok(end)
}

fn answer_all(mut asked: Channel<Answer, ()>, path: &std::path::Path) {
    while asked.receive().is_ok() {
        let sent = match socket::connect(path) {
            Ok(socket) => asked.send(&Answer::Connected, &[socket.as_fd()]),
            Err(MemifError::Path { source, .. }) => {
                asked.send(&Answer::Refused(source as i32), &[])
            }
            Err(_) => asked.send(&Answer::Refused(Errno::EINVAL as i32), &[]),
        };
        if sent.is_err() {
            return;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn ask(connector: &mut Connector) -> Result<OwnedFd, Missed> {
        connector.ask()?;
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if let Some(socket) = connector.answer()? {
                return Ok(socket);
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no answer");
    }

    #[test]
    fn it_connects_as_often_as_it_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock");
        let mut connector = Connector::new(serve(path.clone()).unwrap());
        assert_eq!(ask(&mut connector).err(), Some(Missed::Refused(Errno::ENOENT)));
        let listener = socket::listen(&path, 0o600).unwrap();
        for _ in 0..3 {
            ask(&mut connector).unwrap();
            assert!(socket::accept(&listener).unwrap().is_some());
        }
        drop(listener);
        assert_eq!(ask(&mut connector).err(), Some(Missed::Refused(Errno::ECONNREFUSED)));
    }

    #[test]
    fn one_that_takes_no_answers_gets_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut connector = Connector::new(serve(folder.path().join("none")).unwrap());
        let asked = (0..50).take_while(|_| connector.ask().is_ok()).count();
        assert!(asked > 0);
        thread::sleep(Duration::from_secs(3));
        let answers = (0..50).take_while(|_| !matches!(connector.answer(), Err(Missed::Gone)));
        assert!(answers.count() < 40, "all were kept for it");
    }
}
