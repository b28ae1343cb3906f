//! The `europa` binary: the command line, and the roles it starts itself in.
//!
//! | file       | concern                                              |
//! |------------|------------------------------------------------------|
//! | `cli`      | what can be typed                                    |
//! | `up`       | `up` and `down`                                      |
//! | `show`     | `stats`, `doctor`, `read`: what is printed           |
//! | `capture`  | `capture`: packets to the terminal or into a file     |
//! | `trace`    | `trace`: single packets through a router             |
//! | `graph`    | `graph`: drawings of the topology and of elements     |
//! | `handler`  | handlers of routers, asked through the node          |
//! | `import`   | topologies of other tools                            |
//! | `roles`    | `node`, `switch` and `router` processes              |

mod capture;
mod cli;
mod graph;
mod handler;
mod import;
mod roles;
mod show;
mod trace;
mod up;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("europa: {message}");
            ExitCode::FAILURE
        }
    }
}
