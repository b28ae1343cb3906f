//! Tests the report of mistakes: text, places, help.

use europa_api::{Source, parse};

#[test]
fn a_second_file_is_told_apart() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.to_owned() };
    let sources = [
        source("a.yaml", "kind: slice\nname: red\n"),
        source("b.yaml", "# more\nkind: slice\nname: red\n"),
    ];
    let report = parse(&sources).expect_err("two of a name").render(false);
    assert!(report.contains("b.yaml:3:7"), "{report}");
    assert!(report.contains("a.yaml:2: the first"), "{report}");
}

#[test]
fn a_report_shows_the_text_and_a_hint() {
    let text = "kind: port\nname: left\ndevice: eth1\nmtx: 9000\n".to_owned();
    let report = parse(&[Source { path: "t.yaml".into(), text }]).expect_err("mtx").render(false);
    for part in ["t.yaml:4:1", "mtx: 9000", "unknown field", "did you mean `mtu`?"] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
}

#[test]
fn help_fits_what_is_wanted() {
    for (field, wanted) in [
        ("mtu: 1e3", Some("write 1000")),
        ("mtu: true", None),
        ("rate: 10", Some("a rate is a number and one of b/s")),
        ("description: 10", Some("needs quotes")),
    ] {
        let kind = if field.starts_with("desc") { "slice" } else { "port\ndevice: e" };
        let text = format!("kind: {kind}\nname: a\n{field}\n");
        let problems = parse(&[Source { path: "t.yaml".into(), text }]).expect_err(field);
        let help = problems.iter().next().and_then(|problem| problem.help.clone());
        match wanted {
            None => assert_eq!(help, None, "{field}"),
            Some(wanted) => assert!(help.as_ref().is_some_and(|h| h.contains(wanted)), "{help:?}"),
        }
    }
}

/// The report shows a piece of a long generated line.
#[test]
fn a_mistake_far_to_the_right_is_shown() {
    let rules = "{\"action\": \"drop\"}, ".repeat(6000);
    let text = format!(
        "{{\"kind\": \"filters\", \"name\": \"f\", \"slice\": \"red\", \"rules\": [{rules}{{\"action\": \
         \"dorp\"}}]}}\n---\n{{\"kind\": \"slice\", \"name\": \"red\"}}\n"
    );
    let twice = "{a: 1, ".to_owned() + &"b: [é, é], ".repeat(9000) + "a: 2}\n";
    for (text, wanted) in [
        (text, ["\"dorp\" is not an action", "did you mean \"drop\"?", "{\"action\": \"dorp\"}]}"]),
        (twice, ["is written twice", "t.yaml:1:", "[é, é], "]),
        // The place is a whole long line.
        (format!("{{a: {}}}\n", "x".repeat(80_000)), ["needs a `kind`", "t.yaml:1:1", "{a: xxx"]),
    ] {
        let sources = [Source { path: "t.yaml".into(), text }];
        for colour in [false, true] {
            let report = parse(&sources).expect_err("a mistake").render(colour);
            assert!(report.len() < 20_000, "{} bytes", report.len());
            for part in wanted.iter().filter(|_| !colour) {
                assert!(report.contains(part), "{part} is not in\n{report}");
            }
        }
    }
}
