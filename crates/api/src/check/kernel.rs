//! Checks routers whose XDP program runs in the kernel.

use crate::documents::Documents;
use crate::port::Receive;
use crate::problem::Problem;
use crate::router::{Router, Run};
use crate::slice::Programs;

/// Reports missing settings of a kernel router, and settings that it cannot have.
pub(super) fn kernel(router: &Router, documents: &Documents, problems: &mut Vec<Problem>) {
    let fast_path = &router.fast_path;
    let xdp = fast_path.xdp.as_ref();
    if router.run != Run::Kernel {
        if let Some(xdp) = xdp {
            problems.push(
                Problem::new(xdp.place, "`xdp:` is for routers that run in the kernel")
                    .label("this one has a process of its own")
                    .help(
                        "say `run: kernel`, or `click:` with the element XDP, which runs the \
                         program in the router's process",
                    ),
            );
        }
        return;
    }
    let Some(xdp) = xdp else {
        problems.push(
            Problem::new(fast_path.place, "a router that runs in the kernel has an XDP program")
                .label("this is none")
                .help("say `fast_path: {xdp: {source: program.c}}`, or leave `run` out"),
        );
        return;
    };
    let routes = fast_path.routes.first().map(|route| route.place);
    let first = routes.or_else(|| fast_path.neighbours.first().map(|neighbour| neighbour.place));
    if let Some(place) = first.filter(|_| router.slow_path.is_none()) {
        problems.push(
            Problem::new(place, "routes and neighbours of a kernel router are its slow path's")
                .label("there is no slow path")
                .help("add `slow_path: {}` to the router"),
        );
    }
    let slice = documents.slices.iter().find(|slice| slice.name == router.slice);
    if let Some(slice) = slice.filter(|slice| slice.programs == Programs::None) {
        problems.push(
            Problem::new(xdp.place, "the slice's programs do not run in the kernel")
                .label("this one would")
                .also(slice.name.place, "the slice says nothing of `programs`")
                .help(
                    "say `programs: operator` or `programs: tenant` in the slice: docs/xdp.md has \
                     what each allows",
                ),
        );
    }
    for (_, interface) in &router.interfaces.0 {
        let Some(name) = &interface.port else { continue };
        let port = documents.ports.iter().find(|port| port.name == *name);
        if let Some(port) = port.filter(|port| port.receive == Receive::Tc) {
            problems.push(
                Problem::new(name.place, "a kernel router's port receives by XDP")
                    .label("this one receives by tc")
                    .also(port.name.place, "the port says `receive: tc`")
                    .help("leave `receive` out of the port"),
            );
        }
    }
}
