//! Compares both tables with a linear scan, through random changes.

use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use europa_packet::{Ipv4Prefix, Ipv6Prefix};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// Bits of an address, left-aligned, so that both families can be generated and checked alike.
type Bits = u128;

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(Bits, u8, u16),
    Remove(Bits, u8),
    /// Removes the route with this number, modulo the number of routes.
    RemoveOne(usize),
}

/// Routes that often cover each other: they vary in few bits, at all depths.
fn change(width: u8) -> impl Strategy<Value = Change> {
    let bits = prop_oneof![
        4 => (0u128..16, 0u128..4, 0u128..4).prop_map(move |(top, middle, low)| {
            let at = u32::from(width);
            (top << (at - 10) | middle << (at - 23) | low << (at - 27) | low) << (128 - at)
        }),
        1 => any::<u128>(),
        1 => Just(0),
        1 => Just(u128::MAX),
    ];
    let len = prop_oneof![4 => 0..=width, 1 => Just(width), 1 => Just(24), 1 => 24u8..=32];
    let insert = (bits, len.clone(), 1u16..6);
    prop_oneof![
        5 => insert.clone().prop_map(|(bits, len, hop)| Change::Insert(bits, len, hop)),
        1 => insert.prop_map(|(bits, len, _)| Change::Remove(bits, len)),
        3 => any::<usize>().prop_map(Change::RemoveOne),
    ]
}

fn mask(len: u8) -> Bits {
    !Bits::MAX.checked_shr(len.into()).unwrap_or(0)
}

/// The simplest possible table.
#[derive(Default)]
struct Scan(Vec<(Bits, u8, NextHop)>);

impl Scan {
    fn insert(&mut self, bits: Bits, len: u8, hop: NextHop) -> Option<NextHop> {
        let old = self.remove(bits, len);
        self.0.push((bits & mask(len), len, hop));
        old
    }

    fn remove(&mut self, bits: Bits, len: u8) -> Option<NextHop> {
        let at = self.0.iter().position(|&(b, l, _)| (b, l) == (bits & mask(len), len))?;
        Some(self.0.swap_remove(at).2)
    }

    fn lookup(&self, address: Bits) -> Option<NextHop> {
        let holding = self.0.iter().filter(|&&(bits, len, _)| address & mask(len) == bits);
        holding.max_by_key(|(_, len, _)| len).map(|(_, _, hop)| *hop)
    }

    /// Addresses at which answers may change: the ends of all routes and their neighbours.
    fn edges(&self, width: u8) -> Vec<Bits> {
        let one = 1u128 << (128 - width);
        let ends = self.0.iter().flat_map(|&(bits, len, _)| [bits, bits | !mask(len)]);
        let near = ends.flat_map(|end| [end, end.wrapping_add(one), end.wrapping_sub(one)]);
        near.map(|address| address & mask(width)).chain([0, mask(width)]).collect()
    }
}

fn run<T: RouteTable>(
    mut table: T,
    width: u8,
    changes: &[Change],
    prefix: impl Fn(Bits, u8) -> T::Prefix,
    address: impl Fn(Bits) -> T::Address,
) -> Result<(), TestCaseError>
where
    T::Prefix: PartialEq + std::fmt::Debug,
{
    let mut scan = Scan::default();
    for &change in changes {
        let before = scan.edges(width);
        match change {
            Change::Insert(bits, len, hop) => {
                let hop = NextHop::new(hop).unwrap();
                let old = table.insert(prefix(bits, len), hop);
                prop_assert_eq!(old, Ok(scan.insert(bits, len, hop)));
                prop_assert_eq!(table.get(prefix(bits, len)), Some(hop));
            }
            Change::Remove(bits, len) => {
                prop_assert_eq!(table.remove(prefix(bits, len)), scan.remove(bits, len));
                prop_assert_eq!(table.get(prefix(bits, len)), None);
            }
            Change::RemoveOne(number) => {
                if let Some(at) = number.checked_rem(scan.0.len()) {
                    let (bits, len, hop) = scan.0.swap_remove(at);
                    prop_assert_eq!(table.remove(prefix(bits, len)), Some(hop));
                }
            }
        }
        let edges = [before, scan.edges(width)].concat();
        let addresses: Vec<_> = edges.iter().map(|&bits| address(bits)).collect();
        let wanted: Vec<u16> =
            edges.iter().map(|&bits| scan.lookup(bits).map_or(0, NextHop::get)).collect();
        let single: Vec<u16> =
            addresses.iter().map(|&a| table.lookup(a).map_or(0, NextHop::get)).collect();
        prop_assert_eq!(&single, &wanted);
        let mut batch = vec![0xeeee; addresses.len() + 5];
        table.lookup_batch(&addresses, &mut batch);
        prop_assert_eq!(&batch[..wanted.len()], &wanted[..]);
        prop_assert_eq!(&batch[wanted.len()..], &[0xeeee; 5]);
        table.lookup_batch(&addresses, &mut batch[..1]);
    }
    scan.0.sort_unstable();
    let wanted: Vec<_> = scan.0.iter().map(|&(bits, len, hop)| (prefix(bits, len), hop)).collect();
    prop_assert_eq!(table.iter().collect::<Vec<_>>(), wanted);
    prop_assert_eq!((table.len(), table.is_empty()), (scan.0.len(), scan.0.is_empty()));
    Ok(())
}

fn four(bits: Bits) -> u32 {
    (bits >> 96) as u32
}

proptest! {
    #[test]
    fn dir24_agrees_with_a_scan(changes in prop::collection::vec(change(32), 1..40)) {
        let prefix = |bits, len| Ipv4Prefix::new(four(bits).into(), len).unwrap();
        run(Dir24::new(), 32, &changes, &prefix, four)?;
        run(Dir24::for_many(), 32, &changes, &prefix, four)?;
    }

    #[test]
    fn multibit6_agrees_with_a_scan(changes in prop::collection::vec(change(128), 1..40)) {
        let prefix = |bits: u128, len| Ipv6Prefix::new(bits.into(), len).unwrap();
        run(Multibit6::new(), 128, &changes, prefix, |bits| bits)?;
        run(Multibit6::with_capacity(1 << 10), 128, &changes, prefix, |bits| bits)?;
    }
}

/// Tables with between 0 and 150 routes: they change their form in this range.
#[test]
fn few_routes_become_many() {
    let mut runner = TestRunner::deterministic();
    for width in [32u8, 128] {
        let inserts = prop::collection::vec(change(width), 190).new_tree(&mut runner);
        let mut changes = inserts.unwrap().current();
        changes.retain(|change| matches!(change, Change::Insert(..)));
        let spread =
            (0..130).map(|n: u128| Change::Insert(n << 112 | n << 100, 28, 1 + n as u16 % 5));
        changes.extend(spread);
        changes.extend((0..changes.len()).map(|n| Change::RemoveOne(n * 7)));
        match width {
            32 => run(
                Dir24::new(),
                32,
                &changes,
                |bits, len| Ipv4Prefix::new(four(bits).into(), len).unwrap(),
                four,
            ),
            _ => run(
                Multibit6::new(),
                128,
                &changes,
                |bits, len| Ipv6Prefix::new(bits.into(), len).unwrap(),
                |bits| bits,
            ),
        }
        .unwrap();
    }
}
