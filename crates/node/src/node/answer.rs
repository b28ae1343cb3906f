//! Requests of clients, and the answers.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use europa_channel::Channel;
use europa_router::orders as router_orders;
use nix::sys::socket::{SockFlag, accept4};

use super::{Client, Node};
use crate::request::{Request, Response};

/// The last client of a node that goes down.
pub(super) struct Last {
    pub(super) client: Client,
    /// Why the node goes, if it could not be brought up.
    pub(super) failed: Option<String>,
}

impl Node {
    /// Answers one client; or gives it back, to be answered when the node has gone down.
    pub(super) fn answer(&mut self, listener: &OwnedFd) -> Option<Last> {
        let raw = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: a new descriptor that nobody else has.
        #[allow(unsafe_code)]
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut client: Client = Channel::new(socket);
        let (request, _) = client.receive_within(Duration::from_secs(1)).ok()??;
        let response = match request {
            Request::Down => return Some(Last { client, failed: None }),
            Request::Up { .. } if self.is_up() => Response::Failed(
                "this node is up already; take it down first with `europa down`".into(),
            ),
            Request::Up { files, colour } => match self.up(&files, colour) {
                Ok(()) => Response::Done(self.summary()),
                // A node with nothing to do goes, before anybody can take it for a running one.
                Err(why) => return Some(Last { client, failed: Some(why) }),
            },
            Request::Stats => Response::Stats(Box::new(self.stats())),
            Request::Read { router, path } => {
                let order = router_orders::Order::Read { path, parameter: String::new() };
                self.ask_router(&router, &order)
            }
            Request::Write { router, path, value } => {
                self.ask_router(&router, &router_orders::Order::Write { path, value })
            }
        };
        let _ = client.send(&response, &[]);
        None
    }

    pub(super) fn ask_router(&mut self, name: &str, order: &router_orders::Order) -> Response {
        let Some(router) = self.routers.iter_mut().find(|router| router.plan.name == name) else {
            let names: Vec<&str> = self.routers.iter().map(|r| r.plan.name.as_str()).collect();
            return Response::Failed(format!(
                "there is no router {name}; there are: {}",
                names.join(", ")
            ));
        };
        let Some(process) = &mut router.process else {
            return Response::Failed(format!("router {name} does not run: {}", router.last_end));
        };
        match process.ask(name, order) {
            Ok(text) => Response::Done(text.lines().map(str::to_owned).collect()),
            Err(error) => Response::Failed(error.to_string()),
        }
    }
}
