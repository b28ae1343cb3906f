//! The same for Graphviz.

use crate::{Diagram, Kind};

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// A diagram in the DOT language.
pub fn dot(diagram: &Diagram) -> String {
    let direction = if diagram.sideways { "LR" } else { "TB" };
    let mut text = format!(
        "digraph {} {{\n  rankdir={direction};\n  node [shape=box, fontname=monospace];\n",
        quote(&diagram.title)
    );
    for (index, of) in diagram.boxes.iter().enumerate() {
        let style = match of.kind {
            Kind::Plain => "",
            Kind::Strong => ", style=\"rounded,bold\"",
            Kind::Light => ", style=rounded",
            Kind::Outer => ", style=filled",
        };
        text += &format!("  n{index} [label={}{style}];\n", quote(&of.text.join("\n")));
    }
    for line in &diagram.lines {
        let mut attributes = Vec::new();
        if !line.arrow {
            attributes.push("dir=none".to_owned());
        }
        if line.dashed {
            attributes.push("style=dashed".to_owned());
        }
        if diagram.boxes.get(line.from.0).is_some_and(|of| of.outputs > 1) {
            attributes.push(format!("taillabel=\"{}\"", line.from.1));
        }
        text += &format!("  n{} -> n{} [{}];\n", line.from.0, line.to.0, attributes.join(", "));
    }
    text + "}\n"
}
