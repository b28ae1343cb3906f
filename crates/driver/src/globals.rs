//! Handlers of the router itself about its configuration.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use europa_engine::{Flags, HandlerError, Registry, Request, Router};

use crate::clock::{Clock, Pace};

/// Adds read handlers with constant answers.
pub(crate) fn add_texts(
    router: &mut Router,
    text: &str,
    checked: &europa_click::Graph,
    registry: &Registry,
) {
    let flat = checked.to_string();
    let compact = checked.requirements.iter().any(|r| r.kind == "compact_config");
    let requirements: String = checked
        .requirements
        .iter()
        .map(|requirement| format!("{} {}", requirement.kind, requirement.value).trim().to_owned())
        .map(|line| line + "\n")
        .collect();
    let classes: String = registry.classes().map(|class| format!("{}\n", class.name)).collect();
    // A configuration that requires `compact` drops its text to save memory.
    let config = if compact { flat.clone() } else { text.to_owned() };
    for (name, answer) in [
        ("config", config),
        ("flatconfig", flat),
        ("requirements", requirements),
        ("classes", classes),
        ("packages", String::new()),
        ("driver", "userlevel".to_owned()),
    ] {
        let flags = Flags::READ.with(Flags::CALM);
        let answer = move |_: Request<'_>| Ok(answer.clone());
        router.add_global(name, flags, Box::new(answer));
    }
}

/// The speed of time: a factor, `nowait`, or `simulation`, which cannot be changed.
pub(crate) fn add_timewarp(router: &mut Router, clock: &Rc<Cell<Clock>>) {
    let simulated = clock.get().pace() == Pace::Simulated;
    let flags = if simulated { Flags::READ } else { Flags::READ.with(Flags::WRITE) };
    let clock = clock.clone();
    let answer = move |request: Request<'_>| match request {
        Request::Read(_) => Ok(match clock.get().pace() {
            Pace::Simulated => "simulation".to_owned(),
            Pace::NoWait => "nowait".to_owned(),
            Pace::Linear(speed) => speed.to_string(),
        }),
        Request::Write(text) => {
            let speed = text.trim().parse().ok().filter(|speed: &f64| *speed > 0.0 && *speed < 1e6);
            let pace = match (text.trim(), speed) {
                ("nowait", _) => Pace::NoWait,
                (_, Some(speed)) => Pace::Linear(speed),
                _ => return Err(HandlerError::value("timewarp", text, "'nowait' or factor > 0")),
            };
            let mut changed = clock.get();
            changed.set_pace(pace);
            clock.set(changed);
            Ok(String::new())
        }
    };
    router.add_global("timewarp", flags, Box::new(answer));
}

/// The graph that `hotconfig` has made, until the loop takes it.
pub(crate) type Pending<T> = Rc<RefCell<Option<T>>>;

/// Adds the handler that takes another configuration.
pub(crate) fn add_hotconfig<T: 'static>(
    router: &mut Router,
    pending: &Pending<T>,
    mut make: impl FnMut(&str) -> Result<T, String> + 'static,
) {
    let pending = pending.clone();
    let answer = move |request: Request<'_>| match request {
        Request::Read(_) => Err(HandlerError::WriteOnly("hotconfig".to_owned())),
        Request::Write(text) => {
            let made = make(text).map_err(HandlerError::Other)?;
            *pending.borrow_mut() = Some(made);
            Ok(String::new())
        }
    };
    router.add_global("hotconfig", Flags::WRITE.with(Flags::RAW), Box::new(answer));
}
