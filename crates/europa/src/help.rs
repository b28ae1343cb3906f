//! What `--help` and the manual pages say beside each command's own text: examples, and
//! how a script can tell what became of it.

use clap::{Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::exit::CODES;

/// Examples, by command.
const EXAMPLES: [(&str, &str); 23] = [
    (
        "up",
        "europa up examples/two-slices.yaml\n  europa up network.yaml tenants/\n  \
         europa --instance lab up topology.yaml",
    ),
    (
        "apply",
        "europa apply network.yaml --dry-run    what would change\n  \
         europa apply network.yaml              change it\n  \
         europa apply tenants/ --prune          and remove what is not there any more",
    ),
    (
        "click",
        "europa click router.click\n  europa click check router.click\n  \
         europa click -h counter.count router.click",
    ),
    ("bench", "europa bench graph --quick\n  europa bench veth latency --out results"),
    ("down", "europa down\n  europa --instance lab down"),
    (
        "get",
        "europa get routers\n  europa get router red/r1 --yaml > r1.yaml\n  europa get all --json",
    ),
    ("describe", "europa describe router red/r1\n  europa describe port left"),
    ("stats", "europa stats\n  europa stats --json | jq '.routers[].name'"),
    ("top", "europa top\n  europa top --every 0.25"),
    ("record", "europa record --every 0.1 --for 10 -o run.jsonl\n  europa record | jq .ports"),
    (
        "plot",
        "europa plot run.jsonl -o rates.svg\n  \
         europa plot run.jsonl --by interface --of red/r1 --figure drops -o drops.svg",
    ),
    ("events", "europa events\n  europa events --watch"),
    ("logs", "europa logs red/r1 -n 50\n  europa logs switch --follow"),
    (
        "read",
        "europa read red/r1 list\n  europa read red/r1 right.count\n  \
         europa read red/r1 route.lookup 10.0.2.2",
    ),
    ("write", "europa write red/r1 right.reset_counts"),
    ("restart", "europa restart red/r1 blue/r1"),
    ("delete", "europa delete router red/r2\n  europa delete slice red"),
    ("doctor", "europa doctor\n  europa doctor --json | jq '.[] | select(.verdict != \"works\")'"),
    (
        "completion",
        "europa completion bash > /etc/bash_completion.d/europa\n  \
         source <(europa completion zsh)",
    ),
    ("schema", "europa schema > europa.schema.json\n  europa schema --openapi > openapi.json"),
    (
        "filter",
        "europa filter load red rules.txt\n  \
         europa filter add red 'protocol: tcp, destination_port: 23, action: drop'\n  \
         europa filter list red\n  europa filter del red 7",
    ),
    ("import", "europa import containerlab lab.clab.yml > lab.yaml"),
    ("node", "europa node\n  systemctl enable --now europa@default"),
];

/// The command line, with its examples.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(name, dress);
    }
    command
}

/// Adds examples and exit codes to what a command says at its end.
fn dress(command: Command) -> Command {
    let own = command.get_after_long_help().or_else(|| command.get_after_help());
    let own = own.map(ToString::to_string);
    let examples = EXAMPLES
        .iter()
        .find(|(name, _)| *name == command.get_name())
        .map(|(_, text)| format!("Examples:\n  {text}"));
    let parts: Vec<String> = own.into_iter().chain(examples).chain([CODES.to_owned()]).collect();
    command.after_long_help(parts.join("\n\n"))
}

/// Reads the command line; ends the process if it makes no sense, or asks for help.
pub(crate) fn parse() -> Cli {
    let matches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_explains_itself() {
        let all = command();
        let mut wrong = Vec::new();
        for subcommand in all.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = subcommand.get_name();
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let end = subcommand.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            if about.is_empty() || about.contains('\n') || about.len() > 100 {
                wrong.push(format!("{name}: its line is {about:?}"));
            }
            if !end.contains("Example") || !end.contains("Exit codes:") {
                wrong.push(format!("{name}: ends with {end:?}"));
            }
            for argument in subcommand.get_arguments() {
                if argument.get_help().is_none() && !argument.is_hide_set() {
                    wrong.push(format!("{name}: {} is not explained", argument.get_id()));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn examples_are_of_commands_there_are_and_can_be_read() {
        for (name, text) in EXAMPLES {
            assert!(Cli::command().find_subcommand(name).is_some(), "{name}");
            for line in text.lines().map(str::trim).filter(|line| line.starts_with("europa ")) {
                let line = line.split(['|', '>']).next().unwrap_or(line);
                let line = line.split("    ").next().unwrap_or(line);
                if let Err(error) = Cli::command().try_get_matches_from(line.split_whitespace()) {
                    panic!("{line}: {error}");
                }
            }
        }
    }
}
