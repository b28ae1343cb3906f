//! Which classes end packets on purpose: sinks, and elements that take packets meant for
//! themselves or replace one by others. Packets that end in any other element are lost, and
//! `europa stats` shows them as dropped by that element.

use europa_engine::Registry;

/// Classes that consume packets. One that loses some as well tells how many by
/// [`Element::lost`](europa_engine::Element::lost).
const CONSUMERS: &str = "
    Discard Idle TimedSink
    ToDump ToIPSummaryDump ToSocket Socket Memif
    ARPQuerier IP6NDSolicitor MLDReporter ICMPPingSource
    ICMPError ICMP6Error IPReassembler
";

/// Says it of all classes. Names of classes that are not there.
pub(crate) fn mark(registry: &mut Registry) -> Vec<&'static str> {
    CONSUMERS.split_whitespace().filter(|name| !registry.set_consumes(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn every_name_is_a_class() {
        assert_eq!(mark(&mut registry()), Vec::<&str>::new());
        let registry = registry();
        let consumes = |name| registry.info(name).map(|info| info.consumes);
        assert_eq!((consumes("Discard"), consumes("Classifier")), (Some(true), Some(false)));
        assert_eq!(consumes("SimpleIdle"), Some(true), "another name of Idle");
    }
}
