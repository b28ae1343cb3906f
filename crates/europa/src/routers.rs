//! `read`, `write`, `restart`: commands for a running router.

use std::process::ExitCode;

use europa_api::rest::{HandlerValue, Objects, Said};
use europa_client::escape;
use europa_node::Instance;
use serde_json::Value;

use crate::exit::Failure;
use crate::table::line;
use crate::up::client;

/// Routers that a message names.
const MOST_NAMED: usize = 20;

/// The path of a router's resources.
pub(crate) fn path(router: &str) -> Result<String, Failure> {
    match router.split_once('/') {
        Some((slice, name)) => Ok(format!("/v1/routers/{}/{}", escape(slice), escape(name))),
        None => Err(Failure::usage(format!("{router:?} names no router: write SLICE/ROUTER"))),
    }
}

/// A sentence that lists the routers; empty if no node answers.
pub(crate) fn known(instance: &Instance) -> String {
    let Ok(all) = client(instance).get::<Objects>("/v1/routers") else { return String::new() };
    let mut names: Vec<String> = all.items.into_iter().map(|router| router.name).collect();
    if names.is_empty() {
        return "there are no routers".to_owned();
    }
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("there are: {}{more}", names.join(", "))
}

pub(crate) fn read(
    instance: &Instance,
    router: &str,
    handler: &str,
    parameter: Option<&str>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let query = parameter.map_or(String::new(), |text| format!("?parameter={}", escape(text)));
    let path = format!("{}/handlers/{}{query}", path(router)?, escape(handler));
    let value: HandlerValue = client(instance).get(&path)?;
    if json {
        line!("{}", serde_json::to_string(&value)?);
    } else {
        line!("{}", value.value.strip_suffix('\n').unwrap_or(&value.value));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write(
    instance: &Instance,
    router: &str,
    handler: &str,
    value: String,
) -> Result<ExitCode, Failure> {
    let path = format!("{}/handlers/{}", path(router)?, escape(handler));
    client(instance).put::<HandlerValue>(&path, &HandlerValue { value })?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn restart(instance: &Instance, routers: &[String]) -> Result<ExitCode, Failure> {
    let client = client(instance);
    for router in routers {
        client.post::<Said>(&format!("{}/restart", path(router)?), &Value::Null)?;
        line!("router {router} restarted");
    }
    Ok(ExitCode::SUCCESS)
}
