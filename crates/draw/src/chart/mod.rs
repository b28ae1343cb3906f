//! Charts in one style: bars, dots, and curves over a common axis.
//!
//! | file     | concern                                        |
//! |----------|------------------------------------------------|
//! | `canvas` | a small writer of SVG; colours, sizes          |
//! | `axis`   | round numbers, and where they stand            |
//! | `bars`   | horizontal bars with the figure at their end   |
//! | `dots`   | several figures of each row                    |
//! | `lines`  | curves, one chart or several below each other  |

mod axis;
mod bars;
mod canvas;
mod dots;
mod lines;

pub use bars::{Bar, Bars};
pub use dots::{Dot, Dots};
pub use lines::{Line, Lines, panels};
