//! The `europa` binary: the command line, and the roles it starts itself in.
//!
//! | file       | concern                                                      |
//! |------------|--------------------------------------------------------------|
//! | `cli`      | what can be typed                                            |
//! | `exit`     | errors and exit codes                                        |
//! | `help`     | examples and exit codes of each command                      |
//! | `up`       | `up`, `apply`, `down`, `delete`: desired state changes       |
//! | `get`      | `get`, `describe`: documents and what became of them         |
//! | `show`     | `stats`, `doctor`                                            |
//! | `watch`    | `stats --watch`, `record`: counters again and again          |
//! | `top`      | `top`: the same on the whole terminal                        |
//! | `plot`     | `plot`: what was recorded, as charts                         |
//! | `rates`    | differences between two readings of counters                 |
//! | `routers`  | `read`, `write`, `restart`                                   |
//! | `capture`  | `capture`: packets to the terminal or into a file            |
//! | `trace`    | `trace`: single packets through a router                     |
//! | `graph`    | `graph`: drawings of the topology and of elements            |
//! | `filter`   | `filter`: rules of slices                                    |
//! | `handler`  | handlers of routers, for both                                |
//! | `import`   | topologies of other tools                                    |
//! | `follow`   | `events`, `logs`                                             |
//! | `print`    | `completion`, `man`, `schema`                                |
//! | `bench`    | `bench`: the harness that measures                           |
//! | `click`    | `click`: Click configurations without a node                 |
//! | `complete` | names of objects, for completion                             |
//! | `table`    | aligned columns, colours                                     |
//! | `slow_path`| `exec`, and the programs of slow paths                       |
//! | `roles`    | `node`, `switch` and `router` processes                      |

mod bench;
mod capture;
mod cli;
mod click;
mod complete;
mod exit;
mod filter;
mod follow;
mod get;
mod graph;
mod handler;
mod help;
mod import;
mod plot;
mod print;
mod rates;
mod roles;
mod routers;
mod show;
mod slow_path;
mod table;
mod top;
mod trace;
mod up;
mod watch;

use std::process::ExitCode;

use clap::CommandFactory;
use europa_pool::account::Counting;

/// Routers inside the switch share its heap: it counts who has how much.
#[global_allocator]
static HEAP: Counting = Counting;

fn main() -> ExitCode {
    // Answers the shell and ends, if a shell asks for completions.
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    match help::parse().run() {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}
