//! # IP6Forward
//!
//! ## Synopsis
//! `IP6Forward(ETH, MTU)`
//!
//! ## Ports
//! One push input. Output 0: packets that are ready to be sent. Output 1: packets that Linux must
//! handle. Output 2, if connected: packets that Linux's policy makes Linux forward; else they leave
//! by output 1 too.
//!
//! ## Description
//! As `IPForward`, for IPv6. Packets that are too long leave by output 1: Linux sends the error.
//!
//! ## Arguments
//! - ETH: the interface's Ethernet address.
//! - MTU: longest packet in bytes.
//!
//! ## Handlers
//! - `load` (write): lines of `set ADDRESS ETH` or `remove ADDRESS`.
//! - `table` (read): all neighbours.
//! - `used` (read): neighbours to which packets were sent since the last read.
//! - `count` (read): number of neighbours.
//! - `passed` (read): packets that are for Linux.
//! - `policy` (read, write): as of `IPForward`.
//! - `reasons` (read): as of `IPForward`.
//!
//! ## See also
//! `IPForward`, `ToHost`, `LookupIP6Route`, `IP6NDSolicitor`

use europa_engine::{Batch, Class, ClassInfo, Context, Element};

use crate::forward::ip_forward::{Forward, forward_class};

forward_class!(
    IP6Forward,
    u128,
    "IP6Forward",
    "1/1-3",
    "Sends IPv6 packets to neighbours, or to Linux."
);
