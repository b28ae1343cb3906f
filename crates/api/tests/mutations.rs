//! After any change of an example, reading it ends without a panic, and every mistake has a place
//! in the text.

use std::fs;
use std::path::Path;

use europa_api::{Source, parse};
use proptest::prelude::*;

/// A change of a text at a place given in thousandths of its length.
#[derive(Clone, Debug)]
enum Mutation {
    Delete { at: u16, bytes: usize },
    Insert { at: u16, text: String },
    Double { at: u16, bytes: usize },
    Truncate { at: u16 },
    Swap { from: usize, to: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = 0..1000_u16;
    let token = prop_oneof![
        "[ -~\\n\\té→]{1,6}",
        prop::sample::select(vec![
            "---\n",
            "[",
            "]",
            "{",
            "}",
            ": ",
            "- ",
            "&a ",
            "*a",
            "<<: ",
            "!!int ",
            "~",
            "null",
            "\"",
            "'",
            "|\n",
            "18446744073709551616",
            "-1",
            "1e400",
            ".nan",
            "10.0.0.1/33",
            "fe80::1",
            "ff:ff:ff:ff:ff:ff",
            "all: true",
            "link: core",
            "...\n",
            "%YAML 9\n",
            "\u{feff}",
            "\r\n",
            "kind: port\n",
        ])
        .prop_map(str::to_owned),
    ];
    prop_oneof![
        (at.clone(), 1..40_usize).prop_map(|(at, bytes)| Mutation::Delete { at, bytes }),
        (at.clone(), token).prop_map(|(at, text)| Mutation::Insert { at, text }),
        (at.clone(), 1..200_usize).prop_map(|(at, bytes)| Mutation::Double { at, bytes }),
        at.prop_map(|at| Mutation::Truncate { at }),
        (0..100_usize, 0..100_usize).prop_map(|(from, to)| Mutation::Swap { from, to }),
    ]
}

fn apply(text: &mut String, mutation: &Mutation) {
    let floor = |text: &str, at: usize| {
        (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    };
    let place = |text: &str, at: u16| floor(text, text.len() * usize::from(at) / 1000);
    match mutation {
        Mutation::Delete { at, bytes } => {
            let start = place(text, *at);
            let end = floor(text, start + bytes).max(start);
            text.replace_range(start..end, "");
        }
        Mutation::Insert { at, text: new } => text.insert_str(place(text, *at), new),
        Mutation::Double { at, bytes } => {
            let start = place(text, *at);
            let end = floor(text, start + bytes).max(start);
            let piece = text[start..end].to_owned();
            text.insert_str(start, &piece);
        }
        Mutation::Truncate { at } => text.truncate(place(text, *at)),
        Mutation::Swap { from, to } => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            if *from < lines.len() && *to < lines.len() {
                lines.swap(*from, *to);
                *text = lines.concat();
            }
        }
    }
}

fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the examples' folder")
        .map(|entry| entry.expect("an example").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).expect("an example")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn reading_a_mutated_example(
        example in prop::sample::select(examples()),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut text = example;
        mutations.iter().for_each(|mutation| apply(&mut text, mutation));
        if let Err(problems) = parse(&[Source { path: "t.yaml".into(), text: text.clone() }]) {
            prop_assert!(problems.iter().len() > 0);
            let report = problems.render(false);
            for problem in problems.iter() {
                let (start, end) = (problem.place.start as usize, problem.place.end as usize);
                prop_assert!(text.get(start..end).is_some(), "{problem} has no place");
                prop_assert!(!report.trim().is_empty());
            }
            // Each mistake has one line with the file's name.
            prop_assert!(report.matches("t.yaml:").count() >= problems.iter().len(), "{}", report);
        }
    }
}
