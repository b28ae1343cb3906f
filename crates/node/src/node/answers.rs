//! Answers of routers.

use std::time::Instant;

use europa_api::rest::ProblemDetails;
use europa_control::Ticket;
use europa_router::orders::Order;

use super::Node;
use crate::control::Reply;
use crate::router::{Asked, Outcome};
use crate::slow_path::Reloaded;
use crate::{Doing, NodeError};

impl Node {
    /// Reads the answers of all routers, and forwards those for other threads.
    pub(super) fn hear_routers(&mut self) {
        let now = Instant::now();
        for router in &mut self.routers {
            let Some(process) = &mut router.process else { continue };
            if !process.may_have_said(now) {
                continue;
            }
            let name = &router.plan.name;
            for (asked, outcome) in process.answers() {
                match (&asked, &outcome) {
                    (Asked::Start, Ok(_)) => {
                        if let Err(error) = process.note_complete(&self.kept, true, router.restarts)
                        {
                            tracing::warn!("router {name}: {error}");
                        }
                        let took = process.started.elapsed();
                        let message = match process.body.pid() {
                            Some(pid) => {
                                format!("process {pid}, ready after {} ms", took.as_millis())
                            }
                            None => format!("inside the switch after {} us", took.as_micros()),
                        };
                        self.events.note("router", name, "Started", message);
                        self.engine.ready(name);
                    }
                    (Asked::Start, Err(why)) => {
                        router.last_end.clone_from(why);
                        self.events.warn("router", name, "Refused", why.clone());
                        // A router that does not answer is restarted; one that refuses ends anyway.
                        let _ = process.body.kill();
                        self.engine.failed(name, why);
                    }
                    (Asked::Update(ticket), _) => {
                        let heard = outcome.as_ref().map(drop).map_err(String::as_str);
                        self.engine.updated(*ticket, name, heard);
                        if outcome.is_ok()
                            && !router.astray
                            && let Err(error) = process.note_changed(&self.kept)
                        {
                            tracing::warn!("router {name}: {error}");
                        }
                        if let Err(why) = outcome {
                            router.astray = true;
                            self.events.warn("router", name, "Refused", why);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Starts programs of slow paths, and reloads others. Returns how many answers of
    /// [`Node::reloaded`] follow.
    pub(super) fn start_slow_paths(&mut self, ticket: Ticket) -> Result<usize, NodeError> {
        let reloads =
            self.slow_paths.start(&self.instance, &self.kept, &self.cgroups, &self.events)?;
        let count = reloads.len();
        for reloads in reloads {
            let (control, name) = (self.control.clone(), reloads.router().to_owned());
            let run = move || {
                let outcome = reloads.run();
                control.tell(move |node| node.reloaded(ticket, &name, outcome));
            };
            let thread = std::thread::Builder::new().name("reload".into());
            thread.spawn(run).doing("reloading programs")?;
        }
        Ok(count)
    }

    /// Reads which programs of a router have reloaded their files, or why one has not.
    fn reloaded(&mut self, ticket: Ticket, router: &str, outcome: Reloaded) {
        let outcome = self.slow_paths.reloaded(&self.kept, router, outcome);
        match &outcome {
            Ok(names) => self.events.note("router", router, "Reloaded", names.clone()),
            Err(why) => self.events.warn("router", router, "NotReloaded", why.clone()),
        }
        self.engine.reloaded(ticket, router, outcome.as_ref().map(drop).map_err(|why| &**why));
        self.more = true;
    }

    /// Sends a running router an order; `reply` gets its answer.
    pub(crate) fn ask_router(&mut self, name: &str, order: &Order, reply: Reply<Outcome>) {
        // Handlers of elements have a dot; the process's own one for `europa trace` has none.
        let is_map = |path: &str| !path.contains('.') && path != "trace";
        if let Some(answer) = self.cages.running(name).and_then(|loaded| match order {
            Order::Read { path, parameter } if is_map(path) => Some(loaded.read(path, parameter)),
            Order::Write { path, value } if is_map(path) => {
                Some(loaded.write(path, value).map(|()| String::new()))
            }
            _ => None,
        }) {
            drop(reply.send(answer));
            return;
        }
        let router = self.routers.iter_mut().find(|router| router.plan.name == name);
        let is_program = router.as_ref().is_some_and(|router| !router.plan.program().is_empty());
        match router.and_then(|router| router.process.as_mut()) {
            Some(_) if is_program => {
                drop(reply.send(Err("its data plane is a program, which has no handlers".into())));
            }
            Some(process) => process.order(order, Asked::Client(reply)),
            None => drop(reply.send(Err("it does not run".into()))),
        }
    }

    /// Checks that the router exists.
    ///
    /// # Errors
    /// The existing routers.
    pub(crate) fn known_router(&self, name: &str) -> Result<(), ProblemDetails> {
        if self.routers.iter().any(|router| router.plan.name == name) {
            return Ok(());
        }
        let names: Vec<&str> = self.routers.iter().map(|r| &*r.plan.name).collect();
        let known = match names.as_slice() {
            [] => "there is none at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        Err(ProblemDetails::not_found(format!("there is no router {name}; {known}")))
    }
}
