//! One port or router added or removed, while all others go on.

use std::collections::HashSet;

use europa_api::{Fault, Key};
use europa_substrate::Substrate;
use europa_switch::orders::Order;

use super::Node;
use super::apply::Job;
use super::tunnels::{PATIENCE, encap};
use crate::leftovers::Noted;
use crate::placement;
use crate::plan::{InterfacePlan, RouterPlan, To};
use crate::ports::Port;
use crate::router::{Router, wake_name};
use crate::switch::Lasting;
use crate::{NodeError, capture, grants, leftovers};

impl Node {
    /// Opens the substrate when it is needed for the first time.
    pub(super) fn substrate_opened(&mut self) -> Result<&mut Substrate, NodeError> {
        if self.substrate.is_none() {
            let substrate = Substrate::open(&self.instance.pins())?;
            self.lasting = Some(Lasting::open(&self.kept, self.settings.workers)?);
            self.begin_with(substrate)?;
        }
        self.substrate.as_mut().ok_or_else(|| NodeError::Refused("this node is not up".into()))
    }

    /// Works with this substrate from now on.
    pub(super) fn begin_with(&mut self, substrate: Substrate) -> Result<(), NodeError> {
        placement::watch(substrate.receivers()?, self.cores.clone(), self.control.clone())?;
        self.substrate = Some(substrate);
        Ok(())
    }

    /// Writes down what the ports are, and what was changed on their devices.
    pub(super) fn note_ports(&self) -> Result<(), NodeError> {
        self.note_ports_and(None)
    }

    /// The same, with a device that is about to be changed: this node may be killed meanwhile.
    fn note_ports_and(&self, before: Option<Noted>) -> Result<(), NodeError> {
        let ports: Vec<_> = self.ports.iter().map(Port::noted).chain(before).collect();
        leftovers::note(&self.instance, &ports)
    }

    pub(super) fn open_port(&mut self, document: &europa_api::Port) -> Result<(), NodeError> {
        self.substrate_opened()?;
        let id = (1..).find(|id| !self.ports.iter().any(|port| port.id == *id)).unwrap_or(1);
        self.note_ports_and(Some(Port::before(document)?))?;
        let opened = Port::open(id, document, self.substrate()?);
        let opened = opened.map(|port| self.ports.push(port));
        self.note_ports()?;
        opened?;
        let Some(port) = self.ports.last_mut() else { return Ok(()) };
        if let Some(substrate) = &mut self.substrate
            && let Err(error) = port.attach(substrate)
        {
            if let Some(port) = self.ports.pop() {
                let _ = port.undo.undo();
            }
            self.note_ports()?;
            return Err(error);
        }
        for limitation in &port.limitations {
            tracing::warn!("port {}: {limitation}", port.name);
        }
        let message = format!("{} ({}), MTU {}", port.device.name, port.device.kind, port.mtu);
        self.events.note("port", &port.name, "Attached", message);
        if let (Some(mut switch), Some(port)) = (self.switch.take(), self.ports.last()) {
            let told = self.tell_port(&mut switch, port);
            self.switch = Some(switch);
            told?;
        }
        self.connect(&document.name)
    }

    /// Gives a port that was opened again to the interfaces that stayed without it.
    fn connect(&mut self, port: &str) -> Result<(), NodeError> {
        let attachment = self.ports.iter().find(|other| other.name == *port);
        let Some(attachment) = attachment.and_then(|port| port.attachment.as_ref()) else {
            return Ok(());
        };
        let mut switch = self.switch.take();
        let mut connected = Ok(());
        for (router, interface, id) in self.on_port(port) {
            connected = connected.and(
                self.substrate()
                    .and_then(|s| Ok(s.connect(id, &interface.spec, attachment)?))
                    .and_then(|()| match &mut switch {
                        Some(switch) => self.tell_interface(switch, router, id),
                        None => Ok(()),
                    }),
            );
        }
        self.switch = switch;
        connected
    }

