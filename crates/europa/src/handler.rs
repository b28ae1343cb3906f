//! Handlers of routers, asked through the node.

use europa_node::{Instance, Request, Response, ask};

fn answer(instance: &Instance, request: &Request) -> Result<String, String> {
    match ask(instance, request).map_err(|error| error.to_string())? {
        Response::Done(lines) => Ok(lines.join("\n")),
        Response::Failed(why) => Err(why),
        _ => Err("the node answered something else".into()),
    }
}

/// Reads `element.handler`, or a handler of the router itself.
pub(crate) fn read(instance: &Instance, router: &str, path: &str) -> Result<String, String> {
    let (router, path) = (router.to_owned(), path.to_owned());
    answer(instance, &Request::Read { router, path })
}

/// Writes `element.handler`, or a handler of the router itself.
pub(crate) fn write(
    instance: &Instance,
    router: &str,
    path: &str,
    value: &str,
) -> Result<(), String> {
    let (router, path, value) = (router.to_owned(), path.to_owned(), value.to_owned());
    answer(instance, &Request::Write { router, path, value }).map(drop)
}
