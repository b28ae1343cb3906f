//! Room for queues: all queues of a port must fit into the switch's tree for that port.

use std::collections::{BTreeMap, HashSet};

use europa_queue::PORT_NODES;

use crate::documents::Documents;
use crate::interface::Interface;
use crate::problem::Problem;
use crate::router::Router;
use crate::source::Place;

/// The present count of a port.
#[derive(Default)]
struct Count<'d> {
    slices: HashSet<&'d str>,
    nodes: u64,
    /// The first object for which there is no room.
    first_beyond: Option<Place>,
}

impl Count<'_> {
    fn add(&mut self, place: Place) {
        self.nodes += 1;
        // The port's scheduler takes one node.
        if self.nodes + 1 > u64::from(PORT_NODES) {
            self.first_beyond.get_or_insert(place);
        }
    }
}

/// Checks that slices, routers and queues of each port do not exceed the switch's nodes. The switch
/// would refuse all queues of the port, and its interfaces would wait forever.
pub(super) fn queues(documents: &Documents, problems: &mut Vec<Problem>) {
    let mut ports: BTreeMap<&str, Count<'_>> = BTreeMap::new();
    for router in &documents.routers {
        count(router, &mut ports);
    }
    for (port, count) in ports {
        let Some(place) = count.first_beyond else { continue };
        let most = PORT_NODES - 1;
        problems.push(
            Problem::new(
                place,
                format!(
                    "port {port:?} has room for {most} slices, routers and queues together, not {}",
                    count.nodes
                ),
            )
            .label("the first too many")
            .help(
                "on a port, each slice counts as one, each router, each of its interfaces' own \
                 queues and each of their numbered `queues`; use fewer, or another port",
            ),
        );
    }
}

/// Adds the nodes of a router to those of its ports.
fn count<'d>(router: &'d Router, ports: &mut BTreeMap<&'d str, Count<'d>>) {
    let mut own: HashSet<&str> = HashSet::new();
    for (name, interface) in &router.interfaces.0 {
        let Some(port) = &interface.port else { continue };
        let port: &str = port;
        let count = ports.entry(port).or_default();
        if count.slices.insert(&router.slice) {
            count.add(router.slice.place);
        }
        if own.insert(port) {
            count.add(router.name.place);
        }
        // An interface always has its own queue 0, even if the document does not list it.
        count.add(name.place);
        numbered(interface).for_each(|place| count.add(place));
    }
}

fn numbered(interface: &Interface) -> impl Iterator<Item = Place> {
    interface.queues.0.iter().filter(|(number, _)| number.0 != 0).map(|(number, _)| number.place)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::{Source, parse};

    /// Makes documents in which a port has these nodes: the scheduler, and for each slice one node
    /// for itself, a router, an interface's own queue, and the given number of other queues. Queue
    /// 0 is the interface's own.
    fn problems(queues: &[u32]) -> Vec<String> {
        let mut text = "kind: port\nname: p\ndevice: d\n".to_owned();
        for (index, queues) in queues.iter().enumerate() {
            let numbers: Vec<String> =
                (0..=*queues).map(|number| format!("{number}: {{}}")).collect();
            write!(
                text,
                "---\nkind: slice\nname: s{index}\n---\nkind: router\nname: r\nslice: s{index}\n\
                 fast_path: {{click: Idle}}\ninterfaces:\n  i:\n    port: p\n    \
                 queues: {{{}}}\n",
                numbers.join(", ")
            )
            .expect("a text");
        }
        let source = Source { path: "t.yaml".into(), text };
        match parse(&[source]) {
            Ok(_) => Vec::new(),
            Err(problems) => {
                problems.iter().map(|p| format!("{}: {p}", p.line_column().0)).collect()
            }
        }
    }

    #[test]
    fn a_port_has_room_for_so_many_and_not_one_more() {
        // Three slices with three nodes each in addition to their queues, and the scheduler.
        let queues = PORT_NODES - 10;
        let [first, second] = [65_535, 65_535];
        let last = queues - first - second;
        assert_eq!(problems(&[first, second, last]), [""; 0]);
        let found = problems(&[first, second, last + 1]);
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert!(only.contains("room for 135167 slices, routers and queues"), "{only}");
        assert!(only.contains("not 135168"), "{only}");
    }
}
