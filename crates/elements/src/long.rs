//! Which classes keep super-packets: packets of TCP that are yet to be cut into segments.
//!
//! A class is here after a review. Its elements do to a super-packet what they would do to each of
//! its segments: they read and change headers before the payload, and none of payload, length of
//! the TCP header, or bytes behind an Ethernet header. The checksum of TCP means nothing in a
//! super-packet: each segment gets a new one. What compares lengths asks for those of segments
//! ([`Packet::is_longer_than`](europa_engine::Packet::is_longer_than)), what counts packets counts
//! segments or says that it does not. A router with an element of another class gets segments.

use europa_engine::Registry;

/// Classes that keep super-packets.
const KEEPERS: &str = "
    AddressInfo AlignmentInfo ClickyInfo PortInfo ScheduleInfo Message DriverManager
    FromDevice ToDevice FromHost ToHost Discard Idle Null PushNull PullNull
    Queue SimpleQueue ThreadSafeQueue NotifierQueue FullNoteQueue QuickNoteQueue Unqueue
    Counter Classifier IPClassifier IPFilter IP6Classifier IP6Filter
    ARPQuerier ARPResponder IP6NDAdvertiser IP6NDSolicitor MLDReporter
    RadixIPLookup DirectIPLookup StaticIPLookup LinearIPLookup RangeIPLookup SortedIPLookup
    LookupIP6Route HostGate HostPolice IPForward IP6Forward IPInputCombo IPOutputCombo
    CheckIPHeader CheckIP6Header CheckLength CheckPaint MarkIPHeader
    DecIPTTL DecIP6HLIM FixIPSrc IPGWOptions IPFragmenter
    ICMPError ICMP6Error ICMPPingResponder ICMP6PingResponder
    DropBroadcasts DropMartians Paint PaintTee PaintSwitch Tee EtherSwitch
    GetIPAddress GetIP6Address SetIPAddress SetIP6Address SetQueue
    Strip Unstrip EtherEncap EtherRewrite EtherMirror VLANDecap
    Switch StaticSwitch RoundRobinSwitch RoundRobinSched PrioSched
";

/// Says it of all classes. Names of classes that are not there.
pub(crate) fn mark(registry: &mut Registry) -> Vec<&'static str> {
    KEEPERS.split_whitespace().filter(|name| !registry.set_keeps_long(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn every_name_is_a_class() {
        assert_eq!(mark(&mut registry()), Vec::<&str>::new());
        let registry = registry();
        let keeps = |name| registry.info(name).map(|info| info.keeps_long);
        assert_eq!((keeps("Classifier"), keeps("Print")), (Some(true), Some(false)));
    }
}
