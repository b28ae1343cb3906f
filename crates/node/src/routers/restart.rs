//! A router gets a new process and a new pool: on demand, or because its process has ended.
//!
//! On demand, the successor builds its sandbox and its graph while the old process continues to
//! forward. It takes over between two frames; packets in the old one's rings are lost. A successor
//! that fails to start changes nothing.

use europa_api::rest::ProblemDetails;
use europa_substrate::PoolHandle;

use super::around::Around;
use super::make::start;
use super::process::{Asked, Process};
use super::{Router, Routers};
use crate::NodeError;
use crate::control::Reply;
use crate::objects::tell_pool_of;

/// A process that will take over from another.
pub(super) struct Successor {
    pub(super) process: Process,
    pool: PoolHandle,
    /// The requests for it.
    asked: Vec<Reply<Result<(), ProblemDetails>>>,
}

impl Successor {
    /// Ends one that does not take over, and says why.
    pub(super) fn discard(self, around: &mut Around<'_>, why: &str) {
        let Successor { mut process, pool, asked } = self;
        let _ = process.body.kill();
        let _ = process.body.wait();
        process.forget(&around.context.kept);
        process.disappoint(why);
        if let Err(error) = give_back(around, pool) {
            tracing::error!("{error}");
        }
        for reply in asked {
            let _ = reply.send(Err(ProblemDetails::failed(format!("it goes on as it was: {why}"))));
        }
    }
}

/// Frees a pool that no router has sent from. The switch may know it.
fn give_back(around: &mut Around<'_>, pool: PoolHandle) -> Result<(), NodeError> {
    let forgotten = around.switch.get().is_none_or(|switch| switch.forget_pool(pool.id));
    around.pools.free(around.up()?, pool, forgotten)
}

impl Routers {
    /// Restarts a router; `reply` is called when the new process forwards.
    pub(crate) fn restart(
        &mut self,
        around: &mut Around<'_>,
        name: &str,
        reply: Reply<Result<(), ProblemDetails>>,
    ) {
        if let Err(problem) = self.known(name) {
            let _ = reply.send(Err(problem));
            return;
        }
        let Some(index) = self.place_of(name) else { return };
        let Some(router) = self.all.get_mut(index) else { return };
        if let Some(successor) = &mut router.successor {
            successor.asked.push(reply);
            return;
        }
        match self.has_pool(around, index) {
            Ok(true) => {}
            Ok(false) => {
                if let Some(router) = self.all.get_mut(index) {
                    router.wants_successor.push(reply);
                }
                return;
            }
            Err(error) => {
                let _ = reply.send(Err(ProblemDetails::failed(error.to_string())));
                return;
            }
        }
        let Some(router) = self.all.get_mut(index) else { return };
        // A requested restart clears earlier ends.
        router.backoff.forget();
        if !router.granted.covers(&router.plan)
            && let Some(process) = &mut router.process
        {
            // Its successor could not open them while it lives.
            let ended = process.body.kill().and_then(|()| process.body.wait());
            if let Err(error) = ended {
                let _ = reply.send(Err(ProblemDetails::failed(error.to_string())));
                return;
            }
            process.ready = false;
        }
        let forwards = router.process.as_ref().is_some_and(|process| process.ready);
        let restarted = match self.begin_successor(around, index) {
            Ok(successor) if forwards => {
                if let Some(router) = self.all.get_mut(index) {
                    router.successor = Some(Successor { asked: vec![reply], ..successor });
                }
                return;
            }
            Ok(successor) => self.relieve(around, index, successor),
            Err(error) => Err(error),
        };
        let told = restarted.map_err(|error| ProblemDetails::failed(error.to_string()));
        if told.is_ok() {
            around.context.events.note("router", name, "Restarted", "somebody asked for it");
        }
        let _ = reply.send(told);
    }

    /// Gives a router whose process has ended a new one, which finds the packets that arrived while
    /// it built its sandbox and its graph.
    pub(super) fn restart_ended(
        &mut self,
        around: &mut Around<'_>,
        index: usize,
    ) -> Result<(), NodeError> {
        if let Some(router) = self.all.get_mut(index)
            && let Some(successor) = router.successor.take()
        {
            return self.relieve(around, index, successor);
        }
        let successor = self.begin_successor(around, index)?;
        self.relieve(around, index, successor)
    }

    /// Starts a process on a pool that no receive program uses yet.
    fn begin_successor(
        &self,
        around: &mut Around<'_>,
        index: usize,
    ) -> Result<Successor, NodeError> {
        let none = || NodeError::Refused("there is no such router".into());
        let router = self.all.get(index).ok_or_else(none)?;
        let pool = around.pools.take(around.up()?, router.plan.geometry)?;
        match self.begin_on(around, router, &pool) {
            Ok(process) => Ok(Successor { process, pool, asked: Vec::new() }),
            Err(error) => {
                give_back(around, pool)?;
                Err(error)
            }
        }
    }

