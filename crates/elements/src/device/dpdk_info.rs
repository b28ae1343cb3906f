//! # DPDKInfo
//!
//! ## Synopsis
//! `DPDKInfo([NB_SOCKET_MBUF, ...])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Accepts the memory settings of DPDK configurations. It has no effect, because packets are in the
//! router's own buffers.
//!
//! ## Arguments
//! - NB_MBUF, NB_SOCKET_MBUF, MBUF_SIZE, MBUF_CACHE_SIZE, RX_PTHRESH, RX_HTHRESH, RX_WTHRESH,
//!   TX_PTHRESH, TX_HTHRESH, TX_WTHRESH, MEMPOOL_PREFIX, DEF_RING_NDESC, DEF_BURST_SIZE, RING_SIZE,
//!   RING_POOL_CACHE_SIZE, RING_PRIV_DATA_SIZE: accepted.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `FromDPDKDevice`, `ToDPDKDevice`

use europa_engine::Phase;

use crate::prelude::*;

/// Accepts settings of DPDK.
#[derive(Default)]
pub(crate) struct DPDKInfo;

impl Class for DPDKInfo {
    const INFO: ClassInfo = ClassInfo::new("DPDKInfo", "0/0").phase(Phase::Info);
}

impl Element for DPDKInfo {
    arguments! { this, given;
        positional "NB_MBUF": u32 => _;
        keyword "NB_SOCKET_MBUF": String => _;
        keyword "MBUF_SIZE": String => _;
        keyword "MBUF_CACHE_SIZE": String => _;
        keyword "RX_PTHRESH": String => _;
        keyword "RX_HTHRESH": String => _;
        keyword "RX_WTHRESH": String => _;
        keyword "TX_PTHRESH": String => _;
        keyword "TX_HTHRESH": String => _;
        keyword "TX_WTHRESH": String => _;
        keyword "MEMPOOL_PREFIX": String => _;
        keyword "DEF_RING_NDESC": String => _;
        keyword "DEF_BURST_SIZE": String => _;
        keyword "RING_SIZE": String => _;
        keyword "RING_POOL_CACHE_SIZE": String => _;
        keyword "RING_PRIV_DATA_SIZE": String => _;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn only_settings_of_dpdk_are_accepted() {
        for good in [&["65536"][..], &["NB_SOCKET_MBUF 1"], &[]] {
            assert!(Bench::try_new("DPDKInfo", good, None, None).is_ok());
        }
        assert_eq!(Bench::error("DPDKInfo", &["FOO 1"]), "unexpected argument 'FOO 1'");
    }
}
