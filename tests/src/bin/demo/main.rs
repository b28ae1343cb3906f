//! `make demo`: two tenants with the same addresses on the same two ports, their routers
//! isolated from each other. Everything shown is measured while it runs.
//!
//! | file     | concern                                                         |
//! |----------|-----------------------------------------------------------------|
//! | `guard`  | takes everything away again, whatever ends the demo             |
//! | `hosts`  | four hosts, two bridges, and the node between them              |
//! | `node`   | what is asked of `europa`                                       |
//! | `run`    | the demo itself                                                 |
//! | `report` | what is said on the way, and the closing table                  |
//! | `queues` | `make demo-queues`, the other demo                              |

mod guard;
mod hosts;
mod node;
mod queues;
mod report;
mod run;

use std::process::ExitCode;

/// Why the demo did not succeed.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

/// The argument of the process that does the work; the first one guards it.
const WORK: &str = "--work";
const WORK_QUEUES: &str = "--work-queues";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let result = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => guard::guard(WORK, &["iperf3", "ping", "nsenter"]),
        (Some("queues"), None) => guard::guard(WORK_QUEUES, &["nsenter"]),
        (Some(WORK_QUEUES), Some(instance)) => {
            queues::run(&instance).map_err(|error| error.to_string())
        }
        (Some(WORK), Some(instance)) => run::run(&instance).map_err(|error| error.to_string()),
        _ => Err("the demo takes no argument but `queues`".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("demo: {why}");
            ExitCode::FAILURE
        }
    }
}
