//! Adds or removes one port or router, while all others continue.

use std::collections::HashSet;
use std::sync::Arc;

use europa_api::{Fault, Key};
use europa_control::Stop;
use europa_plan::wires::is_wire;
use europa_plan::{InterfacePlan, RouterPlan};
use europa_substrate::Substrate;
use europa_switch::orders::Order;

use super::Node;
use super::tunnels::{PATIENCE, encap};
use crate::leftovers::Noted;
use crate::placement;
use crate::ports::{Port, can_ask};
use crate::router::{Router, wake_name};
use crate::switch::{Lasting, unless_gone};
use crate::{NodeError, capture, grants, leftovers, wires};

impl Node {
    /// Opens the substrate when it is needed for the first time.
    pub(super) fn substrate_opened(&mut self) -> Result<&mut Substrate, NodeError> {
        if self.substrate.is_none() {
            self.begin_with(Substrate::open(&self.instance.pins())?)?;
        }
        self.substrate.as_mut().ok_or_else(|| NodeError::Refused("this node is not up".into()))
    }

    /// Works with this substrate from now on.
    pub(super) fn begin_with(&mut self, substrate: Substrate) -> Result<(), NodeError> {
        if self.lasting.is_none() {
            self.lasting = Some(Lasting::open(&self.kept, self.settings.workers)?);
        }
        placement::watch(substrate.receivers()?, self.cores.clone(), self.control.clone())?;
        self.substrate = Some(substrate);
        Ok(())
    }

    /// Writes down the ports, and the changes on their devices.
    pub(super) fn note_ports(&self) -> Result<(), NodeError> {
        self.note_ports_and(None)
    }

    /// The same, with a device that is about to be changed, as this node may be killed during the
    /// change.
    fn note_ports_and(&self, before: Option<Noted>) -> Result<(), NodeError> {
        let ports: Vec<_> = self.ports.iter().map(Port::noted).chain(before).collect();
        leftovers::note(&self.instance, &ports)
    }

    /// Opens a port. Making its device fit takes the kernel milliseconds.
    pub(super) fn open_port(&mut self, document: &europa_api::Port) -> Result<(), Stop> {
        self.substrate_opened()?;
        let purpose = self.purpose(&*document.name.value);
        let undo = |port: Port| drop(port.undo.undo());
        let opened = match self.port_work.result(&purpose, undo) {
            Ok(None) => {
                let unused = |id: &u32| !self.ports.iter().any(|port| port.id == *id);
                let id = (1..).find(unused).unwrap_or(1);
                let is_wire = is_wire(&document.name.value);
                if !is_wire {
                    self.note_ports_and(Some(Port::before(document)?))?;
                }
                let (document, asks) = (document.clone(), can_ask(self.substrate()?));
                let instance = self.instance.clone();
                let work = move || {
                    if is_wire {
                        wires::make(&instance, &document)?;
                    }
                    Port::open(id, &document, asks)
                };
                return Err(self.begin_work(|node| &mut node.port_work, purpose, work));
            }
            Ok(Some(port)) => {
                self.ports.push(port);
                Ok(())
            }
            Err(Stop::NotNow(why)) => return Err(Stop::NotNow(why)),
            Err(failed) => Err(failed),
        };
        self.note_ports()?;
        opened?;
        Ok(self.attach_last_port()?)
    }

