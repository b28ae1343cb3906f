//! `login`, `logout`, `context`: choose nodes on other machines.

use std::process::ExitCode;

use clap::Subcommand;
use europa_api::rest::Whoami;
use europa_client::Client;

use crate::exit::Failure;
use crate::table::{Colours, Table, line, out};
use crate::target::{Context, Contexts, LOCAL, TargetArgs, text_of};

/// The subcommands of `context`.
#[derive(Subcommand)]
pub(crate) enum ContextCommand {
    /// List all contexts; a star marks the current one.
    List,
    /// Use a context from now on; `local` is the node of this machine.
    Use {
        /// Its name.
        name: String,
    },
}

/// Checks a token at a node, and stores both as the current context.
pub(crate) fn login(
    url: &str,
    user: &str,
    name: Option<&str>,
    target: &TargetArgs,
) -> Result<ExitCode, Failure> {
    let Some(path) = &target.token_file else {
        return Err(Failure::usage("where is the token? Give --token-file; `-` is standard input"));
    };
    let token = text_of(path)?.trim().to_owned();
    let ca = target.ca.as_deref().map(text_of).transpose()?;
    let url = url.trim_end_matches('/').to_owned();
    let context = Context { url, user: user.to_owned(), token, ca };
    let known: Whoami = Client::remote(context.remote()?).get("/v1/whoami")?;
    if known.name != user {
        return Err(format!("this token is of another user than {user}").into());
    }
    let host = context.url.trim_start_matches("https://");
    let name = name.map_or_else(|| format!("{user}@{host}"), str::to_owned);
    if name == LOCAL {
        return Err(Failure::usage(format!(
            "{LOCAL:?} is the node of this machine: choose another"
        )));
    }
    let mut contexts = Contexts::read()?;
    contexts.contexts.insert(name.clone(), context);
    contexts.current = Some(name.clone());
    contexts.write()?;
    line!("context {name}: {}", rights(&known));
    Ok(ExitCode::SUCCESS)
}

fn rights(known: &Whoami) -> String {
    if known.admin {
        return "admin".to_owned();
    }
    let roles: Vec<String> =
        known.roles.iter().map(|(slice, role)| format!("{} of {slice}", role.word())).collect();
    if roles.is_empty() { "no role on any slice".to_owned() } else { roles.join(", ") }
}

/// Deletes a context and its token: the named context, or the current one.
pub(crate) fn logout(name: Option<&str>) -> Result<ExitCode, Failure> {
    let mut contexts = Contexts::read()?;
    let name = name.map(str::to_owned).or_else(|| contexts.current.clone());
    let Some(name) = name.filter(|name| contexts.contexts.remove(name).is_some()) else {
        return Err(Failure::missing("there is no such context"));
    };
    if contexts.current.as_ref() == Some(&name) {
        contexts.current = None;
    }
    contexts.write()?;
    line!("context {name} is forgotten; its token is valid until it expires or is revoked");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn context(command: &ContextCommand) -> Result<ExitCode, Failure> {
    let mut contexts = Contexts::read()?;
    match command {
        ContextCommand::List => {
            let mut table = Table::new(&["", "NAME", "NODE", "USER"]);
            let star = |used: bool| if used { "*".to_owned() } else { String::new() };
            let is_local = contexts.current.is_none();
            table.row([
                star(is_local),
                LOCAL.to_owned(),
                "this machine".to_owned(),
                "-".to_owned(),
            ]);
            for (name, context) in &contexts.contexts {
                let used = contexts.current.as_ref() == Some(name);
                table.row([star(used), name.clone(), context.url.clone(), context.user.clone()]);
            }
            out!("{}", table.text(Colours::stdout()));
        }
        ContextCommand::Use { name } => {
            contexts.current = match name.as_str() {
                LOCAL => None,
                name if contexts.contexts.contains_key(name) => Some(name.to_owned()),
                _ => {
                    let known: Vec<&str> = contexts.contexts.keys().map(String::as_str).collect();
                    let known = [&[LOCAL][..], known.as_slice()].concat().join(", ");
                    return Err(Failure::missing(format!(
                        "there is no context {name:?}; there are: {known}"
                    )));
                }
            };
            contexts.write()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
