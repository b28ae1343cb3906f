//! Answers of routers.

use std::time::Instant;

use europa_router::orders::Order;

use super::Routers;
use super::process::{Asked, Outcome};
use crate::cages::Cages;
use crate::change::Change;
use crate::context::Context;
use crate::control::Reply;

impl Routers {
    /// Reads the answers of all routers, and passes on those of other threads.
    pub(crate) fn hear(&mut self, context: &Context, change: &mut Change) {
        let now = Instant::now();
        let (events, kept) = (&context.events, &context.kept);
        for router in &mut self.all {
            let Some(process) = &mut router.process else { continue };
            if !process.may_have_said(now) {
                continue;
            }
            let name = &router.plan.name;
            for (asked, outcome) in process.answers() {
                match (&asked, &outcome) {
                    (Asked::Start, Ok(_)) => {
                        if let Err(error) = process.note_complete(kept, true, router.restarts) {
                            tracing::warn!("router {name}: {error}");
                        }
                        let took = process.started.elapsed();
                        let message = match process.body.pid() {
                            Some(pid) => {
                                format!("process {pid}, ready after {} ms", took.as_millis())
                            }
                            None => format!("inside the switch after {} us", took.as_micros()),
                        };
                        events.note("router", name, "Started", message);
                        change.ready(name);
                    }
                    (Asked::Start, Err(why)) => {
                        router.last_end.clone_from(why);
                        events.warn("router", name, "Refused", why.clone());
                        // One that does not answer is started again; one that refuses ends anyway.
                        let _ = process.body.kill();
                        change.failed(name, why);
                    }
                    (Asked::Update(ticket), _) => {
                        let heard = outcome.as_ref().map(drop).map_err(String::as_str);
                        change.updated(*ticket, name, heard);
                        if outcome.is_ok()
                            && !router.astray
                            && let Err(error) = process.note_changed(kept)
                        {
                            tracing::warn!("router {name}: {error}");
                        }
                        if let Err(why) = outcome {
                            router.astray = true;
                            events.warn("router", name, "Refused", why);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Gives a running router an order; `reply` gets its answer.
    pub(crate) fn ask(&mut self, cages: &Cages, name: &str, order: &Order, reply: Reply<Outcome>) {
        // Handlers of elements have a dot; the process's own one for `europa trace` has not.
        let is_map = |path: &str| !path.contains('.') && path != "trace";
        if let Some(answer) = cages.running(name).and_then(|loaded| match order {
            Order::Read { path, parameter } if is_map(path) => Some(loaded.read(path, parameter)),
            Order::Write { path, value } if is_map(path) => {
                Some(loaded.write(path, value).map(|()| String::new()))
            }
            _ => None,
        }) {
            drop(reply.send(answer));
            return;
        }
        let router = self.all.iter_mut().find(|router| router.plan.name == name);
        let is_program = router.as_ref().is_some_and(|router| !router.plan.program().is_empty());
        match router.and_then(|router| router.process.as_mut()) {
            Some(_) if is_program => {
                drop(reply.send(Err("its data plane is a program, which has no handlers".into())));
            }
            Some(process) => process.order(order, Asked::Client(reply)),
            None => drop(reply.send(Err("it does not run".into()))),
        }
    }
}
