//! The objects of the machine that a slice's owner may name: only those in the slice's `allow`.

use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, word};
use crate::host::Host;
use crate::link::Link;
use crate::port::Port;
use crate::reservation::Reservation;
use crate::router::{Poll, Router, Run};
use crate::source::{At, Place};
use crate::tree::Node;

/// A field that names an object of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Allow {
    /// `binds` of hosts: files of the machine.
    Binds,
    /// `capabilities` of programs of slow paths.
    Capabilities,
    /// `click_file` with an absolute path, or a path that leads upward.
    ClickFile,
    /// `container` of hosts.
    Container,
    /// `cpu` of routers.
    Cpu,
    /// `device` of ports and of hosts' interfaces.
    Device,
    /// `elements` of fast paths: a program of the machine.
    Elements,
    /// `from` of slow paths' files with an absolute path, or a path that leads upward.
    From,
    /// `grants` of routers.
    Grants,
    /// Documents of `kind: host`, whose programs run as the machine's root.
    Host,
    /// `mac` of interfaces on ports.
    Mac,
    /// `match` of interfaces on ports.
    Match,
    /// `namespace` of ports and hosts.
    Namespace,
    /// `object` of XDP programs with an absolute path, or a path that leads upward.
    Object,
    /// `pid` of hosts.
    Pid,
    /// `poll: busy` of routers.
    Poll,
    /// Documents of `kind: port`, and ports that the slice's reservation does not name.
    Port,
    /// `program` of fast paths.
    Program,
    /// `programs` of the slice itself.
    Programs,
    /// `root` of slow paths and hosts: files of the machine.
    Root,
    /// `run: inline` of routers.
    Run,
    /// `tunnel` of links: an address of the node.
    Tunnel,
    /// `uplink` of slow paths.
    Uplink,
}

impl Allow {
    /// All fields.
    const ALL: [Allow; 23] = [
        Allow::Binds,
        Allow::Capabilities,
        Allow::ClickFile,
        Allow::Container,
        Allow::Cpu,
        Allow::Device,
        Allow::Elements,
        Allow::From,
        Allow::Grants,
        Allow::Host,
        Allow::Mac,
        Allow::Match,
        Allow::Namespace,
        Allow::Object,
        Allow::Pid,
        Allow::Poll,
        Allow::Port,
        Allow::Program,
        Allow::Programs,
        Allow::Root,
        Allow::Run,
        Allow::Tunnel,
        Allow::Uplink,
    ];

    /// The word in `allow`, which is the field's name.
    pub fn word(self) -> &'static str {
        match self {
            Allow::Binds => "binds",
            Allow::Capabilities => "capabilities",
            Allow::ClickFile => "click_file",
            Allow::Container => "container",
            Allow::Cpu => "cpu",
            Allow::Device => "device",
            Allow::Elements => "elements",
            Allow::From => "from",
            Allow::Grants => "grants",
            Allow::Host => "host",
            Allow::Mac => "mac",
            Allow::Match => "match",
            Allow::Namespace => "namespace",
            Allow::Object => "object",
            Allow::Pid => "pid",
            Allow::Poll => "poll",
            Allow::Port => "port",
            Allow::Program => "program",
            Allow::Programs => "programs",
            Allow::Root => "root",
            Allow::Run => "run",
            Allow::Tunnel => "tunnel",
            Allow::Uplink => "uplink",
        }
    }
}

impl Decode for Allow {
    fn decode(node: &Node, context: &mut Context) -> Option<Allow> {
        word(
            node,
            context,
            "a field that names something of the machine",
            &Allow::ALL.map(|a| (a.word(), a)),
        )
    }
}

/// Fields of a document that name objects of the machine, with their places.
pub(crate) type Named = Vec<(Allow, Place)>;

fn place<T>(field: &Option<At<T>>) -> Option<Place> {
    field.as_ref().map(|value| value.place)
}

/// The place of a path, if it leads out of the folder of the file that names it.
fn leads_out(path: &Option<At<String>>) -> Option<Place> {
    let path = path.as_ref()?;
    let outside = |part| !matches!(part, Component::Normal(_) | Component::CurDir);
    Path::new(&path.value).components().any(outside).then_some(path.place)
}

