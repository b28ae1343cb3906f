//! No text makes the front end panic, hang or return an inconsistent graph.

mod common;

use europa_click::{Options, compile, compile_with, quote, split_arguments, unquote};
use proptest::prelude::*;

const CONFIGS: [&str; 3] = [
    include_str!("configs/iprouter.click"),
    include_str!("configs/nat.click"),
    include_str!("configs/compounds.click"),
];

/// Pieces that mean something to the lexer, so that random texts reach later stages.
const PIECES: [&str; 46] = [
    "a",
    "b",
    "x/y",
    "Idle",
    "Queue",
    "Tee",
    "Discard",
    "TimedSource",
    "input",
    "output",
    " ",
    "\n",
    "\r\n",
    "->",
    "=>",
    "::",
    ";",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "||",
    "...",
    "$a",
    "${a-b}",
    "$",
    "elementclass ",
    "define",
    "require",
    "provide",
    "library",
    "\"",
    "'",
    "\\<",
    "\\",
    "/*",
    "*/",
    "//",
    "# 3 \"f\"\n",
    "0",
    "1-3",
    "é",
];

/// Compiles, and checks the result.
fn try_compile(source: &str) {
    let library = |name: &str| Some((name.to_owned(), source.to_owned()));
    let options = Options { defines: vec![("a".into(), "$b".into())], library: Some(&library) };
    match compile_with(source, "f", &common::classes(), &options) {
        Ok(graph) => {
            for c in &graph.connections {
                let from = graph.element(c.from).unwrap();
                let to = graph.element(c.to).unwrap();
                let from = from.outputs[c.from_port as usize];
                let to = to.inputs[c.to_port as usize];
                assert_eq!(from.processing, to.processing);
            }
            // Only joined variables can be read differently the second time: `$a*` begins a comment
            // if the value of `$a` ends in a slash.
            let flat = graph.to_string();
            let again = compile(&flat, "f", &common::classes()).map(|graph| graph.to_string());
            assert!(source.contains('$') || again.as_deref().ok() == Some(&flat), "{flat}");
        }
        Err(errors) => {
            assert!(errors.has_errors());
            let _ = errors.plain().to_string();
            let mut drawn = String::new();
            miette::GraphicalReportHandler::new().render_report(&mut drawn, &errors).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_text(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        try_compile(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..120)) {
        try_compile(&pieces.concat());
    }

    #[test]
    fn mutated_configurations(
        which in 0..CONFIGS.len(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..6, prop::sample::select(&PIECES[..])),
            1..6,
        ),
    ) {
        let mut text: Vec<char> = CONFIGS[which].chars().collect();
        for (index, removed, piece) in changes {
            let start = index.index(text.len());
            let end = (start + removed).min(text.len());
            text.splice(start..end, piece.chars());
        }
        try_compile(&text.into_iter().collect::<String>());
    }

    #[test]
    fn quoting_is_undone(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let quoted = quote(&bytes);
        prop_assert_eq!(unquote(&quoted), bytes);
        prop_assert_eq!(split_arguments(&quoted).len(), 1);
    }

    #[test]
    fn arguments_of_any_text(config in ".{0,80}") {
        for argument in split_arguments(&config) {
            prop_assert!(config.get(argument.span.start..argument.span.end).is_some());
            // Without comments, the text equals that of the span.
            if !config.contains('/') {
                prop_assert_eq!(&config[argument.span.start..argument.span.end], &argument.text);
            }
        }
    }
}
