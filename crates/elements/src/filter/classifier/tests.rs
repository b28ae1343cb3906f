//! Tests of `Classifier`.

use crate::testing::Bench;
use proptest::prelude::*;

fn build(patterns: &[&str]) -> Bench {
    Bench::with_outputs("Classifier", patterns, patterns.len())
}

#[test]
fn the_usual_patterns_take_few_steps() {
    let mut bench = build(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]);
    let program = " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
                   1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
                   2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
                   3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
                   safe length 22\nalignment offset 0\n";
    assert_eq!(bench.router.read("e.program", ""), Ok(program.into()));
}

#[test]
fn bad_patterns_are_named() {
    let wanted = "expected OFFSET/VALUE[%MASK] in hexadecimal, or '-'";
    for bad in ["12", "12/080", "x/08", "12/08%080", "12/zz", "12/", "12/08%??"] {
        let error = Bench::error("Classifier", &[bad, "-", "-", "-"]);
        assert_eq!(error, format!("PATTERN: {wanted}, found '{bad}'"));
    }
    assert_eq!(Bench::error("Classifier", &["-"]), "1 patterns for 4 connected outputs");
}

#[test]
fn patterns_that_cannot_fit_are_warned_of() {
    let bench = build(&["12/0806 12/0800", "0/4?", "0/45"]);
    let warnings: Vec<String> = bench.router.warnings().iter().map(ToString::to_string).collect();
    let wanted = [0, 2].map(|n| format!("e :: Classifier: warning: output {n} matches no packets"));
    assert_eq!(warnings, wanted);
}

/// The manual's own example.
fn fits(pattern: &str, data: &[u8]) -> bool {
    pattern == "-"
        || pattern.split(' ').all(|text| {
            let negated = text.starts_with('!');
            let (offset, value) = text.trim_start_matches('!').split_once('/').unwrap();
            let (value, mask) = value.split_once('%').unwrap_or((value, ""));
            let offset: usize = offset.parse().unwrap();
            let holds = value.bytes().enumerate().all(|(digit, wanted)| {
                let mask =
                    mask.get(digit..=digit).map_or(15, |m| u8::from_str_radix(m, 16).unwrap());
                if wanted == b'?' || mask == 0 {
                    return true;
                }
                let wanted = char::from(wanted).to_digit(16).unwrap() as u8;
                let Some(byte) = data.get(offset + digit / 2) else { return false };
                let found = if digit % 2 == 0 { byte >> 4 } else { byte & 15 };
                (found ^ wanted) & mask == 0
            });
            holds != negated
        })
}

fn pattern() -> impl Strategy<Value = String> {
    let clause = (
        "!?",
        0usize..9,
        prop::collection::vec("[01?][01?]", 1..4),
        prop::option::of("[0137f]{6}"),
    )
        .prop_map(|(not, offset, value, mask)| {
            let value = value.concat();
            let mask = mask.map(|mask| format!("%{}", &mask[..value.len()])).unwrap_or_default();
            format!("{not}{offset}/{value}{mask}")
        });
    prop_oneof![
        1 => Just("-".to_owned()),
        9 => prop::collection::vec(clause, 1..4).prop_map(|clauses| clauses.join(" ")),
    ]
}

proptest! {
    #[test]
    fn the_program_does_what_the_patterns_say(
        patterns in prop::collection::vec(pattern(), 1..5),
        packets in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x10), Just(0x11)], 0..13), 1..20),
    ) {
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let mut bench = build(&patterns);
        for data in packets {
            let expected = patterns.iter().position(|pattern| fits(pattern, &data));
            let out = bench.push(0, &[&data]);
            prop_assert_eq!(out.first().map(|(output, _)| *output), expected, "{:?}", data);
        }
    }
}
