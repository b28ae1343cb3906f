//! The doors of slices: an abstract Unix socket `@europa` in the network namespace of each router
//! with a slow path. The node opens them; the front serves them.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use europa_port::{Namespace, in_namespace};
use tokio::sync::{mpsc, oneshot};

/// The socket's name.
const NAME: &str = "europa";

/// A door to serve.
#[derive(Debug)]
pub struct OpenedDoor {
    /// Takes connections from the router's namespace; does not block.
    pub listener: UnixListener,
    /// The slice of the router.
    pub slice: String,
    /// Ends when the door is closed.
    pub closed: oneshot::Receiver<()>,
}

/// Opens doors. Without a receiver it opens none.
#[derive(Clone, Default)]
pub(crate) struct Doors(Option<mpsc::UnboundedSender<OpenedDoor>>);

/// A door that is open until this is dropped.
pub(crate) struct Door(#[expect(dead_code, reason = "its end is what counts")] oneshot::Sender<()>);

impl Doors {
    /// Doors, and the receiving end for the thread that serves them.
    pub(crate) fn new() -> (Doors, mpsc::UnboundedReceiver<OpenedDoor>) {
        let (doors, opened) = mpsc::unbounded_channel();
        (Doors(Some(doors)), opened)
    }

    /// Opens the door of a router of this slice.
    ///
    /// # Errors
    /// If there is such a socket already, of any owner.
    pub(crate) fn open(&self, inside: &Namespace, slice: &str) -> io::Result<Option<Door>> {
        let Some(doors) = &self.0 else { return Ok(None) };
        let address = SocketAddr::from_abstract_name(NAME)?;
        let listener = in_namespace(inside, || UnixListener::bind_addr(&address))??;
        listener.set_nonblocking(true)?;
        let (open, closed) = oneshot::channel();
        // The receiver ends with the node.
        let _ = doors.send(OpenedDoor { listener, slice: slice.to_owned(), closed });
        Ok(Some(Door(open)))
    }
}
