//! Ranks, and the order of boxes in each.

use crate::Diagram;

/// Number of passes that order ranks by their neighbours.
const SWEEPS: usize = 24;

/// A box, or an intermediate place of a long line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// The box; `None` for an intermediate place.
    pub(crate) of: Option<usize>,
    pub(crate) rank: usize,
    /// Neighbours in the ranks before and behind, with the positions of the line's ends on their
    /// side and on this one, in thousandths of a side.
    pub(crate) before: Vec<(usize, i32, i32)>,
    pub(crate) behind: Vec<(usize, i32, i32)>,
}

pub(crate) struct Ordered {
    pub(crate) places: Vec<Place>,
    /// By rank: places in order.
    pub(crate) ranks: Vec<Vec<usize>>,
    /// By line: its places, from the lower rank to the higher one.
    pub(crate) ways: Vec<Vec<usize>>,
    /// By line: whether it is drawn against its direction.
    pub(crate) reversed: Vec<bool>,
}

/// The position of connection `index` of `count` on a side, in thousandths from the middle.
pub(crate) fn on_side(index: usize, count: usize) -> i32 {
    let count = count.max(index + 1).max(1) as i32;
    (2 * index as i32 + 1) * 1000 / (2 * count) - 500
}

/// Assigns ranks and orders them.
pub(crate) fn order(diagram: &Diagram) -> Ordered {
    let ranks = ranks(diagram);
    let mut places: Vec<Place> = (0..diagram.boxes.len())
        .map(|index| Place { of: Some(index), rank: ranks[index], ..Place::default() })
        .collect();
    let (mut ways, mut reversed) = (Vec::new(), Vec::new());
    for line in &diagram.lines {
        let side = |(index, place): (usize, usize), outputs: bool| {
            let of = &diagram.boxes[index];
            on_side(place, if outputs { of.outputs } else { of.inputs })
        };
        let back = ranks[line.from.0] > ranks[line.to.0];
        let (first, last) = if back { (line.to, line.from) } else { (line.from, line.to) };
        let (mut at, mut out) = (first.0, side(first, !back));
        let into = side(last, back);
        let mut way = vec![at];
        for rank in ranks[first.0] + 1..=ranks[last.0] {
            let end = rank == ranks[last.0];
            let next = if end { last.0 } else { places.len() };
            if !end {
                places.push(Place { rank, ..Place::default() });
            }
            let into = if end { into } else { 0 };
            places[at].behind.push((next, into, out));
            places[next].before.push((at, out, into));
            way.push(next);
            (at, out) = (next, 0);
        }
        ways.push(way);
        reversed.push(back);
    }
    let count = places.iter().map(|place| place.rank + 1).max().unwrap_or(0);
    let mut order = vec![Vec::new(); count];
    for (index, place) in places.iter().enumerate() {
        order[place.rank].push(index);
    }
    let mut best = order.clone();
    let mut fewest = crossings(&places, &order);
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let sequence: Vec<usize> =
            if down { (1..count).collect() } else { (0..count).rev().skip(1).collect() };
        for rank in sequence {
            sort(&places, &mut order, rank, down);
        }
        let now = crossings(&places, &order);
        if now < fewest {
            (fewest, best) = (now, order.clone());
        }
    }
    Ordered { places, ranks: best, ways, reversed }
}

/// Sorts a rank by the mean position of the boxes' neighbours.
fn sort(places: &[Place], order: &mut [Vec<usize>], rank: usize, down: bool) {
    let other = if down { rank - 1 } else { rank + 1 };
    let mut position = vec![0.0; places.len()];
    for (at, place) in order[other].iter().enumerate() {
        position[*place] = at as f64;
    }
    let mut keyed: Vec<(f64, usize)> = order[rank]
        .iter()
        .enumerate()
        .map(|(at, place)| {
            let near = if down { &places[*place].before } else { &places[*place].behind };
            let sum: f64 =
                near.iter().map(|(n, side, _)| position[*n] + f64::from(*side) / 1000.0).sum();
            // A box without connections on that side keeps its position.
            (if near.is_empty() { at as f64 } else { sum / near.len() as f64 }, *place)
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    order[rank] = keyed.into_iter().map(|(_, place)| place).collect();
}

fn crossings(places: &[Place], order: &[Vec<usize>]) -> usize {
    let mut position = vec![0i64; places.len()];
    for rank in order {
        for (at, place) in rank.iter().enumerate() {
            position[*place] = at as i64;
        }
    }
    let mut count = 0;
    for rank in order {
        let lines: Vec<(i64, i64)> = rank
            .iter()
            .flat_map(|place| places[*place].behind.iter().map(move |line| (*place, line)))
            .map(|(place, (to, into, out))| {
                let at = |place: usize, side: i32| position[place] * 1000 + i64::from(side);
                (at(place, *out), at(*to, *into))
            })
            .collect();
        for (index, a) in lines.iter().enumerate() {
            count += lines[index + 1..].iter().filter(|b| (a.0 - b.0) * (a.1 - b.1) < 0).count();
        }
    }
    count
}

/// Computes ranks by longest path, without lines that lead back; or returns the given ranks.
fn ranks(diagram: &Diagram) -> Vec<usize> {
    if diagram.boxes.iter().any(|of| of.rank.is_some()) {
        return diagram.boxes.iter().map(|of| of.rank.unwrap_or(0)).collect();
    }
    let count = diagram.boxes.len();
    let mut behind = vec![Vec::new(); count];
    let mut entered = vec![0usize; count];
    for line in &diagram.lines {
        if line.from.0 != line.to.0 {
            behind[line.from.0].push(line.to.0);
            entered[line.to.0] += 1;
        }
    }
    // Boxes without inputs come first, so that the expected lines are the ones that lead back.
    let mut starts: Vec<usize> = (0..count).collect();
    starts.sort_by_key(|index| entered[*index]);
    // 0: not visited, 1: on the current path, 2: finished.
    let mut state = vec![0u8; count];
    let mut finished = Vec::new();
    let mut forward = vec![Vec::new(); count];
    for start in starts {
        if state[start] != 0 {
            continue;
        }
        let mut stack = vec![(start, 0)];
        state[start] = 1;
        while let Some((at, next)) = stack.pop() {
            match behind[at].get(next) {
                None => {
                    state[at] = 2;
                    finished.push(at);
                }
                Some(&to) => {
                    stack.push((at, next + 1));
                    if state[to] != 1 {
                        forward[at].push(to);
                    }
                    if state[to] == 0 {
                        state[to] = 1;
                        stack.push((to, 0));
                    }
                }
            }
        }
    }
    let mut rank = vec![0; count];
    for at in finished.iter().rev() {
        for to in &forward[*at] {
            rank[*to] = rank[*to].max(rank[*at] + 1);
        }
    }
    // Boxes without inputs get the rank just before their successors.
    for at in 0..count {
        if entered[at] == 0
            && let Some(first) = forward[at].iter().map(|to| rank[*to]).min()
        {
            rank[at] = first - 1;
        }
    }
    rank
}
