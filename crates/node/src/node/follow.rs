//! Queues, meters, programs and watches follow documents and devices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_api::Host;
use europa_api::rest::ProblemDetails;
use europa_control::{Outcome, Submission, Ticket};

use super::Node;
use super::turns::Turns;
use crate::control::Reply;
use crate::hosts::{HostDrift, Made};
use crate::ports::Looked;
use crate::signallers;
use crate::slow_path::Reloaded;
use crate::{Doing, NodeError};

/// How often the next hops of tunnels are looked at.
const TUNNELS_EVERY: Duration = Duration::from_secs(10);

impl Node {
    /// Has all that stands beside routers be as the documents say. Costs little if it is.
    pub(super) fn follow(&mut self) {
        if let Err(error) = self.follow_queues() {
            // After the switch has just ended, the next one gets the order at its start.
            self.context.events.warn("switch", "", "Failed", error.to_string());
        }
        let piece = Turns::piece();
        let documents = self.change.documents();
        if let Some(substrate) = self.kernel.substrate() {
            self.meters.follow(substrate, documents, &self.routers);
        }
        self.turns.did("meters", piece);
        let piece = Turns::piece();
        self.follow_cages();
        self.turns.did("kernel routers", piece);
        let piece = Turns::piece();
        self.follow_slices();
        self.turns.did("control groups", piece);
        let piece = Turns::piece();
        self.follow_signallers();
        self.follow_scene();
        self.turns.did("signallers and captures", piece);
    }

    /// Moves the deadline of fenced interfaces; 0 ends it.
    pub(crate) fn renew(&mut self, deadline_ns: u64) -> Result<(), ProblemDetails> {
        let substrate = self.kernel.opened(&self.context, &mut self.switch);
        let failed = |error: NodeError| ProblemDetails::failed(error.to_string());
        substrate.map_err(failed)?.renew(deadline_ns);
        Ok(())
    }

    /// Sets the queues of ports as the documents say.
    pub(super) fn follow_queues(&mut self) -> Result<(), NodeError> {
        let Some(switch) = self.switch.get() else { return Ok(()) };
        let (kept, documents) = (&self.context.kept, self.change.documents());
        self.queues.follow(kept, switch, &self.ports, documents, &self.routers)
    }

    /// Has programs of kernel routers stand where their interfaces are.
    pub(super) fn follow_cages(&mut self) {
        if let Some(substrate) = self.kernel.substrate_mut()
            && let Err(error) = self.ports.hold(substrate, &self.routers)
        {
            self.context.events.warn("node", "", "Failed", error.to_string());
        }
        let substrate = self.kernel.substrate();
        self.cages.follow(&self.context, substrate, &self.routers, &self.slow_paths);
    }

    /// Sets the routers' CPU and memory to the slices' reservations.
    fn follow_slices(&mut self) {
        let (cgroups, instance) = (&self.context.cgroups, self.context.instance.name());
        let documents = self.change.documents();
        for error in self.slices.follow(cgroups, instance, documents, &self.routers) {
            let message = format!("control group of a slice: {error}");
            self.context.events.warn("node", "", "Failed", message);
        }
    }

    /// Has flows signalled as the documents say.
    fn follow_signallers(&mut self) {
        let context = &self.context;
        let mut equip = |slice: &str| {
            let log = context.log(&format!("signaller.{slice}"))?;
            Ok((log, context.group(&signallers::group(slice))))
        };
        let (kept, events, documents) = (&context.kept, &context.events, self.change.documents());
        self.signallers.follow(kept, documents, &mut self.routers, events, &mut equip);
    }

    /// Has captures know the present objects, if no further step is about to change them.
    pub(super) fn follow_scene(&mut self) {
        if !self.change.has_steps() {
            let memory = self.switch.lasting().map(|lasting| &lasting.taps);
            let documents = self.change.documents();
            let former = self.captures.follow(documents, &self.ports, &self.routers, memory);
            if let Some(former) = former {
                self.change.free(former);
            }
        }
    }

    /// Looks whether the next hops of tunnels have other addresses now, if it is time.
    pub(super) fn follow_tunnels(&mut self) {
        if !self.tunnels.is_due(TUNNELS_EVERY) {
            return;
        }
        if let Some(substrate) = self.kernel.substrate() {
            self.routers.follow_tunnels(substrate, &self.ports);
        }
    }

    /// The time of the next look.
    pub(super) fn tunnels_due(&self) -> Option<Instant> {
        self.routers.have_tunnels().then(|| self.tunnels.due(TUNNELS_EVERY))
    }

