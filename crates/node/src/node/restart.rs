//! A router gets a new process and a new pool: on demand, or because its process has ended.
//!
//! On demand, the successor builds its sandbox and its graph while the old process continues to
//! forward. It takes over between two frames; packets in the old one's rings are lost. A successor
//! that fails to start changes nothing.

use europa_api::rest::ProblemDetails;
use europa_substrate::PoolHandle;

use super::Node;
use crate::NodeError;
use crate::control::Reply;
use crate::router::{Asked, Process, Router};
use crate::switch::Switch;

/// A process that will take over from another.
pub(crate) struct Successor {
    pub(crate) process: Process,
    pool: PoolHandle,
    /// The requests for it.
    asked: Vec<Reply<Result<(), ProblemDetails>>>,
}

impl Node {
    /// Restarts a router; `reply` is called when the new process forwards.
    pub(crate) fn restart(&mut self, name: &str, reply: Reply<Result<(), ProblemDetails>>) {
        if let Err(problem) = self.known_router(name) {
            let _ = reply.send(Err(problem));
            return;
        }
        let Some(index) = self.routers.iter().position(|router| router.plan.name == name) else {
            return;
        };
        let Some(router) = self.routers.get_mut(index) else { return };
        if let Some(successor) = &mut router.successor {
            successor.asked.push(reply);
            return;
        }
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
        let restarted = match self.begin_successor(index) {
            Ok(successor) if forwards => {
                if let Some(router) = self.routers.get_mut(index) {
                    router.successor = Some(Successor { asked: vec![reply], ..successor });
                }
                return;
            }
            Ok(successor) => self.relieve(index, successor),
            Err(error) => Err(error),
        };
        let told = restarted.map_err(|error| ProblemDetails::failed(error.to_string()));
        if told.is_ok() {
            self.events.note("router", name, "Restarted", "somebody asked for it");
        }
        let _ = reply.send(told);
    }

    /// Starts a new process for a router whose process has ended. It gets the packets that arrived
    /// while it built its sandbox and its graph.
    pub(super) fn restart_router(&mut self, index: usize) -> Result<(), NodeError> {
        if let Some(router) = self.routers.get_mut(index)
            && let Some(successor) = router.successor.take()
        {
            return self.relieve(index, successor);
        }
        let successor = self.begin_successor(index)?;
        self.relieve(index, successor)
    }

    /// Starts a process on a pool that no receive program uses yet.
    fn begin_successor(&mut self, index: usize) -> Result<Successor, NodeError> {
        let none = || NodeError::Refused("there is no such router".into());
        let geometry = self.routers.get(index).ok_or_else(none)?.plan.geometry;
        let pool = self.take_pool(geometry)?;
        let mut switch = self.switch.take();
        let router = self.routers.get(index).ok_or_else(none);
        let begun = router.and_then(|router| self.begin_on(router, &pool, switch.as_mut()));
        self.switch = switch;
        match begun {
            Ok(process) => Ok(Successor { process, pool, asked: Vec::new() }),
            Err(error) => {
                self.give_back(pool)?;
                Err(error)
            }
        }
    }

    /// Frees a pool from which no router has sent. The switch may have it.
    fn give_back(&mut self, pool: PoolHandle) -> Result<(), NodeError> {
        let forgotten = self.switch.as_mut().is_none_or(|switch| switch.forget_pool(pool.id));
        self.free_pool(pool, forgotten)
    }

    fn begin_on(
        &self,
        router: &Router,
        pool: &PoolHandle,
        mut switch: Option<&mut Switch>,
    ) -> Result<Process, NodeError> {
        pool.name_interfaces(&router.plan.rows())?;
        let mut process = router.spawn(self.log(&router.plan.name)?, &self.cores_for(router))?;
        if let (true, Some(switch)) = (process.body.is_inside(), &mut switch) {
            Self::tell_pool_of(switch, router, pool)?;
        }
        process.begin(router, pool, self.lasting()?, &self.kept, switch)?;
        // The tables of a kernel router's program are handled separately.
        if router.plan.cage.is_none() {
            self.slow_paths.follow(&router.plan.name, &mut process, &self.events)?;
        }
        Ok(process)
    }

