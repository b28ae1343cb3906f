//! A configuration or a value that is refused while an element runs changes nothing.

use europa_engine::{Arena, Flags, Router};

use super::{build, fitting, is_left_out};
use crate::testing::Bench;

/// The values of all handlers of the element that need no parameter.
fn state(router: &mut Router) -> Vec<(String, String)> {
    let index = router.find("e").unwrap();
    let handlers = router.handlers(index);
    let readable = handlers.into_iter().filter(|(_, flags)| flags.has(Flags::READ));
    let read = |(name, _): (String, Flags)| {
        let answer = router.read(&format!("e.{name}"), "");
        (name, answer.unwrap_or_else(|error| error.to_string()))
    };
    readable.map(read).collect()
}

/// Configurations that differ from the running one, each with a mistake at its end, in its middle
/// or at its start.
fn with_mistakes(class: &str) -> Vec<String> {
    let good = match class {
        "ARPResponder" => "10.9.9.9 02:00:00:00:00:09, ANNOUNCE true",
        // All other classes that can be reconfigured are queues.
        _ => "7",
    };
    let wrong = ["NOSUCH 1", "10.0.0.0/33 x"];
    let around = |wrong: &&str| [format!("{good}, {wrong}"), format!("{wrong}, {good}")];
    wrong.iter().flat_map(around).collect()
}

#[test]
fn a_configuration_that_is_refused_changes_nothing() {
    let arena = Arena::heap(256, 2048);
    let mut tried = Vec::new();
    for class in Bench::registry().classes().map(|info| info.name).filter(|c| !is_left_out(c)) {
        let Some((arguments, single)) = fitting(class) else { continue };
        let mut router = build(class, arguments, single, &arena, 0).unwrap();
        let before = state(&mut router);
        for text in with_mistakes(class) {
            let result = router.write("e.config", &text);
            assert!(result.is_err(), "{class}({text})");
            assert_eq!(state(&mut router), before, "{class}({text})");
            if !result.unwrap_err().to_string().contains("read handler") {
                tried.push(class);
            }
        }
    }
    for class in ["ARPResponder", "Queue", "MixedQueue"] {
        assert!(tried.contains(&class), "{class} is not configured anew: {tried:?}");
    }
}

#[test]
fn a_value_that_is_refused_changes_nothing() {
    let arena = Arena::heap(256, 2048);
    let values = ["nonsense", "-7", "1 2 3", "99999999999999999999", "10.0.0.0/99 x", "1\nx"];
    let mut refused = 0;
    for class in Bench::registry().classes().map(|info| info.name).filter(|c| !is_left_out(c)) {
        let Some((arguments, single)) = fitting(class) else { continue };
        let mut router = build(class, arguments, single, &arena, 0).unwrap();
        let index = router.find("e").unwrap();
        let writable = router.handlers(index).into_iter();
        // These handlers would write files.
        let writable = writable.filter(|(name, _)| !name.contains("file"));
        for (name, _) in writable.filter(|(_, flags)| flags.has(Flags::WRITE)) {
            for value in values {
                let before = state(&mut router);
                if router.write(&format!("e.{name}"), value).is_err() {
                    refused += 1;
                    assert_eq!(state(&mut router), before, "{class}.{name} = {value:?}");
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}
