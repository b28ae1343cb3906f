//! A small writer of SVG, and the style that all pictures share.

use std::fmt::Write as _;

use crate::svg::escape;

/// Colours that readers with colour blindness can distinguish too (Okabe and Ito), the most
/// important first.
pub(super) const COLOURS: [&str; 6] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/// Text.
pub(super) const INK: &str = "#1a1a1a";
/// Text of less importance.
pub(super) const GREY: &str = "#666666";
/// Lines of the grid.
pub(super) const GRID: &str = "#e2e2e2";
/// Width of every picture.
pub(super) const WIDTH: f64 = 760.0;
/// Left and right edge.
pub(super) const MARGIN: f64 = 24.0;

/// The position of a text's anchor.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture being drawn.
pub(super) struct Svg {
    body: String,
    height: f64,
}

impl Svg {
    /// A white sheet with a title.
    pub(super) fn new(title: &str, height: f64) -> Self {
        let mut svg = Self { body: String::new(), height };
        svg.rectangle(0.0, 0.0, WIDTH, height, "#ffffff");
        svg.write(MARGIN, 32.0, title, Anchor::Start, 17.0, INK, true);
        svg
    }

    /// Ends the picture with small print below it.
    pub(super) fn finish(mut self, footer: &str) -> String {
        self.write(MARGIN, self.height - 14.0, footer, Anchor::Start, 10.0, GREY, false);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n\
             {body}</svg>\n",
            height = self.height,
            body = self.body
        )
    }

    /// A filled rectangle.
    pub(super) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        self.line_of(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\"/>"
        ));
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.line_of(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A dashed straight line.
    pub(super) fn dashed(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.line_of(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"1\" stroke-dasharray=\"4 4\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A curve through points.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], colour: &str) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.line_of(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"/>",
            list.join(" ")
        ));
    }

    /// Draws one of six marks, because colours alone cannot be distinguished in print.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), series: usize) {
        let colour = colour(series);
        let path = match series % 6 {
            0 => return self.disc((x, y), 4.0, colour),
            1 => format!("M{:.1} {:.1}h7.4v7.4h-7.4z", x - 3.7, y - 3.7),
            2 => format!("M{x:.1} {:.1}l4.6 8h-9.2z", y - 5.0),
            3 => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0),
            4 => format!("M{x:.1} {:.1}l4.6 -8h-9.2z", y + 5.0),
            _ => format!("M{:.1} {:.1}h3v9h-3z", x - 1.5, y - 4.5),
        };
        self.line_of(format_args!("<path d=\"{path}\" fill=\"{colour}\"/>"));
    }

    /// A filled circle.
    pub(super) fn disc(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.line_of(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{fill}\" \
             stroke=\"#ffffff\" stroke-width=\"0.8\"/>"
        ));
    }

    /// A line of text; `y` is its base line.
    pub(super) fn text(&mut self, x: f64, y: f64, text: &str, anchor: Anchor) {
        self.write(x, y, text, anchor, 12.0, INK, false);
    }

    /// A line of small grey text.
    pub(super) fn small(&mut self, x: f64, y: f64, text: &str, anchor: Anchor) {
        self.write(x, y, text, anchor, 10.5, GREY, false);
    }

    /// A line of text that reads upwards, centred on its middle.
    pub(super) fn upwards(&mut self, x: f64, y: f64, text: &str) {
        let text = escape(text);
        self.line_of(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" \
             font-size=\"12\" fill=\"{INK}\">{text}</text>"
        ));
    }

    #[expect(clippy::too_many_arguments, reason = "a text has that many properties")]
    fn write(
        &mut self,
        x: f64,
        y: f64,
        text: &str,
        anchor: Anchor,
        size: f64,
        fill: &str,
        bold: bool,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let text = escape(text);
        self.line_of(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             fill=\"{fill}\"{weight}>{text}</text>"
        ));
    }

    fn line_of(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// Colour of a series.
pub(super) fn colour(series: usize) -> &'static str {
    COLOURS.get(series % COLOURS.len()).copied().unwrap_or(INK)
}