    /// Attaches the port that was opened last.
    fn attach_last_port(&mut self) -> Result<(), NodeError> {
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
            unless_gone(told)?;
        }
        let name = self.ports.last().map(|port| port.name.clone()).unwrap_or_default();
        self.connect(&name)
    }

    /// Connects a reopened port to the interfaces that remained without it.
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
                        Some(switch) => unless_gone(self.tell_interface(switch, router, id)),
                        None => Ok(()),
                    }),
            );
        }
        self.switch = switch;
        connected
    }

    /// Disconnects a port that is removed from the interfaces that stay. Packets of their routers
    /// wait.
    fn disconnect(&mut self, port: &str) -> Result<(), NodeError> {
        let attachment = self.ports.iter().find(|other| other.name == *port);
        let Some(attachment) = attachment.and_then(|port| port.attachment.as_ref()) else {
            return Ok(());
        };
        let mut switch = self.switch.take();
        let mut disconnected = Ok(());
        for (_, interface, id) in self.on_port(port) {
            if let Some(switch) = &mut switch {
                // A switch that has just ended does not get the order.
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
        all.filter(move |(_, interface, _)| interface.to.is_port(port))
    }

    /// Changes an open port's settings, except its device.
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

    /// Restores a device to its owner.
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
            // A switch that has just ended does not get the order.
            let _ = switch.order(&Order::RemovePort { port: port.id }, &[]);
        }
        if is_wire(name) {
            self.note_ports()?;
            return wires::remove(&self.instance, &port.document);
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

    /// Passes the present objects to captures, if they differ, and no further step is about to
    /// change them.
    pub(super) fn follow_scene(&mut self) {
        if self.scene_is_old && !self.engine.has_steps() {
            self.show_scene();
        }
    }

    /// Passes the present objects to captures.
    pub(super) fn show_scene(&mut self) {
        self.scene_is_old = false;
        if let Some(lasting) = &self.lasting {
            let scene = capture::scene(&self.documents, &self.ports, &self.routers);
            self.captures.know(scene, &lasting.taps);
        }
    }

    /// The smallest number that no router has.
    pub(super) fn free_number(&self) -> u32 {
        let taken: HashSet<u32> = self.routers.iter().map(|router| router.number).collect();
        (0..).find(|number| !taken.contains(number)).unwrap_or(0)
    }

    /// Makes a router's pool, interfaces and process; it becomes ready later.
    pub(super) fn add_router(&mut self, plan: Arc<RouterPlan>) -> Result<(), NodeError> {
        let name = plan.name.clone();
        let added = self.try_add_router(plan);
        if added.is_err() {
            let _ = self.remove_router(&name);
        }
        added
    }

    fn try_add_router(&mut self, plan: Arc<RouterPlan>) -> Result<(), NodeError> {
        self.open_far_ends(&plan)?;
        let group = if plan.is_inline() { None } else { self.router_group(&plan.name) };
        let number = self.free_number();
        let wake = self.kept.new_bell(&wake_name(number))?;
        let mut router = Router::new(number, plan, group, wake)?;
        for interface in &mut router.plan.interfaces {
            let Some(name) = interface.to.port() else { continue };
            if let (Some(tunnel), Some(port)) =
                (interface.tunnel, self.ports.iter().find(|port| port.name == **name))
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
        if let Some(begun) = &mut self.switch_begun {
            begun.come.insert(router.plan.name.clone());
        }
        self.routers.push(router);
        let index = self.routers.len() - 1;
        let Some(router) = self.routers.get_mut(index) else { return Ok(()) };
        let substrate = self.substrate.as_ref();
        let substrate =
            substrate.ok_or_else(|| NodeError::Refused("this node is not up".into()))?;
        let entered: Result<(), NodeError> =
            router.plan.interfaces.iter().try_for_each(|interface| {
                let port = interface.to.port();
                let port = port.and_then(|name| self.ports.iter().find(|port| port.name == **name));
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
        for (from, relay) in router.relays() {
            substrate.set_relay(from, relay);
        }
        if let Some(mut switch) = self.switch.take() {
            let told = match self.routers.get(index) {
                Some(router) => self
                    .tell_pool(&mut switch, router)
                    .and_then(|()| self.tell_interfaces(&mut switch, router))
                    .and_then(|()| self.tell_peers(&mut switch, &router.plan.name)),
                None => Ok(()),
            };
            self.switch = Some(switch);
            unless_gone(told)?;
        }
        self.begin_router(index)
    }

    /// Ends a router and frees all its resources.
    pub(super) fn remove_router(&mut self, name: &str) -> Result<(), NodeError> {
        let Some(place) = self.routers.iter().position(|router| router.plan.name == name) else {
            return Ok(());
        };
        let mut router = self.routers.remove(place);
        let removed = self.take_away(&mut router);
        if let Err(error) = removed {
            // The rest of it is removed with the next change, or the next look.
            router.half = true;
            router.due = None;
            router.last_end = format!("its removal failed: {error}");
            self.routers.insert(place, router);
            return Err(error);
        }
        self.events.note("router", name, "Removed", "it has ended");
        Ok(())
    }

    /// Ends a router and frees the resources that it still has.
    fn take_away(&mut self, router: &mut Router) -> Result<(), NodeError> {
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
            self.tell_of_loss(&mut switch, router);
            self.switch = Some(switch);
        }
        for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
            if interface.to.far().is_some() {
                self.link_tunnels.remove(self.switch.as_mut(), *id);
            }
        }
        let pool = router.pool.take().map(|pool| {
            let forgotten = self.switch.as_mut().is_some_and(|s| s.forget_pool(pool.id));
            (pool, forgotten)
        });
        if let Some(substrate) = &self.substrate {
            // From the last one on, so that none is removed twice.
            while let Some(id) = router.interfaces.last().copied()
                && let Some(interface) = router.plan.interfaces.get(router.interfaces.len() - 1)
            {
                let port = interface.to.port();
                let port = port.and_then(|name| self.ports.iter().find(|port| port.name == **name));
                let attachment = port.and_then(|port| port.attachment.as_ref());
                substrate.remove_interface(id, &interface.spec, attachment)?;
                router.interfaces.pop();
            }
        }
        if let Some((pool, forgotten)) = pool {
            self.free_pool(pool, forgotten)?;
        }
        if let Some(group) = &router.group
            && let Err(error) = group.remove()
        {
            tracing::warn!("router {}: {error}", router.plan.name);
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
        Ok(())
    }
}
