//! Compares the placement with exhaustive search on small clusters.

use europa_api::{Bundle, Key, Source};
use europa_cluster::{ClusterError, State, Wish, plan};

/// Routers and hosts, nodes, and links between units.
#[derive(Debug)]
struct Case {
    /// Most routers of each node.
    room: Vec<u32>,
    /// Whether the unit is a router, and its node if its document sets one.
    units: Vec<(bool, Option<usize>)>,
    /// Units that a link joins.
    links: Vec<(usize, usize)>,
}

impl Case {
    fn random(random: &mut fastrand::Rng) -> Case {
        let nodes = random.usize(2..=4);
        let room = (0..nodes).map(|_| random.u32(1..=5)).collect();
        let unit = |random: &mut fastrand::Rng| {
            let pin = (random.u8(..4) == 0).then(|| random.usize(..nodes));
            (random.u8(..5) > 0, pin)
        };
        let units: Vec<_> = (0..random.usize(2..=8)).map(|_| unit(random)).collect();
        let mut links = Vec::new();
        for _ in 0..random.usize(units.len() - 1..=units.len() * 2) {
            let one = random.usize(..units.len());
            let other = (one + random.usize(1..units.len())) % units.len();
            // Several links between two units count as more traffic.
            links.extend(std::iter::repeat_n((one, other), random.usize(1..=3)));
        }
        Case { room, units, links }
    }

    fn key(&self, unit: usize) -> Key {
        match self.units[unit].0 {
            true => Key::new("router", format!("s/u{unit}")),
            false => Key::new("host", format!("u{unit}")),
        }
    }

    fn text(&self) -> String {
        let mut text = "kind: slice\nname: s\n".to_owned();
        for (node, room) in self.room.iter().enumerate() {
            text += &format!(
                "---\nkind: node\nname: n{node}\naddress: 10.0.0.{}\nrouters: {room}\n",
                node + 1
            );
        }
        for (unit, (is_router, pin)) in self.units.iter().enumerate() {
            let links = self.links.iter().enumerate();
            let own = links.filter(|(_, (a, b))| *a == unit || *b == unit);
            let interfaces: Vec<String> =
                own.map(|(link, _)| format!("i{link}: {{link: l{link}}}")).collect();
            let pin = pin.map_or(String::new(), |node| format!("node: n{node}\n"));
            let interfaces = interfaces.join(", ");
            text += &match is_router {
                true => format!(
                    "---\nkind: router\nname: u{unit}\nslice: s\n{pin}interfaces: {{{interfaces}}}\n\
                     fast_path: {{click: Idle}}\n"
                ),
                false => {
                    format!("---\nkind: host\nname: u{unit}\n{pin}interfaces: {{{interfaces}}}\n")
                }
            };
        }
        text
    }

    /// The node of each unit by the real placement, or `None` if a unit finds no place.
    fn place(&self) -> Option<Vec<usize>> {
        let source = Source { path: "case.yaml".into(), text: self.text() };
        let wish = Wish { bundle: Bundle::of(vec![source]), ..Wish::default() };
        let planned = match plan(&State::default(), &wish) {
            Ok(planned) => planned,
            Err(ClusterError::Mistakes(report)) if report.contains("no node has room") => {
                return None;
            }
            Err(error) => panic!("{error}\n{}", self.text()),
        };
        let node = |unit: usize| {
            let place = &planned.after.places[&self.key(unit)];
            place.node[1..].parse().expect("a number")
        };
        Some((0..self.units.len()).map(node).collect())
    }

    fn cost(&self, at: &[usize]) -> usize {
        self.links.iter().filter(|(a, b)| at[*a] != at[*b]).count()
    }

    /// Whether no node has too many routers, counting those that documents place there.
    fn fits(&self, at: &[Option<usize>]) -> bool {
        self.room.iter().enumerate().all(|(node, room)| {
            let own = self.units.iter().zip(at).filter(|((r, _), at)| *r && **at == Some(node));
            own.count() <= *room as usize
        })
    }

    /// The least traffic between nodes of all valid placements, if any is valid.
    fn optimum(&self, at: &mut Vec<Option<usize>>, unit: usize) -> Option<usize> {
        if !self.fits(at) {
            return None;
        }
        if unit == self.units.len() {
            let at: Vec<usize> = at.iter().flatten().copied().collect();
            return Some(self.cost(&at));
        }
        if self.units[unit].1.is_some() {
            return self.optimum(at, unit + 1);
        }
        let mut best: Option<usize> = None;
        for node in 0..self.room.len() {
            at[unit] = Some(node);
            best = best.into_iter().chain(self.optimum(at, unit + 1)).min();
        }
        at[unit] = None;
        best
    }
}

#[test]
fn two_thousand_cases() {
    let seed = 36;
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut ratios, mut possible, mut placed) = (Vec::new(), 0, 0);
    for number in 0..2000 {
        let case = Case::random(&mut random);
        let mut pinned: Vec<Option<usize>> = case.units.iter().map(|(_, pin)| *pin).collect();
        let best = case.optimum(&mut pinned, 0);
        let found = case.place();
        let told = || format!("case {number} of seed {seed}: {case:?} {found:?}");
        assert_eq!(found, case.place(), "{}", told());
        if let Some(found) = &found {
            for ((_, pin), at) in case.units.iter().zip(found) {
                assert!(pin.is_none_or(|pin| pin == *at), "{}", told());
            }
            let at: Vec<Option<usize>> = found.iter().copied().map(Some).collect();
            // Only documents may place more on a node than it has room for.
            assert!(case.fits(&at) || !case.fits(&pinned), "{}", told());
        }
        let Some(best) = best else { continue };
        possible += 1;
        let Some(found) = found else { continue };
        placed += 1;
        let cost = case.cost(&found) as f64;
        ratios.push(if best == 0 { 1.0 + cost } else { cost / best as f64 });
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share) as usize];
    println!(
        "{placed} of {possible} possible cases placed; traffic between nodes of the optimum's: median \
         {:.3}, p90 {:.3}, worst {:.3}",
        at(0.5),
        at(0.9),
        at(1.0)
    );
    assert!(possible > 1000 && placed * 100 >= possible * 99, "{placed} of {possible}");
    assert!(at(0.5) <= 1.3, "{}", at(0.5));
}
