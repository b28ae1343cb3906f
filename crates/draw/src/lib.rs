//! Draws diagrams of boxes and lines (topologies and element graphs), and charts.
//!
//! | file     | concern                                                              |
//! |----------|----------------------------------------------------------------------|
//! | `order`  | ranks, and the order of boxes in each, with few crossings            |
//! | `layout` | places: no two boxes overlap, lines are as straight as that allows   |
//! | `svg`    | the drawing                                                          |
//! | `dot`    | the same for Graphviz                                                |
//! | `chart`  | bars, dots and curves                                                |
//!
//! The layout is that of Sugiyama, Tagawa and Toda (1981): ranks follow from the longest path, long
//! lines get intermediate places, and barycentres reduce crossings. Boxes of a rank are then moved
//! towards their neighbours by isotonic regression, which keeps their order and distances.

pub mod chart;
mod dot;
mod layout;
mod order;
mod svg;

pub use dot::dot;
pub use layout::{Layout, layout};
pub use svg::svg;

/// Boxes and lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagram {
    /// Its title.
    pub title: String,
    /// Ranks are columns, from left to right, instead of rows.
    pub sideways: bool,
    /// The boxes; lines name them by index.
    pub boxes: Vec<Box>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A box with text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Box {
    /// Lines of text; the first one is emphasised.
    pub text: Vec<String>,
    /// The full text, shown under the pointer.
    pub hint: String,
    /// Its style.
    pub kind: Kind,
    /// Boxes of one group have one colour; 0 means no group.
    pub group: usize,
    /// The box's rank, if it is given. Either all boxes have one, or none.
    pub rank: Option<usize>,
    /// Number of connection points on its input side; at least 1 is drawn.
    pub inputs: usize,
    /// Number of connection points on its output side; at least 1 is drawn.
    pub outputs: usize,
}

/// The style of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Straight corners.
    #[default]
    Plain,
    /// Round corners and a strong border: a router.
    Strong,
    /// A small box without emphasis: an interface.
    Light,
    /// A box at the edge: a port, or an end of a graph.
    Outer,
}

/// A line between two boxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Box, by index, and place on its side.
    pub from: (usize, usize),
    /// Box, by index, and place on its side.
    pub to: (usize, usize),
    /// Dashed.
    pub dashed: bool,
    /// Ends in an arrow.
    pub arrow: bool,
}
