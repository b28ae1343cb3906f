//! Schedulers of pulls.

pub(crate) mod drr_sched;
pub(crate) mod prio_sched;
pub(crate) mod round_robin_sched;
pub(crate) mod simple_prio_sched;
pub(crate) mod simple_rr_sched;
pub(crate) mod stride;
pub(crate) mod stride_sched;
pub(crate) mod time_sorted_sched;