    /// Takes a port that goes from the interfaces that stay. What their routers send waits.
    fn disconnect(&mut self, port: &str) -> Result<(), NodeError> {
        let attachment = self.ports.iter().find(|other| other.name == *port);
        let Some(attachment) = attachment.and_then(|port| port.attachment.as_ref()) else {
            return Ok(());
        };
        let mut switch = self.switch.take();
        let mut disconnected = Ok(());
        for (_, interface, id) in self.on_port(port) {
            if let Some(switch) = &mut switch {
                // A switch that has just ended never learns of it.
                let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
            }
            let done =
                self.substrate().and_then(|s| Ok(s.disconnect(id, &interface.spec, attachment)?));
            disconnected = disconnected.and(done);
        }
        self.switch = switch;
        disconnected
    }

    /// Routers' interfaces on a port, with their numbers.
    fn on_port(&self, port: &str) -> impl Iterator<Item = (&Router, &InterfacePlan, u32)> {
        let all = self.routers.iter().flat_map(|router| {
            let ids = router.plan.interfaces.iter().zip(&router.interfaces);
            ids.map(move |(interface, id)| (router, interface, *id))
        });
        all.filter(move |(_, interface, _)| matches!(&interface.to, To::Port(to) if *to == *port))
    }

    /// Changes what an open port's document says beside its device.
    pub(super) fn change_port(&mut self, document: &europa_api::Port) -> Result<(), NodeError> {
        let Some(port) = self.ports.iter_mut().find(|port| port.is(document)) else {
            return Ok(());
        };
        port.change(document)?;
        if let Some(switch) = &mut self.switch {
            // A switch that has just ended learns of it when it starts.
            let _ = switch.order(&Order::Rate { port: port.id, rate_bits: port.rate_bits }, &[]);
        }
        self.events.note("port", &port.name, "Changed", format!("MTU {}", port.mtu));
        self.note_ports()
    }

    /// Gives a device back.
    pub(super) fn close_port(&mut self, name: &str) -> Result<(), NodeError> {
        self.disconnect(name)?;
        let Some(place) = self.ports.iter().position(|port| port.name == name) else {
            return Ok(());
        };
        let mut port = self.ports.remove(place);
        if let (Some(substrate), Some(attachment)) = (&self.substrate, port.attachment.take()) {
            substrate.detach_port(attachment)?;
        }
        if let Some(switch) = &mut self.switch {
            // A switch that has just ended never learns of it.
            let _ = switch.order(&Order::RemovePort { port: port.id }, &[]);
        }
        if let Err(error) = port.undo.undo() {
            self.events.warn("port", name, "NotPutBack", error.to_string());
        }
        self.note_ports()?;
        self.events.note(
            "port",
            name,
            "Detached",
            format!("{} is Linux's again", port.device.name),
        );
        Ok(())
    }

    /// Tells captures what there is now, if it differs, and no further step is about to change it.
    pub(super) fn follow_scene(&mut self) {
        if self.scene_is_old && !self.job.as_ref().is_some_and(Job::has_steps) {
            self.show_scene();
        }
    }

    /// Tells captures what there is now.
    pub(super) fn show_scene(&mut self) {
        self.scene_is_old = false;
        if let Some(lasting) = &self.lasting {
            let scene = capture::scene(&self.desired.documents, &self.ports, &self.routers);
            self.captures.know(scene, &lasting.taps);
        }
    }

    /// The smallest number that no router has.
    pub(super) fn free_number(&self) -> u32 {
        let taken: HashSet<u32> = self.routers.iter().map(|router| router.number).collect();
        (0..).find(|number| !taken.contains(number)).unwrap_or(0)
    }

    /// Makes a router's pool, interfaces and process; it becomes ready later.
    pub(super) fn add_router(&mut self, plan: RouterPlan) -> Result<(), NodeError> {
        let name = plan.name.clone();
        let added = self.try_add_router(plan);
        if added.is_err() {
            let _ = self.remove_router(&name);
        }
        added
    }

