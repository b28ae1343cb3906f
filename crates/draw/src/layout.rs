//! Places for boxes and lines.

use crate::order::{Ordered, order};
use crate::{Box, Diagram, Kind};

/// Width of a character, in pixels: all characters of the font have the same width.
pub(crate) const CHARACTER: f64 = 7.25;
/// Height of a line of text.
pub(crate) const LINE: f64 = 16.0;
/// Between text and border.
pub(crate) const PADDING: f64 = 8.0;
/// Between neighbours of a rank.
const GAP: f64 = 18.0;
/// Between ranks.
const RANK_GAP: f64 = 46.0;
/// The width of a long line's place in its rank.
const THREAD: f64 = 10.0;
/// Around everything.
pub(crate) const MARGIN: f64 = 20.0;
/// For the title.
pub(crate) const HEAD: f64 = 34.0;
/// Number of rounds that move boxes towards their neighbours.
const ROUNDS: usize = 40;

/// A rectangle, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rectangle {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// The positions of all boxes and lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// By box.
    pub boxes: Vec<Rectangle>,
    /// By line: its points, in its direction.
    pub lines: Vec<Vec<(f64, f64)>>,
    /// Width of the drawing.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

/// Width and height of a box.
fn size(of: &Box) -> (f64, f64) {
    let longest = of.text.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = longest as f64 * CHARACTER + 2.0 * PADDING;
    let height =
        of.text.len() as f64 * LINE + if of.kind == Kind::Light { PADDING } else { 1.5 * PADDING };
    // Each side needs room for its connection points.
    let places = of.inputs.max(of.outputs) as f64;
    (width.max(places * 14.0 + 8.0).max(40.0), height)
}

/// Places a diagram.
pub fn layout(diagram: &Diagram) -> Layout {
    let ordered = order(diagram);
    let turn = |(width, height): (f64, f64)| {
        if diagram.sideways { (height, width) } else { (width, height) }
    };
    // (along the rank, across it) of each place
    let sizes: Vec<(f64, f64)> = ordered
        .places
        .iter()
        .map(|place| place.of.map_or((THREAD, 0.0), |of| turn(size(&diagram.boxes[of]))))
        .collect();
    let along = along(&ordered, &sizes);
    let mut across = Vec::new();
    let mut at = 0.0;
    for rank in &ordered.ranks {
        let thick = rank.iter().map(|place| sizes[*place].1).fold(0.0, f64::max);
        across.push((at, thick));
        // A gap between ranks needs more room if many lines cross it.
        let lines: usize = rank.iter().map(|place| ordered.places[*place].behind.len()).sum();
        let crowded = (lines as f64 * 1.5).min(40.0);
        at += thick + RANK_GAP + crowded + if diagram.sideways { 20.0 } else { 0.0 };
    }
    let lowest =
        along.iter().zip(&sizes).map(|(at, size)| at - size.0 / 2.0).fold(f64::MAX, f64::min);
    let shift = |a: f64, b: f64| {
        let (a, b) = (a - lowest + MARGIN, b + MARGIN);
        if diagram.sideways { (b, a + HEAD) } else { (a, b + HEAD) }
    };
    let rectangle = |place: usize| {
        let (start, thick) = across[ordered.places[place].rank];
        let (long, own) = sizes[place];
        let (x, y) = shift(along[place] - long / 2.0, start + (thick - own) / 2.0);
        let (width, height) = turn((long, own));
        Rectangle { x, y, width, height }
    };
    let boxes: Vec<Rectangle> = (0..diagram.boxes.len()).map(rectangle).collect();
    let lines = diagram.lines.iter().enumerate().map(|(index, line)| {
        let way = &ordered.ways[index];
        let mut points = Vec::new();
        let last = way.len() - 1;
        for (step, &place) in way.iter().enumerate() {
            let (start, thick) = across[ordered.places[place].rank];
            let own = sizes[place].1;
            let (near, far) = (start + (thick - own) / 2.0, start + (thick + own) / 2.0);
            let end = |side: i32| along[place] + f64::from(side) / 1000.0 * (sizes[place].0 - 8.0);
            let link = |step: usize| {
                // The line's own entry among those between two neighbours.
                let (a, b) = (way[step], way[step + 1]);
                sides(&ordered, diagram, index, (a, b))
            };
            if ordered.places[place].of.is_none() {
                points.push(shift(along[place], start));
                points.push(shift(along[place], start + thick));
                continue;
            }
            if step > 0 {
                points.push(shift(end(link(step - 1).1), near));
            }
            if step < last {
                points.push(shift(end(link(step).0), far));
            }
        }
        if way.len() == 1 {
            // A line from a box to itself leads around its side.
            let Rectangle { x, y, width, height } = boxes[line.from.0];
            points = vec![
                (x + width * 0.75, y + height),
                (x + width + 12.0, y + height + 12.0),
                (x + width + 12.0, y - 12.0),
                (x + width * 0.75, y),
            ];
        } else if ordered.reversed[index] {
            points.reverse();
        }
        points
    });
    let lines: Vec<Vec<(f64, f64)>> = lines.collect();
    let points = || lines.iter().flatten();
    let width =
        boxes.iter().map(|b| b.x + b.width).chain(points().map(|p| p.0)).fold(0.0, f64::max);
    let height =
        boxes.iter().map(|b| b.y + b.height).chain(points().map(|p| p.1)).fold(0.0, f64::max);
    let title = diagram.title.chars().count() as f64 * CHARACTER * 1.3 + 2.0 * MARGIN;
    Layout { boxes, lines, width: (width + MARGIN).max(title), height: height + MARGIN }
}

