//! Compares both tables with `prefix-trie` on a full Internet table, if `../shared/data` beside the
//! repository has one.

mod common;

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use common::{Random, Table};
use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use ipnet::{Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

fn tables() -> Vec<Table> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let mut tables = Vec::new();
    for name in ["bgp-prefixes.txt.gz", "routes-ipv4-asn.txt.gz", "routes-ipv6-asn.txt.gz"] {
        let path = folder.join(name);
        if path.exists() {
            tables.push(common::read(&path).unwrap());
        } else {
            // The message is not printed by a macro, because the test runner would hide that.
            let _ = writeln!(std::io::stderr(), "skipped: no {}", path.display());
        }
    }
    tables
}

/// Inserts all routes, removes every third, restores every ninth with another next hop, and
/// compares after each stage.
macro_rules! stages {
    ($routes:expr, $table:expr, $net:ident, $ip:ty, $address:ident) => {{
        let (routes, mut table, mut random) = ($routes, $table, Random(1));
        let mut oracle = PrefixMap::<$net, NextHop>::new();
        for stage in 0..4 {
            for (number, &(prefix, next_hop)) in routes.iter().enumerate() {
                match stage {
                    0 => {
                        let old = table.insert(prefix, next_hop).unwrap();
                        assert_eq!(old, oracle.insert(prefix.net(), next_hop), "{prefix}");
                    }
                    1 if number % 3 == 0 => {
                        assert_eq!(table.remove(prefix), oracle.remove(&prefix.net()), "{prefix}");
                    }
                    2 if number % 9 == 0 => {
                        let next_hop = NextHop::new(next_hop.get() + 300).unwrap();
                        table.insert(prefix, next_hop).unwrap();
                        oracle.insert(prefix.net(), next_hop);
                    }
                    3 => {
                        table.remove(prefix);
                    }
                    _ => {}
                }
            }
            if stage == 3 {
                oracle.clear();
            }
            assert_eq!(table.len(), oracle.len());
            let addresses: Vec<_> = (0..200_000).map(|_| random.$address(routes)).collect();
            let mut batch = vec![0; addresses.len()];
            table.lookup_batch(&addresses, &mut batch);
            for (&address, next_hop) in addresses.iter().zip(batch) {
                let wanted = oracle.get_lpm(&$net::from(<$ip>::from_bits(address)));
                let wanted = wanted.map(|(_, next_hop)| *next_hop);
                assert_eq!(table.lookup(address), wanted, "{address:x}");
                assert_eq!(NextHop::new(next_hop), wanted, "{address:x}");
            }
        }
        table
    }};
}

#[test]
fn tables_of_the_internet() {
    for table in tables() {
        if !table.four.is_empty() {
            stages!(&table.four, Dir24::new(), Ipv4Net, Ipv4Addr, in_four);
        }
        if !table.six.is_empty() {
            stages!(&table.six, Multibit6::new(), Ipv6Net, Ipv6Addr, in_six);
        }
    }
}
