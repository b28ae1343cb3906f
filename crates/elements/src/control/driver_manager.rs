//! # DriverManager
//!
//! ## Synopsis
//! `DriverManager(INSTRUCTION, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Decides when the router stops. Where something asks it to stop, by `STOP true` or the `stop`
//! handler, the script makes a step instead; the router stops when the script ends. So
//! `DriverManager(pause, write k.flush, wait 0.1s, stop)` gives others time to finish. Otherwise
//! a `Script`, with its instructions; without any it stops at the first request. A router can
//! have one.
//!
//! ## Arguments
//! - INSTRUCTION: see `Script`.
//!
//! ## Handlers
//! Those of `Script`.
//!
//! ## See also
//! `Script`

/// A script that decides when the router stops.
pub(crate) type DriverManager = crate::control::script::Scripted<true>;
