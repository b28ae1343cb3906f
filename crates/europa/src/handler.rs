//! Reads and writes handlers of routers, through the node.

use europa_api::rest::HandlerValue;
use europa_client::escape;
use europa_node::Instance;

use crate::exit::Failure;
use crate::routers;
use crate::up::client;

/// The path of a handler.
fn url(router: &str, path: &str) -> Result<String, Failure> {
    Ok(format!("{}/handlers/{}", routers::path(router)?, escape(path)))
}

/// Reads `element.handler`, or a handler of the router itself.
pub(crate) fn read(instance: &Instance, router: &str, path: &str) -> Result<String, Failure> {
    let answer = client(instance).get::<HandlerValue>(&url(router, path)?);
    Ok(answer?.value)
}

/// Writes `element.handler`, or a handler of the router itself.
pub(crate) fn write(
    instance: &Instance,
    router: &str,
    path: &str,
    value: &str,
) -> Result<(), Failure> {
    let value = HandlerValue { value: value.to_owned() };
    client(instance).put::<HandlerValue>(&url(router, path)?, &value)?;
    Ok(())
}
