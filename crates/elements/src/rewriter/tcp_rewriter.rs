//! # TCPRewriter
//!
//! ## Synopsis
//! `TCPRewriter(SPEC, ... [, MAPPING_CAPACITY, TIMEOUT, GUARANTEE, DST_ANNO, REPLY_ANNO, ...])`
//!
//! ## Ports
//! As many push inputs as specifications, any number of push outputs.
//!
//! ## Description
//! Rewrites addresses and ports of TCP packets, flow by flow, as `IPRewriter` does.
//!
//! ## Arguments
//! - SPEC: for each input, the treatment of packets of new flows: `drop`; `pass [OUTPUT]`
//!   unchanged; `keep FOUTPUT ROUTPUT`, a flow that changes nothing; `pattern SADDR SPORT DADDR
//!   DPORT FOUTPUT ROUTPUT`, a flow with new addresses and ports, which leaves by FOUTPUT, and
//!   whose replies leave by ROUTPUT; or the name of a mapper. In a pattern `-` keeps the packet's
//!   value. SPORT may be a range, `1024-65535`: the flow's own port if it is in it and free, else a
//!   random one; with `#` behind it one after the other, with `?` always a random one. Without
//!   ports, SADDR may be a range or a prefix. A pattern may also be the name of one of
//!   `IPRewriterPatterns`.
//! - MAPPING_CAPACITY (keyword): most flows, default and at most 1048576; or the name of another
//!   rewriter, with which it then shares flows' memory and their bound.
//! - GUARANTEE (keyword): a flow keeps its place so long after a packet, default 5 s. Then a new
//!   flow may take the place of the one that would be forgotten first.
//! - TIMEOUT, TCP_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT
//!   (keywords): how long unused flows are kept.
//! - REAP_INTERVAL (keyword): how often the unused are looked for, default 15 minutes.
//! - DST_ANNO (keyword): set the destination address annotation too; default true.
//! - REPLY_ANNO (keyword): byte of the annotation area of a flow's first packet that replies get.
//!
//! ## Handlers
//! - `tcp_table` (read): the flows, a line for each direction.
//! - `tcp_lookup` (read with `SADDR SPORT DADDR DPORT`): the mapping of such packets.
//! - `table_size`, `mapping_failures` (read): flows, and that could not be made.
//! - `size` (read): flows in the table.
//! - `capacity` (read, write): most flows.
//! - `clear` (write): forgets all flows.
//! - `patterns` (read): the inputs' specifications, with their flows.
//! - `pattern0` ... `pattern3` (read, write): one of them; writing forgets its flows.
//!
//! ## See also
//! `IPRewriter`, `UDPRewriter`, `IPAddrRewriter`, `ICMPPingRewriter`, `ICMPRewriter`,
//! `IPRewriterPatterns`

use super::core::element::rewriter_element;
use super::core::{Kind, Rewriter};
use crate::prelude::*;

/// Rewrites flows.
pub(crate) struct TCPRewriter(pub(super) Rewriter);

impl Default for TCPRewriter {
    fn default() -> TCPRewriter {
        TCPRewriter(Rewriter::new(Kind::Tcp))
    }
}

impl Class for TCPRewriter {
    const INFO: ClassInfo = ClassInfo::new("TCPRewriter", "1-/1-").processing("h/h").inline();
}

impl Element for TCPRewriter {
    rewriter_element!(by protocol);
}
