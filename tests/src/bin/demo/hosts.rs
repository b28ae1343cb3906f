//! Four hosts, two bridges, and the namespace of the node between them.
//!
//! ```text
//!   red-a  10.0.1.2 ─┐                                          ┌─ 10.0.2.2  red-b
//!                  left ─ eu-left ─── node ─── eu-right ─ right
//!   blue-a 10.0.1.2 ─┘                                          └─ 10.0.2.2  blue-b
//! ```

use europa_tests::{Error, Lab, Namespace};

/// The two hosts of a tenant.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: &'static str,
    pub(crate) a: Namespace,
    pub(crate) b: Namespace,
}

/// Everything outside the node.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) node: Namespace,
    pub(crate) red: Tenant,
    pub(crate) blue: Tenant,
    /// The reason why the bridges do not separate the tenants' ARP; hosts then have static
    /// neighbours.
    pub(crate) no_fence: Option<String>,
    /// Removes the namespaces and devices when dropped.
    _lab: Lab,
}

/// One side of the node: its bridge, its hosts, and the routers' addresses towards them.
struct Side {
    bridge: &'static str,
    device: &'static str,
    number: u8,
    letter: char,
}

const SIDES: [Side; 2] = [
    Side { bridge: "left", device: "eu-left", number: 1, letter: 'a' },
    Side { bridge: "right", device: "eu-right", number: 2, letter: 'b' },
];

impl Hosts {
    /// Makes the hosts, the bridges, and the node's namespace.
    pub(crate) fn new() -> Result<Hosts, Error> {
        let mut lab = Lab::new()?;
        let node = lab.namespace("node")?;
        let mut no_fence = None;
        let mut hosts = Vec::new();
        for side in &SIDES {
            let bridge = lab.namespace(side.bridge)?;
            lab.veth((&node, side.device), (&bridge, "node"))?;
            let mut members = vec!["node".to_owned()];
            for (tenant, number) in [("red", 1), ("blue", 2)] {
                let name = format!("{tenant}-{}", side.letter);
                let host = lab.namespace(&name)?;
                lab.veth((&host, "eth0"), (&bridge, &name))?;
                configure(&host, side, number)?;
                members.push(name);
                hosts.push(host);
            }
            lab.bridge(&bridge, "br0", &members.iter().map(String::as_str).collect::<Vec<_>>())?;
            for (member, number) in members[1..].iter().zip(1..) {
                if let Err(error) = lab.fence(&bridge, member, &[&router_mac(number, side)]) {
                    no_fence.get_or_insert(reason(&error));
                }
            }
        }
        if no_fence.is_some() {
            for (host, (side, number)) in
                hosts.iter().zip(SIDES.iter().flat_map(|side| [(side, 1), (side, 2)]))
            {
                tell_neighbours(host, side, number)?;
            }
        }
        let [red_a, blue_a, red_b, blue_b] = <[Namespace; 4]>::try_from(hosts)
            .unwrap_or_else(|hosts| unreachable!("two sides of two hosts, not {}", hosts.len()));
        let red = Tenant { name: "red", a: red_a, b: red_b };
        let blue = Tenant { name: "blue", a: blue_a, b: blue_b };
        Ok(Hosts { node, red, blue, no_fence, _lab: lab })
    }
}

/// The Ethernet address of a tenant's router on one side, as in `two-slices.yaml`.
fn router_mac(tenant: u8, side: &Side) -> String {
    format!("02:00:00:{tenant:02x}:00:{:02x}", side.number)
}

/// Adds addresses and routes; for red also those of IPv6. `two-slices.yaml` also has the Ethernet
/// addresses of red's hosts.
fn configure(host: &Namespace, side: &Side, tenant: u8) -> Result<(), Error> {
    let near = side.number;
    let far = 3 - near;
    let last = 9 + near;
    host.mac("eth0", &format!("02:00:00:{tenant:02x}:00:{last:02x}"))?;
    host.address("eth0", &format!("10.0.{near}.2/24"))?;
    host.route(&format!("10.0.{far}.0/24"), &format!("10.0.{near}.1"))?;
    if tenant == 1 {
        host.address("eth0", &format!("fd00:{near}::2/64"))?;
        host.route(&format!("fd00:{far}::/64"), &format!("fd00:{near}::1"))?;
    }
    Ok(())
}

/// Where bridges cannot filter, a host receives from the routers of both tenants, and each router
/// receives from the hosts of both. So hosts have a static entry for their router. Red's router has
/// static neighbours too, so red's hosts send no ARP.
fn tell_neighbours(host: &Namespace, side: &Side, tenant: u8) -> Result<(), Error> {
    let mac = router_mac(tenant, side);
    host.neighbour(&format!("10.0.{}.1", side.number), &mac, "eth0")?;
    if tenant == 1 {
        host.neighbour(&format!("fd00:{}::1", side.number), &mac, "eth0")?;
        host.ip(&["link", "set", "eth0", "arp", "off"])?;
        // The kernel removes neighbour entries when the device changes.
        host.neighbour(&format!("10.0.{}.1", side.number), &mac, "eth0")?;
        host.neighbour(&format!("fd00:{}::1", side.number), &mac, "eth0")?;
    }
    Ok(())
}

/// A short text of the error.
fn reason(error: &Error) -> String {
    let text = error.to_string();
    let absent = europa_tests::missing(&["nft"]);
    absent.or(text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)).unwrap_or(text)
}
