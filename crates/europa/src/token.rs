//! `token`: makes, lists and revokes tokens of users.

use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::{MadeToken, NewToken, Said, TokenList};
use europa_client::escape;
use europa_node::Instance;

use crate::complete;
use crate::exit::Failure;
use crate::table::{Colours, Table, line, out};
use crate::up::client;

/// The subcommands of `token`.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print it, which is possible only now. Only an admin may do this.
    Create {
        /// The user.
        #[arg(add = ArgValueCompleter::new(complete::users))]
        user: String,
        /// Time for which the token is valid: a number with s, m, h or d.
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = seconds)]
        expires: u64,
        /// A note for users.
        #[arg(long)]
        note: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the valid tokens of a user, without their secrets.
    List {
        /// The user.
        #[arg(add = ArgValueCompleter::new(complete::users))]
        user: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token: the node refuses requests with it from now on, and closes its connections.
    Revoke {
        /// The user.
        #[arg(add = ArgValueCompleter::new(complete::users))]
        user: String,
        /// The token's id, as `list` shows it.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Revoke all of the user's.
        #[arg(long)]
        all: bool,
    },
}

/// A time like `30d` in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no time: write a number with s, m, h or d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

fn path(user: &str) -> String {
    format!("/v1/users/{}/tokens", escape(user))
}

pub(crate) fn token(instance: &Instance, command: &TokenCommand) -> Result<ExitCode, Failure> {
    let client = client(instance);
    match command {
        TokenCommand::Create { user, expires, note, json } => {
            let wanted = NewToken { seconds: *expires, note: note.clone() };
            let made: MadeToken = client.post(&path(user), &wanted)?;
            match json {
                true => line!("{}", serde_json::to_string_pretty(&made)?),
                false => {
                    line!("{}", made.token);
                    eprintln!(
                        "token {} of {user}, valid until {}",
                        made.info.id, made.info.expires
                    );
                }
            }
        }
        TokenCommand::List { user, json } => {
            let list: TokenList = client.get(&path(user))?;
            if *json {
                line!("{}", serde_json::to_string_pretty(&list)?);
                return Ok(ExitCode::SUCCESS);
            }
            let mut table = Table::new(&["ID", "CREATED", "EXPIRES", "NOTE"]);
            for token in list.tokens {
                let note = token.note.unwrap_or_else(|| "-".to_owned());
                table.row([token.id, token.created, token.expires, note]);
            }
            out!("{}", table.text(Colours::stdout()));
        }
        TokenCommand::Revoke { user, id, all: _ } => {
            let id = id.as_deref().unwrap_or("all");
            let said: Said = client.delete(&format!("{}/{}", path(user), escape(id)))?;
            said.lines.iter().for_each(|told| line!("{told}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, wanted) in [
            ("30d", Some(2_592_000)),
            ("12h", Some(43_200)),
            ("1s", Some(1)),
            ("0s", None),
            ("30", None),
            ("d", None),
            ("", None),
            ("é", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(seconds(text).ok(), wanted, "{text}");
        }
    }
}