/// The positions where a line leaves the first place and reaches the second, on their sides.
fn sides(ordered: &Ordered, diagram: &Diagram, line: usize, (a, b): (usize, usize)) -> (i32, i32) {
    let of = &diagram.lines[line];
    let side = |(index, place): (usize, usize), outputs: bool| {
        let of = &diagram.boxes[index];
        crate::order::on_side(place, if outputs { of.outputs } else { of.inputs })
    };
    let back = ordered.reversed[line];
    let (first, last) = if back { (of.to, of.from) } else { (of.from, of.to) };
    let out = if a == first.0 { side(first, !back) } else { 0 };
    let into = if b == last.0 { side(last, back) } else { 0 };
    (out, into)
}

/// Places along their ranks.
fn along(ordered: &Ordered, sizes: &[(f64, f64)]) -> Vec<f64> {
    let mut at = vec![0.0; ordered.places.len()];
    for rank in &ordered.ranks {
        let mut next = 0.0;
        for &place in rank {
            at[place] = next + sizes[place].0 / 2.0;
            next += sizes[place].0 + GAP;
        }
    }
    let count = ordered.ranks.len();
    for round in 0..ROUNDS {
        let forward = round % 2 == 0;
        for step in 0..count {
            let rank = if forward { step } else { count - 1 - step };
            let both = round + 6 >= ROUNDS;
            let wanted: Vec<(f64, f64)> = ordered.ranks[rank]
                .iter()
                .map(|&place| {
                    let of = &ordered.places[place];
                    let near = of.before.iter().filter(|_| forward || both);
                    let far = of.behind.iter().filter(|_| !forward || both);
                    let wishes: Vec<f64> = near
                        .chain(far)
                        .map(|(other, theirs, ours)| {
                            at[*other] + f64::from(*theirs) / 1000.0 * sizes[*other].0
                                - f64::from(*ours) / 1000.0 * sizes[place].0
                        })
                        .collect();
                    let weight = if of.of.is_none() { 4.0 } else { 1.0 + wishes.len() as f64 };
                    match wishes.len() {
                        0 => (at[place], 0.1),
                        some => (wishes.iter().sum::<f64>() / some as f64, weight),
                    }
                })
                .collect();
            apart(&ordered.ranks[rank], &wanted, sizes, &mut at);
        }
    }
    at
}

/// Moves the places of a rank as near to their desired positions as order and distances allow
/// (weighted isotonic regression by pooling adjacent violators).
fn apart(rank: &[usize], wanted: &[(f64, f64)], sizes: &[(f64, f64)], at: &mut [f64]) {
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(rank.len());
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (index, &place) in rank.iter().enumerate() {
        if index > 0 {
            offset += sizes[rank[index - 1]].0 / 2.0 + GAP + sizes[place].0 / 2.0;
        }
        offsets.push(offset);
        let (wish, weight) = wanted[index];
        let mut pool = (wish - offset, weight, 1);
        while let Some(last) = pools.last()
            && last.0 > pool.0
        {
            let weight = last.1 + pool.1;
            pool = ((last.0 * last.1 + pool.0 * pool.1) / weight, weight, last.2 + pool.2);
            pools.pop();
        }
        pools.push(pool);
    }
    let mut index = 0;
    for (value, _, count) in pools {
        for _ in 0..count {
            at[rank[index]] = value + offsets[index];
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Line;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn boxes_never_overlap_and_lines_end_at_them(
            count in 1usize..14,
            lines in prop::collection::vec((0usize..14, 0usize..14, 0usize..3), 0..30),
            widths in prop::collection::vec(0usize..30, 14),
            sideways in any::<bool>(),
        ) {
            let boxes = (0..count).map(|index| Box {
                text: vec!["x".repeat(widths[index]); 1 + index % 3],
                outputs: 3,
                inputs: 1,
                ..Box::default()
            });
            let lines = lines.into_iter().filter(|(a, b, _)| *a < count && *b < count);
            let lines = lines.map(|(a, b, port)| Line { from: (a, port), to: (b, 0), ..Line::default() });
            let diagram = Diagram {
                boxes: boxes.collect(), lines: lines.collect(), sideways, ..Diagram::default()
            };
            let placed = layout(&diagram);
            for (index, a) in placed.boxes.iter().enumerate() {
                prop_assert!(a.x >= 0.0 && a.y >= HEAD && a.x + a.width <= placed.width);
                for b in &placed.boxes[index + 1..] {
                    let apart = a.x + a.width <= b.x + 0.01 || b.x + b.width <= a.x + 0.01
                        || a.y + a.height <= b.y + 0.01 || b.y + b.height <= a.y + 0.01;
                    prop_assert!(apart, "{a:?} {b:?}");
                }
            }
            for (line, points) in diagram.lines.iter().zip(&placed.lines) {
                let touches = |of: &Rectangle, (x, y): (f64, f64)| {
                    x >= of.x - 0.01 && x <= of.x + of.width + 0.01
                        && y >= of.y - 0.01 && y <= of.y + of.height + 0.01
                };
                prop_assert!(points.len() >= 2);
                prop_assert!(touches(&placed.boxes[line.from.0], points[0]));
                prop_assert!(touches(&placed.boxes[line.to.0], *points.last().unwrap()));
            }
        }
    }
}
