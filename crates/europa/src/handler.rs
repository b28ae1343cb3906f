//! Handlers of routers, asked through the node.

use europa_api::rest::HandlerValue;
use europa_client::escape;
use europa_node::Instance;

use crate::up::client;

fn url(router: &str, path: &str) -> Result<String, String> {
    let (slice, name) = router
        .split_once('/')
        .ok_or_else(|| format!("{router:?} is no router: write SLICE/ROUTER"))?;
    Ok(format!("/v1/routers/{}/{}/handlers/{}", escape(slice), escape(name), escape(path)))
}

/// Reads `element.handler`, or a handler of the router itself.
pub(crate) fn read(instance: &Instance, router: &str, path: &str) -> Result<String, String> {
    let answer = client(instance).get::<HandlerValue>(&url(router, path)?);
    answer.map(|answer| answer.value).map_err(|error| error.to_string())
}

/// Writes `element.handler`, or a handler of the router itself.
pub(crate) fn write(
    instance: &Instance,
    router: &str,
    path: &str,
    value: &str,
) -> Result<(), String> {
    let value = HandlerValue { value: value.to_owned() };
    let answer = client(instance).put::<HandlerValue>(&url(router, path)?, &value);
    answer.map(drop).map_err(|error| error.to_string())
}
