//! # ARPTable
//!
//! ## Synopsis
//! `ARPTable([CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Holds Ethernet addresses of IPv4 neighbours, and packets that wait for them, for the
//! `ARPQuerier` elements that name it as their TABLE.
//!
//! ## Arguments
//! All keywords: see `ARPQuerier`.
//!
//! ## Handlers
//! - `table` (read): a neighbour a line: address, 1 if known, Ethernet address, age.
//! - `drops` (read): packets that got no answer.
//! - `count`, `length` (read): number of entries, number of packets that wait.
//! - `insert` (write): `IP ETH`; `delete` (write): `IP`; `clear` (write): all entries.
//!
//! ## See also
//! `ARPQuerier`

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use europa_packet::{EtherType, MacAddr};

use crate::prelude::*;
use crate::shared::neighbour::{LimitArguments, Limits, Neighbours, State, pair, seconds};

const SECOND_NS: u64 = 1_000_000_000;
/// Limits and times of ARP tables.
pub(crate) const DEFAULTS: Limits = Limits {
    entries: 1024,
    packets: 2048,
    packets_each: 64,
    fresh_ns: 60 * SECOND_NS,
    expire_ns: 300 * SECOND_NS,
    delay_ns: 0,
    retransmit_ns: SECOND_NS,
    tries: 3,
    on_demand: false,
    slim: 2,
};

/// A neighbour a line.
pub(crate) fn table(neighbours: &Neighbours<u32>, now_ns: u64) -> String {
    let lines = neighbours.lines(now_ns).map(|line| {
        let known = u8::from(line.state != State::Incomplete);
        let mac = if line.mac == [0; 6] { MacAddr::BROADCAST } else { MacAddr(line.mac) };
        let (address, age) = (Ipv4Addr::from(line.address), seconds(line.age_ns));
        format!("{address} {known} {} {age}\n", mac.dashed())
    });
    lines.collect()
}

/// Neighbours shared by several elements.
pub(crate) struct ARPTable(Rc<RefCell<Neighbours<u32>>>);

impl Default for ARPTable {
    fn default() -> ARPTable {
        ARPTable(Rc::new(RefCell::new(Neighbours::new(Limits::NONE, [0; 6], [0; 2]))))
    }
}

impl Class for ARPTable {
    const INFO: ClassInfo = ClassInfo::new("ARPTable", "0/0").inline();
}

impl ARPTable {
    /// The table itself.
    pub(crate) fn share(&self) -> Rc<RefCell<Neighbours<u32>>> {
        self.0.clone()
    }
}

impl Element for ARPTable {
    arguments! { this, given;
        let limits = set LimitArguments;
        then {
            let mut limits = limits.or(DEFAULTS);
            limits.fresh_ns = limits.fresh_ns.min(limits.expire_ns);
            limits.on_demand = true;
            // The header's source is set by the element that uses the table.
            this.0 = Rc::new(RefCell::new(Neighbours::new(limits, [0; 6], EtherType::IPV4.0)));
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.borrow_mut().set_share(context.share(Purpose::Neighbours));
        Ok(())
    }

    handlers! { this, context, value;
        read "table" => table(&this.0.borrow(), context.now_ns());
        read "drops" => this.0.borrow().drops;
        read "count" => this.0.borrow().count();
        read "length" => this.0.borrow().length();
        write "insert" => {
            let (address, mac) = pair::<Ipv4Addr>(value)
                .ok_or_else(|| HandlerError::value("insert", value, "IP ETH"))?;
            let mut lost = 0;
            let mut neighbours = this.0.borrow_mut();
            // Waiting packets leave by the `ARPQuerier` that they came to, not by this element.
            let now_ns = context.now_ns();
            if !neighbours.insert(address.into(), mac, false, now_ns, |_, _| lost += 1) {
                return Err(HandlerError::Other("the table is full".to_owned()));
            }
            neighbours.drops += lost;
        };
        write "delete" => {
            let address: Ipv4Addr = parse("delete", value)?;
            this.0.borrow_mut().remove(address.into());
        };
        button "clear" => this.0.borrow_mut().clear();
    }

    keep! { this, old;
        then {
            this.0.borrow_mut().take_state(&mut old.0.borrow_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn handlers_change_the_table() {
        let mut bench = Bench::new("ARPTable", &["TIMEOUT 10s", "ENTRY_CAPACITY 2"]);
        for host in 1..=3 {
            bench.now_ns = host * 1_000_000_000;
            bench.run();
            bench.router.write("e.insert", &format!("10.0.0.{host} 2:0:0:0:0:{host}")).unwrap();
        }
        assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
        bench.now_ns = 12_500_000_000;
        bench.run();
        let table =
            "10.0.0.2 0 02-00-00-00-00-02 10.500000\n10.0.0.3 1 02-00-00-00-00-03 9.500000\n";
        assert_eq!(bench.router.read("e.table", ""), Ok(table.into()));
        bench.router.write("e.delete", "10.0.0.2").unwrap();
        assert_eq!(bench.router.read("e.count", ""), Ok("1".into()));
        assert!(bench.router.write("e.insert", "10.0.0.2").is_err());
        bench.router.write("e.clear", "").unwrap();
        assert_eq!(bench.router.read("e.table", ""), Ok(String::new()));
    }
}