    fn begin_on(
        &self,
        around: &mut Around<'_>,
        router: &Router,
        pool: &PoolHandle,
    ) -> Result<Process, NodeError> {
        pool.name_interfaces(&router.plan.rows())?;
        let mut process = self.spawn(around, router)?;
        if let (true, Some(switch)) = (process.body.is_inside(), around.switch.get()) {
            tell_pool_of(switch, router, pool)?;
        }
        start(&mut process, around, router, pool)?;
        Ok(process)
    }

    /// Reads the answers of successors: a ready one takes over, an unneeded one ends.
    pub(crate) fn hear_successors(&mut self, around: &mut Around<'_>) {
        let events = &around.context.events;
        for index in 0..self.all.len() {
            let Some(router) = self.all.get_mut(index) else { continue };
            let Some(successor) = &mut router.successor else { continue };
            let mut refused = None;
            for (asked, outcome) in successor.process.answers() {
                if let (Asked::Start, Err(why)) = (asked, outcome) {
                    refused = Some(why);
                }
            }
            if let Some(why) = successor.process.body.ended() {
                refused.get_or_insert(why);
            }
            let ready = successor.process.ready;
            match (refused, router.successor.take()) {
                (Some(why), Some(successor)) => successor.discard(around, &why),
                (None, Some(successor)) if ready => {
                    let name = router.plan.name.clone();
                    if let Err(error) = self.relieve(around, index, successor) {
                        events.warn("router", &name, "Failed", error.to_string());
                    } else {
                        events.note("router", &name, "Restarted", "somebody asked for it");
                    }
                }
                (None, successor) => router.successor = successor,
                (Some(_), None) => {}
            }
        }
    }

    /// The router's configuration has changed: its successor starts again.
    pub(crate) fn renew_successor(&mut self, around: &mut Around<'_>, name: &str) {
        let Some(index) = self.place_of(name) else { return };
        let Some(router) = self.all.get_mut(index) else { return };
        let Some(mut old) = router.successor.take() else { return };
        let asked = std::mem::take(&mut old.asked);
        old.discard(around, "its configuration has changed");
        match self.begin_successor(around, index) {
            Ok(successor) => {
                if let Some(router) = self.all.get_mut(index) {
                    router.successor = Some(Successor { asked, ..successor });
                }
            }
            Err(error) => {
                for reply in asked {
                    let _ = reply.send(Err(ProblemDetails::failed(error.to_string())));
                }
            }
        }
    }

    /// Lets a successor take over.
    fn relieve(
        &mut self,
        around: &mut Around<'_>,
        index: usize,
        successor: Successor,
    ) -> Result<(), NodeError> {
        let Successor { mut process, pool: new, asked } = successor;
        let kept = &around.context.kept;
        let Some(router) = self.all.get_mut(index) else { return Ok(()) };
        let Some(substrate) = around.substrate else { return Ok(()) };
        let mut before = router.process.take();
        if let Some(before) = &mut before {
            before.note_complete(kept, false, 0)?;
        }
        // A switch that has just ended learns of all this when it starts. One that runs inside the
        // switch was taken in with its pool.
        if let (false, Some(switch)) = (process.body.is_inside(), around.switch.get()) {
            let _ = tell_pool_of(switch, router, &new);
        }
        router.interfaces.iter().for_each(|id| substrate.hand_over(*id, &new));
        let killed = before.as_ref().map_or(Ok(()), |before| before.body.kill());
        let old = router.pool.replace(new);
        let mut forgotten = false;
        let (objects, switch) = around.split(&self.all);
        if let Some(switch) = switch {
            forgotten = old.as_ref().is_some_and(|old| switch.forget_pool(old.id));
            if let Some(router) = self.all.get(index) {
                let _ = objects.tell_interfaces(switch, router);
            }
        }
        killed?;
        if let Some(router) = self.all.get_mut(index) {
            router.restarts += 1;
            router.due = None;
            if process.ready {
                process.note_complete(kept, true, router.restarts)?;
            }
            router.process = Some(process);
        }
        for reply in asked {
            let _ = reply.send(Ok(()));
        }
        // All of this may wait: the new process forwards.
        if let Some(mut before) = before {
            before.body.wait()?;
            before.forget(kept);
            before.disappoint("it is restarted");
        }
        old.map_or(Ok(()), |old| around.pools.free(substrate, old, forgotten))
    }
}