    fn try_add_router(&mut self, plan: RouterPlan) -> Result<(), NodeError> {
        let group = if plan.inline.is_some() { None } else { self.router_group(&plan.name) };
        let number = self.free_number();
        let wake = self.kept.new_bell(&wake_name(number))?;
        let mut router = Router::new(number, plan, group, wake)?;
        for interface in &mut router.plan.interfaces {
            let To::Port(name) = &interface.to else { continue };
            if let (Some(tunnel), Some(port)) =
                (interface.tunnel, self.ports.iter().find(|port| port.name == *name))
            {
                interface.spec.encap = encap(port, tunnel, PATIENCE).map_err(|error| {
                    let why = format!("interface {}: {error}", interface.name);
                    let path = ["interfaces", &interface.name, "match", "vxlan", "remote"];
                    Fault::new(Key::new("router", &*router.plan.name), &path, why)
                })?;
            }
        }
        let pool = self.take_pool(router.plan.geometry)?;
        pool.name_interfaces(&router.plan.rows())?;
        self.routers.push(router);
        let index = self.routers.len() - 1;
        let Some(router) = self.routers.get_mut(index) else { return Ok(()) };
        let substrate = self.substrate.as_ref();
        let substrate =
            substrate.ok_or_else(|| NodeError::Refused("this node is not up".into()))?;
        let entered: Result<(), NodeError> =
            router.plan.interfaces.iter().try_for_each(|interface| {
                let port = match &interface.to {
                    To::Port(name) => self.ports.iter().find(|port| port.name == *name),
                    To::Link { .. } => None,
                };
                let attachment = port.and_then(|port| port.attachment.as_ref());
                let id = substrate.add_interface(&interface.spec, attachment, &pool).map_err(
                    |error| {
                        let why = format!("interface {}: {error}", interface.name);
                        let path = ["interfaces", &interface.name, "match"];
                        Fault::new(Key::new("router", &*router.plan.name), &path, why)
                    },
                )?;
                router.interfaces.push(id);
                Ok(())
            });
        router.pool = Some(pool);
        entered?;
        if let Some(mut switch) = self.switch.take() {
            let told = match self.routers.get(index) {
                Some(router) => self
                    .tell_pool(&mut switch, router)
                    .and_then(|()| self.tell_interfaces(&mut switch, router))
                    .and_then(|()| self.tell_peers(&mut switch, &router.plan.name)),
                None => Ok(()),
            };
            self.switch = Some(switch);
            told?;
        }
        self.begin_router(index)
    }

    /// Ends a router and frees all that it had.
    pub(super) fn remove_router(&mut self, name: &str) -> Result<(), NodeError> {
        let Some(place) = self.routers.iter().position(|router| router.plan.name == name) else {
            return Ok(());
        };
        let mut router = self.routers.remove(place);
        if let Some(successor) = router.successor.take() {
            self.discard(successor, "it is removed");
        }
        if let Some(substrate) = &self.substrate {
            for id in &router.interfaces {
                substrate.halt_interface(*id);
            }
        }
        if let Some(mut process) = router.process.take() {
            process.body.kill()?;
            process.body.wait()?;
            process.forget(&self.kept);
            process.disappoint("it is removed");
        }
        drop(std::mem::take(&mut router.granted));
        grants::clear(&router.plan.grants);
        if let Some(mut switch) = self.switch.take() {
            self.tell_of_loss(&mut switch, &router);
            self.switch = Some(switch);
        }
        let pool = router.pool.take().map(|pool| {
            let forgotten = self.switch.as_mut().is_some_and(|s| s.forget_pool(pool.id));
            (pool, forgotten)
        });
        if let Some(substrate) = &self.substrate {
            for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
                let port = match &interface.to {
                    To::Port(name) => self.ports.iter().find(|port| port.name == *name),
                    To::Link { .. } => None,
                };
                let attachment = port.and_then(|port| port.attachment.as_ref());
                substrate.remove_interface(*id, &interface.spec, attachment)?;
            }
        }
        if let Some((pool, forgotten)) = pool {
            self.free_pool(pool, forgotten)?;
        }
        if let Some(group) = &router.group
            && let Err(error) = group.remove()
        {
            tracing::warn!("router {name}: {error}");
        }
        let geometry = router.plan.geometry;
        if !self.routers.iter().any(|router| router.plan.geometry == geometry)
            && let Some(substrate) = &self.substrate
        {
            for pool in self.stock.extract_if(.., |pool| pool.layout.geometry == geometry) {
                substrate.retire_pool(&pool)?;
                substrate.delete_pool(pool)?;
            }
        }
        self.events.note("router", name, "Removed", "it has ended");
        Ok(())
    }
}
