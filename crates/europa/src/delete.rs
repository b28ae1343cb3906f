//! `delete`: objects are removed.

use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::Applied;
use europa_node::Instance;

use crate::complete;
use crate::exit::Failure;
use crate::kinds::{Reference, plural};
use crate::up::{Progress, client, print};

/// Arguments of `delete`.
#[derive(Args)]
pub(crate) struct DeleteArgs {
    /// A kind and names, as in `router red/r1 red/r2`; or one or several KIND/NAME.
    #[arg(required = true, value_name = "KIND NAME|KIND/NAME", num_args = 1..,
        add = ArgValueCompleter::new(complete::objects))]
    objects: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn delete(instance: &Instance, args: &DeleteArgs) -> Result<ExitCode, Failure> {
    let objects = references(&args.objects)?;
    let client = client(instance);
    for (index, object) in objects.iter().enumerate() {
        let progress = Progress::new("removing");
        let applied = client.delete::<Applied>(&object.path());
        progress.end();
        match applied {
            Ok(applied) => print(&applied, args.json, false)?,
            Err(error) => {
                let left = objects.len() - index;
                if index > 0 {
                    eprintln!("europa: {index} objects were removed, {left} were not");
                }
                return Err(error.into());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The objects that a command line names; all are checked before any is removed.
fn references(words: &[String]) -> Result<Vec<Reference>, Failure> {
    let Some((first, names)) = words.split_first() else { return Ok(Vec::new()) };
    if Reference::parse(first).is_some() {
        return words.iter().map(|word| Reference::of(word, None)).collect();
    }
    let kind = plural(first)?;
    if names.is_empty() {
        return Err(Failure::usage(format!("which of the {kind} is to be removed? Add its name")));
    }
    Ok(names.iter().map(|name| Reference { kind, name: name.clone() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_objects_are_named_in_two_ways() {
        for (line, wanted) in [
            ("router red/r1 red/r2", Some("/v1/routers/red/r1 /v1/routers/red/r2")),
            ("router/red/r1 slice/red", Some("/v1/routers/red/r1 /v1/slices/red")),
            ("slice red", Some("/v1/slices/red")),
            ("router/red/r1 red", None),
            ("slice", None),
            ("frob red", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let paths = references(&words)
                .ok()
                .map(|all| all.iter().map(Reference::path).collect::<Vec<_>>().join(" "));
            assert_eq!(paths.as_deref(), wanted, "{line}");
        }
    }
}
