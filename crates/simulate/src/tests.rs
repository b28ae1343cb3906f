//! Tests the simulation itself: correct control violates nothing, and planted faults are found.

use crate::{Fault, PLANTS, search};

#[test]
fn histories_are_clean_and_the_same_again() {
    let (failing, one) = search(100, 7, None);
    assert!(failing.is_none(), "{failing:?}");
    let (_, other) = search(100, 7, None);
    assert_eq!(one.to_string(), other.to_string(), "a seed says everything");
}

#[test]
fn planted_faults_are_found_within_2000_histories() {
    for (name, plant) in PLANTS {
        let (failing, _) = search(2000, 1, Some(plant));
        let failing = failing.unwrap_or_else(|| panic!("{name} is not found"));
        assert!(!failing.operations.is_empty(), "{name}: {}", failing.why);
    }
}

/// Each effect with a record is killed between both, also in few histories.
#[test]
fn records_and_objects_come_apart_and_together_again() {
    let (failing, coverage) = search(400, 3, None);
    assert!(failing.is_none(), "{failing:?}");
    let never = coverage.missing();
    let between = never.iter().filter(|(_, fault)| *fault == Fault::KilledBetween);
    assert_eq!(between.count(), 0, "{never:?}");
}
