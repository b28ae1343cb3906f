//! `make demo`: two tenants with the same addresses on the same two ports, and their routers, which
//! are isolated from each other. The demo measures all figures while it runs.
//!
//! | file     | concern                                                         |
//! |----------|-----------------------------------------------------------------|
//! | `guard`  | removes everything when the demo ends                           |
//! | `hosts`  | four hosts, two bridges, and the node between them              |
//! | `node`   | requests to `europa`                                            |
//! | `run`    | the steps of the demo                                           |
//! | `report` | the messages during the demo, and the closing table             |
//! | `queues` | `make demo-queues`, the other demo                              |

mod guard;
mod hosts;
mod node;
mod queues;
mod report;
mod run;

use std::process::ExitCode;

/// The reason why the demo did not succeed.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

/// The argument of the process that does the work. The first process guards that process.
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