    /// Reads the answers of successors: a ready one takes over, an unneeded one ends.
    pub(super) fn hear_successors(&mut self) {
        for index in 0..self.routers.len() {
            let Some(router) = self.routers.get_mut(index) else { continue };
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
                (Some(why), Some(successor)) => self.discard(successor, &why),
                (None, Some(successor)) if ready => {
                    let name = router.plan.name.clone();
                    if let Err(error) = self.relieve(index, successor) {
                        self.events.warn("router", &name, "Failed", error.to_string());
                    } else {
                        self.events.note("router", &name, "Restarted", "somebody asked for it");
                    }
                }
                (None, successor) => router.successor = successor,
                (Some(_), None) => {}
            }
        }
    }

    /// Ends a successor that does not take over, with the reason.
    pub(super) fn discard(&mut self, successor: Successor, why: &str) {
        let Successor { mut process, pool, asked, .. } = successor;
        let _ = process.body.kill();
        let _ = process.body.wait();
        process.forget(&self.kept);
        process.disappoint(why);
        if let Err(error) = self.give_back(pool) {
            tracing::error!("{error}");
        }
        for reply in asked {
            let _ = reply.send(Err(ProblemDetails::failed(format!("it goes on as it was: {why}"))));
        }
    }

    /// The router's configuration has changed: its successor starts again.
    pub(super) fn renew_successor(&mut self, index: usize) {
        let Some(router) = self.routers.get_mut(index) else { return };
        let Some(mut old) = router.successor.take() else { return };
        let asked = std::mem::take(&mut old.asked);
        self.discard(old, "its configuration has changed");
        match self.begin_successor(index) {
            Ok(successor) => {
                if let Some(router) = self.routers.get_mut(index) {
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
    fn relieve(&mut self, index: usize, successor: Successor) -> Result<(), NodeError> {
        let Successor { mut process, pool: new, asked } = successor;
        let Some(router) = self.routers.get_mut(index) else { return Ok(()) };
        let Some(substrate) = &self.substrate else { return Ok(()) };
        let mut before = router.process.take();
        if let Some(before) = &mut before {
            before.note_complete(&self.kept, false, 0)?;
        }
        // A switch that has just ended learns of all this when it starts.
        let mut switch = self.switch.take();
        // The switch took in a router that runs inside it together with its pool.
        if let (false, Some(switch)) = (process.body.is_inside(), &mut switch) {
            let _ = Self::tell_pool_of(switch, router, &new);
        }
        router.interfaces.iter().for_each(|id| substrate.hand_over(*id, &new));
        let killed = before.as_ref().map_or(Ok(()), |before| before.body.kill());
        let old = router.pool.replace(new);
        let mut forgotten = false;
        if let Some(switch) = &mut switch {
            forgotten = old.as_ref().is_some_and(|old| switch.forget_pool(old.id));
            if let Some(router) = self.routers.get(index) {
                let _ = self.tell_interfaces(switch, router);
            }
        }
        self.switch = switch;
        killed?;
        if let Some(router) = self.routers.get_mut(index) {
            router.restarts += 1;
            router.due = None;
            if process.ready {
                process.note_complete(&self.kept, true, router.restarts)?;
            }
            router.process = Some(process);
        }
        for reply in asked {
            let _ = reply.send(Ok(()));
        }
        // All of this may wait: the new process forwards.
        if let Some(mut before) = before {
            before.body.wait()?;
            before.forget(&self.kept);
            before.disappoint("it is restarted");
        }
        old.map_or(Ok(()), |old| self.free_pool(old, forgotten))
    }
}
