//! LSPs that begin here.

use crate::config::jitter;
use crate::demand::Demand;
use crate::fields::PathBody;
use crate::id::LspKey;
use crate::input::Tunnel;
use crate::lsp::{Downstream, Upstream};
use crate::output::Event;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{Adspec, Cause, ErrorSpec, Float, LabelRequest, RecordRoute, Tspec};
use crate::world::World;

impl Signaller {
    fn head_fails(&mut self, lsp: LspKey, cause: Cause) {
        let error = ErrorSpec { node: self.config.router, flags: 0, cause };
        self.event(Event::PathError { lsp, error });
    }

    pub(crate) fn create(&mut self, world: &mut dyn World, tunnel: Tunnel) {
        let Tunnel { lsp, tspec, attribute, route, is_recorded, protocol } = tunnel;
        let mtu = self.config.interfaces.iter().map(|interface| interface.mtu).max().unwrap_or(0);
        let path = PathBody {
            request: LabelRequest { protocol },
            route: (!route.0.is_empty()).then_some(route),
            attribute: Some(attribute),
            tspec,
            adspec: Some(Adspec::new(Float::from(f32::INFINITY), mtu)),
            record: is_recorded.then(RecordRoute::default),
            others: Vec::new(),
        };
        if self.lsps.contains_key(&lsp) {
            self.head_fails(lsp, Cause::POLICY);
            return;
        }
        if let Err(cause) = self.check_head(&lsp, &path) {
            self.head_fails(lsp, cause);
            return;
        }
        self.install_path(world, lsp, Upstream::Head, Downstream::Nowhere, path, None);
        self.find_way(world, lsp);
    }

    fn check_head(&self, lsp: &LspKey, path: &PathBody) -> Result<(), Cause> {
        let (setup, hold) = path.priorities();
        // RFC 3209, section 4.7.3: hold is never weaker than setup.
        if setup > 7 || hold > setup {
            return Err(Cause::POLICY);
        }
        if self.config.is_own(lsp.session.destination) {
            return Err(Cause::BAD_ROUTE);
        }
        if self.lsps.len() >= self.config.limits.lsps {
            return Err(Cause::TRAFFIC_CONTROL);
        }
        Demand::of_tspec(&path.tspec).map(|_| ()).map_err(|_| Cause::BAD_TSPEC)
    }

    /// Finds a path from this head, and sends the Path message along it.
    pub(crate) fn find_way(&mut self, world: &mut dyn World, key: LspKey) {
        let Some(lsp) = self.lsps.get(&key).filter(|lsp| lsp.upstream == Upstream::Head) else {
            return;
        };
        let path = lsp.path.clone();
        let is_moved = lsp.resv.is_none();
        let result = self.resolve(world, &key, &path, true).and_then(|(downstream, _)| {
            // An LSP that is up has its reservation.
            if is_moved {
                self.check_room(world, &key, &path, downstream)?;
            }
            Ok(downstream)
        });
        match result {
            Ok(downstream) => {
                self.install_path(world, key, Upstream::Head, downstream, path, None);
                self.send_path(world, key, false);
            }
            Err(cause) => {
                self.head_fails(key, cause);
                let wait = jitter(&mut self.random, self.config.refresh);
                self.timers.set(Timer::PathRefresh(key), self.now + wait);
            }
        }
    }

    pub(crate) fn change(&mut self, world: &mut dyn World, key: LspKey, tspec: Tspec) {
        let Some(lsp) = self.lsps.get(&key).filter(|lsp| lsp.upstream == Upstream::Head) else {
            return;
        };
        let mut path = lsp.path.clone();
        let downstream = lsp.downstream;
        path.tspec = tspec;
        let result = self
            .check_head_change(&path)
            .and_then(|()| self.check_room(world, &key, &path, downstream));
        match result {
            Ok(()) => {
                if let Some(lsp) = self.lsps.get_mut(&key) {
                    lsp.path = path;
                }
                self.send_path(world, key, false);
            }
            Err(cause) => self.head_fails(key, cause),
        }
    }

    fn check_head_change(&self, path: &PathBody) -> Result<(), Cause> {
        Demand::of_tspec(&path.tspec).map(|_| ()).map_err(|_| Cause::BAD_TSPEC)
    }

    pub(crate) fn delete(&mut self, world: &mut dyn World, key: LspKey) {
        if self.lsps.get(&key).is_some_and(|lsp| lsp.upstream == Upstream::Head) {
            // A caller that deletes the LSP needs no notification.
            if let Some(lsp) = self.lsps.get_mut(&key) {
                lsp.is_up = false;
            }
            self.remove_lsp(world, key, true);
        }
    }

    /// RFC 2205, section 3.6: local repair. LSPs whose next hop follows the routes move with them.
    pub(crate) fn routes_changed(&mut self, world: &mut dyn World) {
        let all: Vec<LspKey> = self.lsps.keys().copied().collect();
        for key in all {
            let Some(lsp) = self.lsps.get(&key) else { continue };
            let is_head = lsp.upstream == Upstream::Head;
            let Ok((downstream, _)) = self.resolve(world, &key, &lsp.path, is_head) else {
                continue;
            };
            if downstream == lsp.downstream || downstream == Downstream::Tail {
                continue;
            }
            if downstream.via().is_some() && downstream.via() == lsp.upstream.via() {
                continue;
            }
            let (upstream, path) = (lsp.upstream, lsp.path.clone());
            if let Err(cause) = self.check_room(world, &key, &path, downstream) {
                self.path_fails(key, cause);
                continue;
            }
            self.install_path(world, key, upstream, downstream, path, None);
            self.send_path(world, key, false);
        }
    }
}
