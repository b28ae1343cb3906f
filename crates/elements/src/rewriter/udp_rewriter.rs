//! # UDPRewriter
//!
//! ## Synopsis
//! `UDPRewriter(SPEC, ... [, MAPPING_CAPACITY, TIMEOUT, GUARANTEE, DST_ANNO, REPLY_ANNO, ...])`
//!
//! ## Ports
//! As many push inputs as specifications, any number of push outputs.
//!
//! ## Description
//! Rewrites addresses and ports of UDP, TCP and DCCP packets, flow by flow, as `IPRewriter` does,
//! but does not distinguish protocols.
//!
//! ## Arguments
//! - SPEC: for each input, the treatment of packets of new flows. `drop`: they are dropped. `pass
//!   [OUTPUT]`: they pass unchanged. `keep FOUTPUT ROUTPUT`: they make a flow that changes nothing.
//!   `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: they make a flow with new addresses and
//!   ports, whose packets leave by FOUTPUT and whose replies leave by ROUTPUT. The name of a
//!   mapper: the mapper chooses. In a pattern `-` keeps the packet's value. SPORT may be a range,
//!   `1024-65535`: the flow keeps its port if that is in the range and free; otherwise it gets a
//!   random one. With `#` behind the range, ports are used one after the other; with `?`, always at
//!   random. Without ports, SADDR may be a range or a prefix. A pattern may also be a name from
//!   `IPRewriterPatterns`.
//! - MAPPING_CAPACITY (keyword): most flows, default and at most 1048576; or the name of another
//!   rewriter, with which it then shares the memory and the limit of flows.
//! - GUARANTEE (keyword): time after a packet during which its flow keeps its place, default 5 s.
//!   After that a new flow may take the place of the flow that would expire first.
//! - TIMEOUT, TCP_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT
//!   (keywords): how long unused flows are kept.
//! - REAP_INTERVAL (keyword): how often expired flows are removed, default 15 minutes.
//! - DST_ANNO (keyword): set the destination address annotation too; default true.
//! - REPLY_ANNO (keyword): a byte of the annotation area: replies get the value from the flow's
//!   first packet.
//!
//! ## Handlers
//! - `table` (read): the flows, a line for each direction.
//! - `lookup` (read with `SADDR SPORT DADDR DPORT`): the mapping of such packets.
//! - `table_size`, `mapping_failures` (read): number of flows; number of flows that could not be
//!   made.
//! - `table_size`, `mapping_failures` (read): number of flows; number of flows that could not be
//!   made.
//! - `capacity` (read, write): most flows.
//! - `clear` (write): forgets all flows.
//! - `patterns` (read): the inputs' specifications, with their flows.
//! - `pattern0` ... `pattern3` (read, write): one specification; writing it forgets its flows.
//!
//! ## See also
//! `IPRewriter`, `TCPRewriter`, `IPAddrRewriter`, `ICMPPingRewriter`, `ICMPRewriter`,
//! `IPRewriterPatterns`

use super::core::element::rewriter_element;
use super::core::{Kind, Rewriter};
use crate::prelude::*;

/// Rewrites flows.
pub(crate) struct UDPRewriter(pub(super) Rewriter);

impl Default for UDPRewriter {
    fn default() -> UDPRewriter {
        UDPRewriter(Rewriter::new(Kind::Udp))
    }
}

impl Class for UDPRewriter {
    const INFO: ClassInfo = ClassInfo::new("UDPRewriter", "1-/1-").processing("h/h").inline();
}

impl Element for UDPRewriter {
    rewriter_element!();
}
