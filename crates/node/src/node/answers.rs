//! What routers answer.

use std::time::Instant;

use europa_api::rest::ProblemDetails;
use europa_router::orders::Order;

use super::Node;
use super::apply::Failure;
use crate::control::Reply;
use crate::router::{Asked, Outcome};

impl Node {
    /// Hears all routers; what is for others has been handed on.
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
                        if let Some(job) = &mut self.job {
                            job.awaited.retain(|other| other != name);
                        }
                    }
                    (Asked::Start, Err(why)) => {
                        router.last_end.clone_from(why);
                        self.events.warn("router", name, "Refused", why.clone());
                        if let Some(job) = &mut self.job
                            && job.awaited.contains(name)
                        {
                            job.awaited.retain(|other| other != name);
                            job.failure = Some(Failure::of_router(name, why));
                        }
                    }
                    (Asked::Update, _) => {
                        if let Some(job) = &mut self.job {
                            job.updates = job.updates.saturating_sub(1);
                        }
                        if outcome.is_ok()
                            && !router.astray
                            && let Err(error) = process.note_changed(&self.kept)
                        {
                            tracing::warn!("router {name}: {error}");
                        }
                        if let Err(why) = outcome {
                            router.astray = true;
                            self.events.warn("router", name, "Refused", why.clone());
                            if let Some(job) = &mut self.job {
                                job.failure = Some(Failure::of_router(name, &why));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Gives a running router an order; `reply` gets its answer.
    pub(crate) fn ask_router(&mut self, name: &str, order: &Order, reply: Reply<Outcome>) {
        let router = self.routers.iter_mut().find(|router| router.plan.name == name);
        let is_program = router.as_ref().is_some_and(|router| !router.plan.program.is_empty());
        match router.and_then(|router| router.process.as_mut()) {
            Some(_) if is_program => {
                drop(reply.send(Err("its data plane is a program, which has no handlers".into())));
            }
            Some(process) => process.order(order, Asked::Client(reply)),
            None => drop(reply.send(Err("it does not run".into()))),
        }
    }

    /// Whether there is such a router.
    ///
    /// # Errors
    /// Which ones there are.
    pub(crate) fn known_router(&self, name: &str) -> Result<(), ProblemDetails> {
        if self.routers.iter().any(|router| router.plan.name == name) {
            return Ok(());
        }
        let names: Vec<&str> = self.routers.iter().map(|r| r.plan.name.as_str()).collect();
        let known = match names.as_slice() {
            [] => "there is none at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        Err(ProblemDetails::not_found(format!("there is no router {name}; {known}")))
    }
}
