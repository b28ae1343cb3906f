//! The texts of `builtin: ipv4` and `builtin: bridge`.

use europa_api::{At, Neighbour, Route, Router};

use crate::plan::InterfacePlan;

pub(crate) fn ipv4(
    _router: &Router,
    _interfaces: &[InterfacePlan],
    _routes: &[At<Route>],
    _neighbours: &[At<Neighbour>],
) -> Result<String, String> {
    Err("not yet".into())
}

pub(crate) fn bridge(_router: &Router, _interfaces: &[InterfacePlan]) -> Result<String, String> {
    Err("not yet".into())
}