    /// Looks at what other programs may have changed, if it is time.
    pub(super) fn watch(&mut self) {
        if !self.ports.is_watch_due() {
            return;
        }
        let (slow_paths, instance) = (&self.slow_paths, &self.context.instance);
        self.hosts.look(|hosts| Made {
            hosts,
            slow_paths: slow_paths.namespaces(instance),
            uplinks: slow_paths.uplinks().clone(),
        });
        self.follow_far_ends();
        if !self.ports.is_looking() {
            self.look_at_ports();
        }
    }

    /// Follows what the underlay carries, and routes that come.
    fn follow_far_ends(&mut self) {
        // Steps that are under way open sockets for objects that come.
        if !self.change.is_settled() {
            return;
        }
        let all = self.objects().far_ends();
        if let Some(switch) = self.switch.get() {
            self.tunnels.follow(switch, &all);
        }
    }

    /// Has a thread look at the devices of all ports. Returns the number of the look; `None` if there
    /// is nothing to look at.
    fn look_at_ports(&mut self) -> Option<u64> {
        let documents = self.change.documents();
        self.ports.look(self.kernel.substrate(), &documents.ports)
    }

    /// A thread has looked at the devices of ports.
    pub(crate) fn ports_looked(&mut self, looked: Looked) {
        let number = looked.number;
        let found = self.ports.looked(&self.context, self.kernel.substrate_mut(), looked);
        found.lost.iter().for_each(|port| self.routers.forget_neighbours(port));
        while let Some((_, submission, reply)) =
            self.submitted.pop_front_if(|(look, ..)| *look <= number)
        {
            self.change.submit(submission, reply);
        }
        if found.come {
            self.reconcile();
        }
    }

    /// Takes a submission, once a thread has looked at the devices of all ports; `reply` gets its
    /// outcome.
    pub(crate) fn submit(&mut self, submission: Submission, reply: Reply<Outcome>) {
        match self.look_at_ports() {
            Some(look) => self.submitted.push_back((look, submission, reply)),
            None => self.change.submit(submission, reply),
        }
    }

    /// Hosts that are not as they were made, found by the node itself: mended at once.
    pub(crate) fn mend_drift(&mut self, of: &Arc<Vec<Host>>, found: Vec<HostDrift>) {
        self.note_drift(of, found);
        self.reconcile();
    }

    /// Hosts that are not as they were made: the next change mends them.
    pub(crate) fn note_drift(&mut self, of: &Arc<Vec<Host>>, found: Vec<HostDrift>) {
        let lost = self.hosts.note_drift(&self.context.events, of, found);
        // The devices of these ports are made again.
        self.ports.lose(&lost);
    }

    /// Slow paths whose namespaces have vanished: they are made again.
    pub(crate) fn mend_slow_paths(&mut self, lost: Vec<String>) {
        // A change that is under way may have taken them away.
        if !self.change.is_settled() {
            return;
        }
        let context = &self.context;
        for router in lost {
            match self.slow_paths.lose(&context.instance, &context.kept, &router) {
                Ok(false) => {}
                Ok(true) => {
                    let what = "the network namespace of its slow path is gone";
                    context.events.warn("router", &router, "Drifted", what);
                }
                Err(error) => context.events.warn("router", &router, "Failed", error.to_string()),
            }
        }
        self.reconcile();
    }

    /// Makes uplinks whole after another program has removed a part of them.
    pub(crate) fn mend_uplinks(&mut self, lost: &str) {
        if self.change.is_settled() && self.slow_paths.uplinks().lose() {
            self.context.events.warn("node", "", "Drifted", format!("{lost}: gone"));
            self.reconcile();
        }
    }

    /// Starts programs of slow paths, and has others read their files again. Returns how many
    /// answers of [`Node::reloaded`] follow.
    pub(super) fn start_slow_paths(&mut self, ticket: Ticket) -> Result<usize, NodeError> {
        let context = &self.context;
        let (kept, cgroups, events) = (&context.kept, &context.cgroups, &context.events);
        let reloads = self.slow_paths.start(&context.instance, kept, cgroups, events)?;
        let count = reloads.len();
        for reloads in reloads {
            let (control, name) = (context.control.clone(), reloads.router().to_owned());
            let run = move || {
                let outcome = reloads.run();
                control.tell(move |node| node.reloaded(ticket, &name, outcome));
            };
            let thread = std::thread::Builder::new().name("reload".into());
            thread.spawn(run).doing("reloading programs")?;
        }
        Ok(count)
    }

    /// Reads which programs of a router have read their files again, or why one has not.
    fn reloaded(&mut self, ticket: Ticket, router: &str, outcome: Reloaded) {
        let context = &self.context;
        let outcome = self.slow_paths.reloaded(&context.kept, router, outcome);
        match &outcome {
            Ok(names) => context.events.note("router", router, "Reloaded", names.clone()),
            Err(why) => context.events.warn("router", router, "NotReloaded", why.clone()),
        }
        self.change.reloaded(ticket, router, outcome.as_ref().map(drop).map_err(|why| &**why));
    }
}
