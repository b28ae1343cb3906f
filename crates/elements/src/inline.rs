//! Which classes may run inside the switch's worker, and why others may not.
//!
//! A class is here after a review: its work on a packet, a timer or a turn is bounded, it keeps no
//! more than the pool's slots or its arguments allow, and it has no descriptors and no threads.
//! Memory is bounded by the router's quota, lines of a log by the worker. All other classes are
//! refused.

use europa_engine::Registry;

/// Classes whose work is bounded.
const BOUNDED: &str = "
    AddressInfo AlignmentInfo ClickyInfo PortInfo ScheduleInfo Message
    FromDevice ToDevice FromHost ToHost Discard Idle Null PushNull PullNull PanicTest
    Queue SimpleQueue ThreadSafeQueue NotifierQueue FullNoteQueue QuickNoteQueue MSQueue
    FrontDropQueue MixedQueue MPEGQueue Unqueue RED CoDel
    Counter AverageCounter Print IPPrint IP6Print ARPPrint
    Classifier IPClassifier IPFilter IP6Classifier IP6Filter
    ARPQuerier ARPResponder ARPTable IP6NDAdvertiser IP6NDSolicitor MLDReporter
    RadixIPLookup DirectIPLookup StaticIPLookup LinearIPLookup RangeIPLookup SortedIPLookup
    LookupIP6Route HostGate HostPolice IPForward IP6Forward IPInputCombo IPOutputCombo
    CheckIPHeader CheckIP6Header CheckLength CheckPaint CheckTCPHeader CheckUDPHeader
    CheckICMPHeader CheckARPHeader CheckCRC32 SetCRC32 HostEtherFilter
    MarkIPHeader MarkIP6Header MarkMACHeader MarkIPCE
    DecIPTTL DecIP6HLIM DecMPLSTTL FixIPSrc IPGWOptions IPFragmenter IP6Fragmenter
    ICMPError ICMP6Error ICMPPingResponder ICMP6PingResponder
    DropBroadcasts DropMartians Paint PaintTee PaintSwitch Tee PullTee Hub EtherSwitch
    GetIPAddress GetIP6Address SetIPAddress SetIP6Address SetQueue SetRandIPAddress
    SetFilterKey FilterResult
    Strip Unstrip StripIPHeader UnstripIPHeader StripToNetworkHeader StripTransportHeader
    StripEtherVLANHeader Truncate TruncateIPPayload EraseIPPayload Pad Align Resize
    StoreData StoreIPAddress StoreEtherAddress StoreTimestamp Clipboard
    SetIPChecksum SetTCPChecksum SetUDPChecksum SetIPDSCP SetIPECN SetIP6DSCP
    SetAnnoByte SetPacketType SetVLANAnno IPMirror IP6Mirror EtherMirror EtherRewrite
    EtherEncap EtherVLANEncap EnsureEther IPEncap IP6Encap UDPIPEncap UDPIP6Encap
    ICMPIPEncap ICMPPingEncap VLANEncap VLANDecap MPLSEncap MPLSDecap SetMPLSLabel
    GREEncap GREDecap VXLANEncap VXLANDecap
    Switch StaticSwitch InputSwitch RoundRobinSwitch HashSwitch RandomSwitch StrideSwitch
    PullSwitch StaticPullSwitch SimplePullSwitch Suppressor Bypass RandomSample RandomBitErrors
    RoundRobinSched SimpleRRSched PrioSched SimplePrioSched DRRSched StrideSched
    Meter BandwidthMeter RatedSplitter BandwidthRatedSplitter RatedUnqueue
    BandwidthRatedUnqueue Shaper BandwidthShaper DelayShaper DelayUnqueue LinkUnqueue
    RatedSource TimedSource TimedSink TimedUnqueue
    SetTimestamp AdjustTimestamp SetTimestampDelta
    IPRewriter TCPRewriter UDPRewriter IPAddrRewriter IPAddrPairRewriter ICMPRewriter
    ICMPPingRewriter IPRewriterPatterns RoundRobinIPMapper SourceIPHashMapper FTPPortMapper
";

const SCRIPT: &str = "runs a program of its own, which may never come to an end";
const FILE: &str = "waits for a file";
const SOURCE: &str = "always has something to do, so that the switch could never sleep";

/// Why other classes are refused, where the reason is more than a missing review.
const REFUSED: [(&str, &str); 11] = [
    ("Script", SCRIPT),
    ("DriverManager", SCRIPT),
    ("FromDump", FILE),
    ("ToDump", FILE),
    ("FromIPSummaryDump", FILE),
    ("ToIPSummaryDump", FILE),
    ("Socket", "waits for a socket"),
    ("Memif", "shares memory with another process and waits for its socket"),
    ("InfiniteSource", SOURCE),
    ("RandomSource", SOURCE),
    ("RandomSeed", "begins the random numbers anew that all inline routers share"),
];

/// Says it of all classes. Names of classes that are not there.
pub(crate) fn mark(registry: &mut Registry) -> Vec<&'static str> {
    let bounded = BOUNDED.split_whitespace().map(|name| (name, Ok(())));
    let refused = REFUSED.into_iter().map(|(name, why)| (name, Err(why)));
    let marked =
        bounded.chain(refused).map(|(name, inline)| (name, registry.set_inline(name, inline)));
    marked.filter(|(_, known)| !known).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn every_name_is_a_class() {
        assert_eq!(mark(&mut registry()), Vec::<&str>::new());
        let names: Vec<&str> = BOUNDED.split_whitespace().collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "a name stands twice");
    }

    #[test]
    fn files_and_programs_stay_outside() {
        let registry = registry();
        let inline = |name| registry.info(name).map(|info| info.inline);
        assert_eq!(inline("IPForward"), Some(Ok(())));
        assert_eq!(inline("Script"), Some(Err(SCRIPT)));
        assert!(matches!(inline("AggregateIPFlows"), Some(Err(why)) if why.contains("not known")));
    }
}
