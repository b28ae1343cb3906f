//! Diagnosis of the router itself.

pub(crate) mod neighborhood_test;
pub(crate) mod notifier_debug;
pub(crate) mod panic_test;
pub(crate) mod sched_order_test;
pub(crate) mod timer_test;
