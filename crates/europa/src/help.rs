//! Adds examples and exit codes to the text of each command in `--help` and the manual pages.

use clap::{Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::exit::CODES;

/// Examples, by command.
const EXAMPLES: [(&str, &str); 39] = [
    (
        "up",
        "europa up examples/two-slices.yaml\n  europa up network.yaml tenants/\n  \
         europa --instance lab up topology.yaml",
    ),
    (
        "apply",
        "europa apply network.yaml --dry-run    show what would change\n  \
         europa apply -f network.yaml           change it\n  \
         europa apply tenants/ --prune          and remove all objects that are not in tenants/",
    ),
    ("diff", "europa diff network.yaml\n  europa diff -f tenants/ --prune --exit-code"),
    ("status", "europa status\n  europa status --json | jq .not_as_configured"),
    (
        "click",
        "europa click router.click\n  europa click check router.click\n  \
         europa click -h counter.count router.click",
    ),
    (
        "cluster",
        "europa cluster dev 3                   try it on one machine\n  \
         europa cluster apply lab.yaml\n  europa cluster status\n  \
         europa cluster drain n2 --dry-run      show what would move to other nodes\n  \
         europa cluster agent --name n1 --etcd https://10.0.0.1:2379",
    ),
    ("check", "europa check filter.bpf.c"),
    ("compile", "europa compile filter.bpf.c -o filter.o"),
    ("bench", "europa bench graph --quick\n  europa bench veth latency --out results"),
    ("down", "europa down\n  europa --instance lab down"),
    (
        "get",
        "europa get routers\n  europa get router/red/r1 -o yaml > r1.yaml\n  \
         europa get all -o json\n  europa get ports -o wide",
    ),
    ("describe", "europa describe router red/r1\n  europa describe port/left"),
    ("watch", "europa watch routers\n  europa watch router/red/r1 --every 0.2"),
    (
        "explain",
        "europa explain\n  europa explain router\n  europa explain router.fast_path.routes",
    ),
    (
        "stats",
        "europa stats\n  europa stats red/r1\n  europa stats red --watch\n  \
         europa stats --json | jq '.routers[].name'",
    ),
    ("top", "europa top\n  europa top --every 0.25"),
    ("record", "europa record --every 0.1 --for 10 -o run.jsonl\n  europa record | jq .ports"),
    (
        "plot",
        "europa plot run.jsonl -o rates.svg\n  \
         europa plot run.jsonl --by interface --of red/r1 --figure drops -o drops.svg",
    ),
    ("events", "europa events\n  europa events --watch"),
    ("logs", "europa logs red/r1 --tail 50\n  europa logs switch --follow"),
    (
        "read",
        "europa read red/r1 list\n  europa read red/r1 right.count\n  \
         europa read red/r1 route.lookup 10.0.2.2",
    ),
    ("write", "europa write red/r1 right.reset_counts"),
    ("restart", "europa restart red/r1 blue/r1"),
    ("delete", "europa delete router red/r1 red/r2\n  europa delete router/red/r1 slice/red"),
    (
        "doctor",
        "europa doctor\n  europa doctor --live\n  europa doctor --json | jq '.[] | select(.verdict != \"works\")'",
    ),
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
    (
        "lsp",
        "europa lsp list\n  europa lsp show voice --json\n  \
         europa lsp create video --slice lab --from head --to tail --bandwidth 5Mb/s\n  \
         europa lsp change video --path north,south\n  europa lsp delete video",
    ),
    ("token", "europa token create alice --expires 30d > alice.token\n  europa token list alice"),
    (
        "login",
        "europa login https://node.example:7443 --user alice --token-file alice.token --ca ca.pem",
    ),
    ("logout", "europa logout"),
    ("context", "europa context list\n  europa context use local"),
    ("ssh-config", "europa ssh-config >> ~/.ssh/config\n  scp file red.r1:"),
    (
        "i3",
        "europa i3 serve 10.0.0.1:5610 --join 10.0.0.1:5610,10.0.0.2:5610\n  \
         europa i3 receive chat --server 10.0.0.1:5610\n  \
         europa i3 send chat hello --server 10.0.0.2:5610",
    ),
    ("import", "europa import containerlab lab.clab.yml > lab.yaml"),
    (
        "sdk",
        "europa sdk new element every-third\n  europa sdk new c marker\n  europa sdk new python marker",
    ),
    ("clab", "europa clab install /usr/local/lib/europa/clab"),
    ("node", "europa node\n  systemctl enable --now europa@default"),
];

/// The commands in the order of `europa --help`, by purpose.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Configure", &["up", "apply", "diff", "delete", "down", "explain", "import", "clab"]),
    ("State", &["status", "get", "describe", "watch", "events", "logs", "doctor"]),
    ("Counters", &["stats", "top", "record", "plot"]),
    ("Packets", &["capture", "trace", "graph", "filter", "lsp"]),
    ("Routers", &["read", "write", "restart", "exec"]),
    ("Users", &["login", "logout", "context", "token", "ssh-config"]),
    ("Between machines", &["cluster", "i3"]),
    ("Code", &["click", "sdk", "check", "compile"]),
    ("Other", &["node", "bench", "completion", "schema", "help"]),
];

/// The list of commands for `europa --help`.
fn list(command: &Command) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        text += &format!("{group}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(
                || "Explain a command".to_owned(),
                |about| about.to_string().trim_end_matches('.').to_owned(),
            );
            text += &format!("  {name:<11} {about}\n");
        }
        text.push('\n');
    }
    text
}

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
    let list = list(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n\
         {{options}}{{after-help}}"
    ))
}

/// Adds examples and exit codes to the end of a command's help.
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

/// Reads the command line. A wrong command line, or a request for help, ends the process.
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
    fn every_command_is_in_one_group() {
        let all = command();
        let mut named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let shown = all.get_subcommands().filter(|one| !one.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).chain(["help"]).collect();
        named.sort_unstable();
        shown.sort_unstable();
        assert_eq!(named, shown);
        let text = command().render_help().to_string();
        assert!(text.contains("\n  apply       Apply files"), "{text}");
        assert!(text.contains("--instance <NAME>"), "{text}");
    }

    #[test]
    fn examples_belong_to_commands_and_can_be_parsed() {
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
