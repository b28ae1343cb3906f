//! Threads.

use europa_engine::InitContext;

pub(crate) mod balanced_thread_sched;
pub(crate) mod path_spinlock;
pub(crate) mod pipeliner;
pub(crate) mod static_thread_sched;

/// The element of this name, or all elements inside the compound of this name.
fn elements_of(name: &str, context: &InitContext<'_>) -> Vec<usize> {
    if let Some(element) = context.find(name) {
        return vec![element];
    }
    let start = match context.name().rsplit_once('/') {
        Some((scope, _)) => format!("{scope}/{name}/"),
        None => format!("{name}/"),
    };
    let names = context.names().iter().enumerate();
    names.filter(|(_, name)| name.starts_with(&start)).map(|(index, _)| index).collect()
}
