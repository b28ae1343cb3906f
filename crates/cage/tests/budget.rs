//! Instructions and bytes of maps that a program may take.

use europa_cage::MapKind;
use europa_cage::budget::{Stage, check, deepest};
use europa_cage::kernel::Shape;

fn stages(of: &[(&str, u32, &[usize])]) -> Vec<Stage> {
    let stage = |(name, instructions, next): &(&str, u32, &[usize])| Stage {
        name: (*name).to_owned(),
        instructions: *instructions,
        next: next.to_vec(),
    };
    of.iter().map(stage).collect()
}

#[test]
fn the_deepest_chain_counts() {
    type Case<'a> = (&'a [(&'a str, u32, &'a [usize])], u64, &'a [usize]);
    let cases: &[Case<'_>] = &[
        (&[], 0, &[]),
        (&[("a", 7, &[])], 7, &[0]),
        (&[("a", 1, &[1, 2]), ("b", 5, &[]), ("c", 9, &[])], 10, &[0, 2]),
        (&[("a", 1, &[1, 2]), ("b", 5, &[3]), ("c", 9, &[]), ("d", 6, &[])], 12, &[0, 1, 3]),
        // A stage that is not there is none.
        (&[("a", 1, &[4])], 1, &[0]),
    ];
    for (of, instructions, chain) in cases {
        assert_eq!(deepest(&stages(of)), (*instructions, chain.to_vec()), "{of:?}");
    }
}

#[test]
fn a_stage_that_calls_itself_counts_for_each_call() {
    let (all, chain) = deepest(&stages(&[("a", 1, &[1]), ("b", 10, &[1])]));
    assert_eq!((all, chain.len()), (1 + 33 * 10, 34));
}

#[test]
fn a_problem_names_the_stage_with_most_instructions() {
    let within = stages(&[("entry", 40_000, &[1]), ("parse", 60_000, &[])]);
    assert_eq!(check(&within, 100_000), Ok(()));
    let beyond = stages(&[("entry", 40_000, &[1]), ("parse", 60_001, &[])]);
    let problem = check(&beyond, 100_000).expect_err("one too many");
    assert_eq!(
        problem.what,
        "the verifier follows 100001 instructions along the stages entry, parse: 'parse' has \
         60001 of them"
    );
    assert!(problem.remedy.contains("at most 100000"), "{}", problem.remedy);
    assert_eq!(check(&beyond, 1_000_000), Ok(()));
    let circle = stages(&[("entry", 1, &[1]), ("spin", 40_000, &[1])]);
    let problem = check(&circle, 1_000_000).expect_err("33 times");
    assert!(problem.what.contains("entry, spin (33 times)"), "{}", problem.what);
}

#[test]
fn all_bytes_of_a_map_count() {
    for (kind, key_bytes, value_bytes, max_entries, bytes) in [
        (MapKind::Array, 4, 8, 100, 1200),
        (MapKind::Ringbuf, 0, 0, 1 << 30, 1 << 30),
        (MapKind::Hash, 4, u32::MAX, 1, (1 << 32) + 3),
        (MapKind::Hash, u32::MAX, u32::MAX, u32::MAX, u64::MAX),
    ] {
        let type_number = kind as u32;
        let shape = Shape { type_number, key_bytes, value_bytes, max_entries, flags: 0 };
        assert_eq!(shape.bytes(), bytes, "{shape:?}");
    }
}
