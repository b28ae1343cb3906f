//! # DriverManager
//!
//! ## Synopsis
//! `DriverManager(INSTRUCTION, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Decides when the router stops. When an element asks the router to stop, by `STOP true` or the
//! `stop` handler, the script makes a step instead. The router stops when the script ends. So
//! `DriverManager(pause, write k.flush, wait 0.1s, stop)` gives other elements time to finish.
//! Otherwise it is a `Script`, with the same instructions. Without instructions it stops at the
//! first request. A router can have one `DriverManager`.
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