/// The machine's objects that a router names. Ports in the slice's reservation are always allowed.
pub(crate) fn of_router(router: &Router, reservation: Option<&Reservation>) -> Named {
    let fast_path = &router.fast_path.value;
    let object = fast_path.xdp.as_ref().and_then(|xdp| Some(xdp.value.file()?.1.clone()));
    let name = router.name.place;
    let single = [
        (Allow::Grants, router.grants.first().map(|grant| grant.place)),
        (Allow::ClickFile, leads_out(&fast_path.click_file)),
        (Allow::Elements, fast_path.elements.as_ref().map(|elements| elements.place)),
        (Allow::Object, leads_out(&object)),
        (Allow::Program, fast_path.program.first().map(|program| program.place)),
        (Allow::Cpu, router.cpu.first().map(|cpu| cpu.place)),
        (Allow::Poll, (router.poll == Poll::Busy).then_some(name)),
        (Allow::Run, (router.run == Run::Inline).then_some(name)),
    ];
    let slow_path = router.slow_path.iter().map(|slow_path| &slow_path.value);
    let in_slow_path = slow_path.flat_map(|slow_path| {
        let files = slow_path.files.iter().map(|file| (Allow::From, leads_out(&file.from)));
        let programs = slow_path
            .run
            .iter()
            .map(|program| (Allow::Capabilities, program.capabilities.first().map(|of| of.place)));
        files.chain(programs).chain([
            (Allow::Uplink, place(&slow_path.uplink)),
            (Allow::Root, place(&slow_path.root)),
        ])
    });
    let on_ports = router.interfaces.0.iter().flat_map(|(_, interface)| {
        let port = interface.port.as_ref();
        let reserved = |port: &str| reservation.is_some_and(|all| all.port(port).is_some());
        let foreign = port.filter(|port| !reserved(port)).map(|port| port.place);
        let standby = interface.standby.as_ref();
        let foreign_standby = standby.filter(|port| !reserved(port)).map(|port| port.place);
        let on_port = |place: Option<Place>| place.filter(|_| port.is_some());
        [
            (Allow::Port, foreign.or(foreign_standby)),
            (Allow::Match, on_port(place(&interface.matches))),
            (Allow::Mac, on_port(place(&interface.mac))),
        ]
    });
    let all = single.into_iter().chain(in_slow_path).chain(on_ports);
    all.filter_map(|(field, place)| Some((field, place?))).collect()
}

/// The objects that a host names.
pub(crate) fn of_host(host: &Host) -> Named {
    let single = [
        (Allow::Host, Some(host.name.place)),
        (Allow::Namespace, place(&host.namespace)),
        (Allow::Pid, place(&host.pid)),
        (Allow::Container, place(&host.container)),
        (Allow::Binds, host.binds.first().map(|bind| bind.place)),
        (Allow::Root, place(&host.root)),
    ];
    let interfaces = host.interfaces.0.iter();
    let devices = interfaces.map(|(_, interface)| (Allow::Device, place(&interface.device)));
    let all = single.into_iter().chain(devices);
    all.filter_map(|(field, place)| Some((field, place?))).collect()
}

/// The objects that a port names.
pub(crate) fn of_port(port: &Port) -> Named {
    let all = [
        (Allow::Port, Some(port.name.place)),
        (Allow::Device, Some(port.device.place)),
        (Allow::Namespace, place(&port.namespace)),
    ];
    all.into_iter().filter_map(|(field, place)| Some((field, place?))).collect()
}

/// The objects that a link names.
pub(crate) fn of_link(link: &Link) -> Named {
    place(&link.tunnel).map(|place| (Allow::Tunnel, place)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_files() {
        for field in Allow::ALL {
            let json = serde_json::to_string(&field).unwrap_or_default();
            assert_eq!(json, format!("{:?}", field.word()));
        }
    }

    #[test]
    fn paths_that_lead_out() {
        for (path, wanted) in
            [("a.click", false), ("./d/a", false), ("/etc/shadow", true), ("a/../../b", true)]
        {
            let place = Place::default();
            let found = leads_out(&Some(At { value: path.to_owned(), place }));
            assert_eq!(found.is_some(), wanted, "{path}");
        }
    }
}
