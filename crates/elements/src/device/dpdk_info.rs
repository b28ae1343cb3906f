//! # DPDKInfo
//!
//! ## Synopsis
//! `DPDKInfo([NB_SOCKET_MBUF, ...])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Accepts settings of DPDK configurations about its memory. Packets are in the router's own
//! buffers here, so that it has no effect.
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
use crate::shared::accepted::accept;

/// Accepts settings of DPDK.
#[derive(Default)]
pub(crate) struct DPDKInfo;

impl Class for DPDKInfo {
    const INFO: ClassInfo = ClassInfo::new("DPDKInfo", "0/0").phase(Phase::Info);
}

const KEYWORDS: &[&str] = &[
    "NB_SOCKET_MBUF",
    "MBUF_SIZE",
    "MBUF_CACHE_SIZE",
    "RX_PTHRESH",
    "RX_HTHRESH",
    "RX_WTHRESH",
    "TX_PTHRESH",
    "TX_HTHRESH",
    "TX_WTHRESH",
    "MEMPOOL_PREFIX",
    "DEF_RING_NDESC",
    "DEF_BURST_SIZE",
    "RING_SIZE",
    "RING_POOL_CACHE_SIZE",
    "RING_PRIV_DATA_SIZE",
];

impl Element for DPDKInfo {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        accept(arguments, KEYWORDS)?;
        arguments.positional::<u32>("NB_MBUF")?;
        arguments.finish()
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
