//! Tests of the module above.

use super::*;
use crate::message::Gateway;

const PREFIX: (u32, u8) = (0x0a00_0000, 8);

fn route() -> Route<u32> {
    Route { prefix: PREFIX, table: TABLE_MAIN, narrow: false, metric: 0, way: Way::Discard }
}

#[test]
fn a_message_that_is_older_than_a_list_adds_nothing_twice() {
    let mut fib = Fib::new(Outputs { host: 1, discard: 2, errors: 3 }, Vec::new(), Vec::new());
    fib.replace_all([route()].into_iter());
    fib.add(route(), Placement::Front);
    assert!(!fib.remove(route()), "a list is to tell whether another one is left");
    assert_eq!(fib.len(), 0);
    // The mirror trusts a route that was announced once.
    fib.add(route(), Placement::Front);
    assert!(fib.remove(route()));
    assert_eq!(fib.len(), 0);
}

/// Every pending change, a line each.
fn told(fib: &mut Fib<u32>, links: &Links) -> String {
    let mut text = String::new();
    fib.tell(100, links, &HashMap::new(), &mut text);
    text
}

#[test]
fn a_shorter_prefix_of_an_earlier_table_hides_a_longer_one() {
    let mut fib = Fib::new(Outputs { host: 1, discard: 2, errors: 3 }, Vec::new(), Vec::new());
    let links = Links::default();
    let longer = Route { prefix: (0x0a01_0000, 16), ..route() };
    fib.add(longer.clone(), Placement::Front);
    assert_eq!(told(&mut fib, &links), "set 10.1.0.0/16 - 2\n");
    let local = Route { table: TABLE_LOCAL, way: Way::Host, ..route() };
    fib.add(local.clone(), Placement::Front);
    assert_eq!(told(&mut fib, &links), "set 10.0.0.0/8 - 1\nset 10.1.0.0/16 - 1\n");
    fib.remove(local);
    assert_eq!(told(&mut fib, &links), "remove 10.0.0.0/8\nset 10.1.0.0/16 - 2\n");
    // Table `default` comes last.
    fib.remove(longer.clone());
    fib.add(Route { table: TABLE_DEFAULT, ..longer }, Placement::Front);
    assert_eq!(told(&mut fib, &links), "");
    fib.add(route(), Placement::Front);
    assert_eq!(told(&mut fib, &links), "set 10.0.0.0/8 - 2\nset 10.1.0.0/16 - 1\n");
}

#[test]
fn routes_that_depend_on_more_than_the_destination_are_linux_s() {
    let mut fib = Fib::new(Outputs { host: 1, discard: 2, errors: 3 }, Vec::new(), Vec::new());
    fib.add(route(), Placement::Front);
    fib.add(Route { narrow: true, metric: 9, ..route() }, Placement::Front);
    assert_eq!(told(&mut fib, &Links::default()), "set 10.0.0.0/8 - 1\n");
}

#[test]
fn an_ipv6_router_has_an_ipv4_address() {
    let mut fib = Fib::new(Outputs { host: 1, discard: 2, errors: 3 }, Vec::new(), Vec::new());
    let mut links = Links::new(vec!["eth0".into()]);
    let (name, running) = ("eth0".into(), true);
    links.add(crate::message::Link { index: 7, name, running, ..Default::default() });
    let hop = Hop { gateway: Gateway::V6(9), device: 7, weight: 1 };
    fib.add(Route { way: Way::Hops(vec![hop]), ..route() }, Placement::Front);
    assert_eq!(told(&mut fib, &links), "set 10.0.0.0/8 0.0.0.1 0\n");
    assert_eq!(fib.aliases().take_fresh(), [9]);
}

#[test]
fn a_route_with_an_encapsulation_is_never_a_plain_next_hop() {
    let mut fib = Fib::new(Outputs { host: 1, discard: 2, errors: 3 }, Vec::new(), Vec::new());
    let mut links = Links::new(vec!["eth0".into()]);
    let (name, running) = ("eth0".into(), true);
    links.add(crate::message::Link { index: 7, name, running, ..Default::default() });
    let hop = Hop { gateway: Gateway::Own(9), device: 7, weight: 1 };
    let plain = Route { metric: 5, way: Way::Hops(vec![hop]), ..route() };
    fib.add(plain, Placement::Front);
    assert_eq!(told(&mut fib, &links), "set 10.0.0.0/8 0.0.0.9 0\n");
    assert!(!fib.encapsulates());
    let labelled = Route { way: Way::Encapsulated, ..route() };
    fib.add(labelled.clone(), Placement::Front);
    assert_eq!(told(&mut fib, &links), "set 10.0.0.0/8 - 1\n");
    assert!(fib.encapsulates());
    assert!(fib.remove(labelled));
    assert_eq!(told(&mut fib, &links), "set 10.0.0.0/8 0.0.0.9 0\n");
    assert!(!fib.encapsulates());
    // The same by a next hop object, and by a group with such a member.
    fib.add(Route { way: Way::Object(4), ..route() }, Placement::Front);
    let gateway = vec![0, 0, 0, 9];
    let objects = HashMap::from([
        (1, Object::Encapsulated),
        (2, Object::Single { gateway, device: 7 }),
        (4, Object::Group(vec![(2, 1), (1, 1)])),
    ]);
    let mut text = String::new();
    fib.tell(100, &links, &objects, &mut text);
    assert_eq!((text.as_str(), fib.encapsulates()), ("set 10.0.0.0/8 - 1\n", true));
}
