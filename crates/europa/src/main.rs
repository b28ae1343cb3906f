//! The `europa` binary: the command line, and the roles in which the node starts it.
//!
//! | file       | concern                                                      |
//! |------------|--------------------------------------------------------------|
//! | `cli`      | the commands and their options                               |
//! | `exit`     | errors and exit codes                                        |
//! | `help`     | examples and exit codes of each command                      |
//! | `up`       | `up`, `apply`, `diff`, `down`: the configuration changes     |
//! | `delete`   | `delete`: objects are removed                                |
//! | `status`   | `status`: the node in a few lines                            |
//! | `get`      | `get`: documents and their state                             |
//! | `describe` | `describe`: everything about one object                      |
//! | `observe`  | `watch`: objects whenever they change                        |
//! | `explain`  | `explain`: the fields of documents                           |
//! | `kinds`    | kinds of objects, and how objects are named                  |
//! | `show`     | `stats`, `doctor`                                            |
//! | `selected` | `stats NAME`: the counters of one object                     |
//! | `watch`    | `stats --watch`, `record`: counters at intervals             |
//! | `top`      | `top`: the same on the whole terminal                        |
//! | `plot`     | `plot`: charts of a recording                                |
//! | `rates`    | differences between two readings of counters                 |
//! | `routers`  | `read`, `write`, `restart`                                   |
//! | `capture`  | `capture`: packets to the terminal or into a file            |
//! | `trace`    | `trace`: single packets through a router                     |
//! | `graph`    | `graph`: drawings of the topology and of elements            |
//! | `filter`   | `filter`: rules of slices                                    |
//! | `token`    | `token`: tokens of users                                     |
//! | `login`    | `login`, `logout`, `context`: nodes on other machines        |
//! | `target`   | which node a command talks to                                |
//! | `handler`  | handlers of routers, for `trace` and `graph`                 |
//! | `i3`       | servers and clients of the Internet Indirection Infrastructure |
//! | `import`   | topologies of other tools                                    |
//! | `sdk`      | crates with elements of users' own                           |
//! | `follow`   | `events`, `logs`                                             |
//! | `print`    | `completion`, `man`, `schema`                                |
//! | `bench`    | `bench`: starts the benchmark                                |
//! | `click`    | `click`: Click configurations without a node                 |
//! | `cluster`  | `cluster`: several nodes with their documents in etcd        |
//! | `check`    | `check`: mistakes in XDP programs                            |
//! | `compile`  | `compile`: XDP programs from C, by clang in a sandbox        |
//! | `complete` | completion in the shell                                      |
//! | `table`    | aligned columns, numbers with units, colours                 |
//! | `text_difference` | lines in which two texts differ                       |
//! | `slow_path`| `exec`, and the programs of slow paths                       |
//! | `ssh`      | logins by SSH                                                |
//! | `stand_in` | the commands `containerlab` and `docker`                     |
//! | `roles`    | `node`, `switch` and `router` processes                      |

mod bench;
mod capture;
mod check;
mod cli;
mod click;
mod cluster;
mod compile;
mod complete;
mod delete;
mod describe;
mod exec;
mod exit;
mod explain;
mod filter;
mod follow;
mod get;
mod graph;
mod handler;
mod help;
mod host;
mod i3;
mod image_store;
mod import;
mod kinds;
mod login;
mod lsp;
mod observe;
mod plot;
mod print;
mod rates;
mod roles;
mod routers;
mod sdk;
mod selected;
mod show;
mod slow_path;
mod ssh;
mod stand_in;
mod status;
mod table;
mod target;
mod text_difference;
mod token;
mod top;
mod trace;
mod up;
mod watch;

use std::process::ExitCode;

use clap::CommandFactory;
use europa_pool::account::Counting;

/// Inline routers share the switch's heap; this allocator counts the bytes of each router.
#[global_allocator]
static HEAP: Counting = Counting;

fn main() -> ExitCode {
    roles::raise_descriptors();
    if let Some(code) = stand_in::called() {
        return code;
    }
    // If a shell requests completions, this prints them and ends the process.
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    match help::parse().run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
