//! Draws a diagram as SVG that is legible on light and dark pages.

use std::fmt::Write;

use crate::layout::{CHARACTER, HEAD, LINE, Layout, MARGIN, PADDING};
use crate::{Diagram, Kind};

/// Colours of groups, legible on both backgrounds.
const COLOURS: [&str; 8] =
    ["#888888", "#c0392b", "#2471a3", "#1e8449", "#b9770e", "#7d3c98", "#117a8b", "#a04000"];

const STYLE: &str = "\
.page{fill:#ffffff}.ink{fill:#1a1a1a}.dim{fill:#5a5a5a}\
.box{fill:#f6f7f8;stroke-width:1.2}.strong{fill:#eef1f4;stroke-width:2.2}\
.light{fill:#ffffff;stroke-width:1}.outer{fill:#e9ecef;stroke-width:1.4}\
.line{fill:none;stroke:#7a7a7a;stroke-width:1.3}.arrow{fill:#7a7a7a}\
text{font-family:'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;font-size:12px}\
.head{font-weight:bold}.title{font-size:15px;font-weight:bold}.port{font-size:9px}\
@media (prefers-color-scheme:dark){.page{fill:#16181b}.ink{fill:#e8e8e8}.dim{fill:#a8a8a8}\
.box{fill:#22262b}.strong{fill:#2a3038}.light{fill:#1b1e22}.outer{fill:#30363d}\
.line{stroke:#8f8f8f}.arrow{fill:#8f8f8f}}";

/// Text as SVG has it.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Draws a diagram that has been laid out.
pub fn svg(diagram: &Diagram, placed: &Layout) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut out, diagram, placed);
    out
}

fn draw(out: &mut String, diagram: &Diagram, placed: &Layout) -> std::fmt::Result {
    let (width, height) = (placed.width.ceil(), placed.height.ceil());
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">"
    )?;
    writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", escape(&diagram.title))?;
    writeln!(out, "<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>")?;
    writeln!(
        out,
        "<text class=\"ink title\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
        HEAD - 8.0,
        escape(&diagram.title)
    )?;
    for (line, points) in diagram.lines.iter().zip(&placed.lines) {
        let dashes = if line.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        writeln!(out, "<path class=\"line\"{dashes} d=\"{}\"/>", path(points, diagram.sideways))?;
        if line.arrow
            && let [.., before, (x, y)] = points.as_slice()
        {
            // Lines that lead back enter from the opposite side.
            let back = if diagram.sideways { before.0 > *x } else { before.1 > *y };
            let from = if back { 7.0 } else { -7.0 };
            let (a, b, c) = if diagram.sideways {
                ((x + from, y - 3.5), (x + from, y + 3.5), (*x, *y))
            } else {
                ((x - 3.5, y + from), (x + 3.5, y + from), (*x, *y))
            };
            writeln!(
                out,
                "<path class=\"arrow\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
                a.0, a.1, b.0, b.1, c.0, c.1
            )?;
        }
    }
    for (of, place) in diagram.boxes.iter().zip(&placed.boxes) {
        let (class, round) = match of.kind {
            Kind::Plain => ("box", 3.0),
            Kind::Strong => ("strong", 9.0),
            Kind::Light => ("light", 6.0),
            Kind::Outer => ("outer", 0.0),
        };
        let colour =
            COLOURS[if of.group == 0 { 0 } else { 1 + (of.group - 1) % (COLOURS.len() - 1) }];
        writeln!(out, "<g>")?;
        if !of.hint.is_empty() {
            writeln!(out, "<title>{}</title>", escape(&of.hint))?;
        }
        writeln!(
            out,
            "<rect class=\"{class}\" stroke=\"{colour}\" x=\"{:.1}\" y=\"{:.1}\" \
             width=\"{:.1}\" height=\"{:.1}\" rx=\"{round}\"/>",
            place.x, place.y, place.width, place.height
        )?;
        let text = of.text.len() as f64 * LINE;
        let first = place.y + (place.height - text) / 2.0 + LINE - 4.0;
        for (index, line) in of.text.iter().enumerate() {
            let class = if index == 0 { "ink head" } else { "dim" };
            writeln!(
                out,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                place.x + PADDING.max((place.width - longest(of)) / 2.0),
                first + index as f64 * LINE,
                escape(line)
            )?;
        }
        writeln!(out, "</g>")?;
    }
    // Numbers of outputs, if a box has several.
    for (line, points) in diagram.lines.iter().zip(&placed.lines) {
        let from = &diagram.boxes[line.from.0];
        if from.outputs > 1
            && let [(x, y), next, ..] = points.as_slice()
        {
            let back = !diagram.sideways && next.1 < *y;
            writeln!(
                out,
                "<text class=\"dim port\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 2.5,
                y + if back { -3.0 } else { 10.0 },
                line.from.1
            )?;
        }
    }
    writeln!(out, "</svg>")
}

fn longest(of: &crate::Box) -> f64 {
    of.text.iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64 * CHARACTER
}

/// A smooth curve through points; it is straight along intermediate places.
fn path(points: &[(f64, f64)], sideways: bool) -> String {
    let mut text = String::new();
    let Some((&(mut x, mut y), rest)) = points.split_first() else { return text };
    let _ = write!(text, "M{x:.1} {y:.1}");
    for &(to_x, to_y) in rest {
        let straight = if sideways { (to_y - y).abs() < 0.5 } else { (to_x - x).abs() < 0.5 };
        let _ = if straight {
            write!(text, "L{to_x:.1} {to_y:.1}")
        } else if sideways {
            let bend = (to_x - x) * 0.5;
            write!(text, "C{:.1} {y:.1} {:.1} {to_y:.1} {to_x:.1} {to_y:.1}", x + bend, to_x - bend)
        } else {
            let bend = (to_y - y) * 0.5;
            write!(text, "C{x:.1} {:.1} {to_x:.1} {:.1} {to_x:.1} {to_y:.1}", y + bend, to_y - bend)
        };
        (x, y) = (to_x, to_y);
    }
    text
}
