//! All classes of the library: `build.rs` writes the list from the files.

use europa_engine::Registry;

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// A registry with all classes of this library.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    add_all(&mut registry);
    registry.add_pass(&crate::passes::Ingress);
    registry.add_pass(&crate::passes::Egress);
    registry
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn other_names_stand_for_the_same() {
        let registry = super::registry();
        for (name, class) in [
            ("StripEtherVlanHeader", "StripEtherVLANHeader"),
            ("SimpleIdle", "Idle"),
            ("Null8", "Null"),
        ] {
            let (info, of) = (registry.info(name).unwrap(), registry.info(class).unwrap());
            assert_eq!(
                (info.ports, info.inline, info.consumes),
                (of.ports, of.inline, of.consumes),
                "{name}"
            );
        }
        assert_eq!(Bench::new("Null3", &[]).push(0, &[b"x"]), [(0, b"x".to_vec())]);
    }

    #[test]
    fn classes_say_where_they_run_and_what_they_do_to_packets() {
        let registry = super::registry();
        let info = |name| registry.info(name).unwrap();
        assert_eq!(info("IPForward").inline, Ok(()));
        assert!(info("Script").inline.unwrap_err().contains("a program of its own"));
        assert!(info("AggregateIPFlows").inline.unwrap_err().contains("not known"));
        assert_eq!((info("Discard").consumes, info("Classifier").consumes), (true, false));
        assert_eq!((info("Classifier").keeps_long, info("Print").keeps_long), (true, false));
    }

    #[test]
    fn every_class_has_a_category() {
        let registry = super::registry();
        assert!(registry.classes().count() > 300);
        for info in registry.classes() {
            assert!(!info.category.is_empty(), "{}", info.name);
        }
    }
}
