//! Attempts of users to get further than their routers.

use super::*;

/// An attempt: its description, options, the words, and the text of the refusal.
type Attempt<'a> = (&'a str, &'a [&'a str], &'a str, &'a str);

#[test]
fn thirty_attempts_and_none_gets_further() {
    skip_without!("ssh", "ssh-keygen", "sshd", "useradd");
    let net = Net::up();
    let long = format!("red/r1 true {}", "x".repeat(70_000));
    let to_rest = format!("127.0.0.1:{}", net.port);
    let to_rest = ["-W", &*to_rest];
    let no_router = "names no router";
    let attempts: Vec<Attempt<'_>> = vec![
        ("no router", &[], "", "no router is named"),
        ("blanks", &[], "  ", "no router is named"),
        ("an option", &[], " -oProxyCommand=id", no_router),
        ("two dashes", &[], " -- red/r1", no_router),
        ("an option of europa", &[], " --user carol", no_router),
        ("a path upward", &[], "../blue/secret", no_router),
        ("a path inside", &[], "red/../blue/secret", no_router),
        ("three parts", &[], "red/r1/x id", no_router),
        ("an absolute path", &[], "/bin/sh", no_router),
        ("a command behind a semicolon", &[], "red/r1;id", no_router),
        ("a command in a word", &[], "$(id)", no_router),
        ("the same in back quotes", &[], "`id`", no_router),
        ("a quote", &[], "'red/r1' id", no_router),
        ("capitals", &[], "RED/R1 id", no_router),
        ("a null word", &[], "\\0 id", no_router),
        ("a host", &[], "pc1 id", "there is no router"),
        ("the old scp", &[], "scp -t .", "there is no router"),
        ("rsync without a router", &[], "rsync --server . .", "there is no router"),
        ("sftp as a command", &[], "internal-sftp", "there is no router"),
        ("an sshd without a router", &[], "@sshd", no_router),
        ("an sshd of another", &[], "blue/secret @sshd", "there is no router"),
        ("too long", &[], &long, "more than 65536 bytes"),
        ("a variable that is an option", &["-o", "SetEnv=EUROPA_ROUTER=-oX"], "id", no_router),
        ("a variable with a path", &["-o", "SetEnv=EUROPA_ROUTER=../blue/secret"], "id", no_router),
        ("a variable with a command", &["-o", "SetEnv=EUROPA_ROUTER=red/r1;id"], "id", no_router),
        (
            "another's by a variable",
            &["-o", "SetEnv=EUROPA_ROUTER=blue/secret"],
            "red/r1 id",
            "there is no router",
        ),
        ("the sftp subsystem", &["-s"], "sftp", "subsystem request failed"),
        ("another subsystem", &["-s"], "red/r1", "subsystem request failed"),
        ("a connection from the node", &to_rest, "", "forwarding failed"),
        (
            "a port of the node",
            &["-N", "-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:9"],
            "",
            "forwarding failed",
        ),
        (
            "a socket of the node",
            &["-N", "-o", "ExitOnForwardFailure=yes", "-R", "/tmp/europa-forwarded:127.0.0.1:9"],
            "",
            "forwarding failed",
        ),
        (
            "a password",
            &[
                "-o",
                "PubkeyAuthentication=no",
                "-o",
                "PreferredAuthentications=password,keyboard-interactive",
            ],
            "red/r1 id",
            "Permission denied (publickey)",
        ),
        ("root", &["-l", "root"], "red/r1 id", "Permission denied (publickey)"),
    ];
    assert!(attempts.len() >= 30);
    let mut through = Vec::new();
    for (what, options, line, wanted) in &attempts {
        let words: &[&str] = if line.is_empty() { &[] } else { &[line] };
        let output = net.ssh("alice", options, words);
        let refused = !output.status.success() && output.stdout.is_empty();
        if !refused || !output.stderr.contains(wanted) {
            through.push(format!("{what}: not {wanted:?}: {output:?}"));
        }
    }
    assert!(through.is_empty(), "{}", through.join("\n"));
    assert!(!std::path::Path::new("/tmp/europa-forwarded").exists());
}

#[test]
fn nothing_of_the_client_or_the_machine_comes_along() {
    skip_without!("ssh", "ssh-keygen", "ssh-agent", "sshd", "useradd", "setpriv");
    let net = Net::up();
    let set = "SetEnv=LD_PRELOAD=/no.so BASH_ENV=/no ENV=/no PATH=/no EUROPA_INSTANCE=no COMPLETE=bash \
               SSH_ORIGINAL_COMMAND=blue/secret LC_ALL=no";
    let options = ["-o", set, "-A", "-X", "-o", "ForwardX11Trusted=yes"];
    let words = ["red/r1", "hostname; echo $LD_PRELOAD$BASH_ENV$ENV$LC_ALL$SSH_AUTH_SOCK$DISPLAY."];
    let mut argv: Vec<String> = ["ssh-agent", "env", "DISPLAY=:7"].map(str::to_owned).to_vec();
    argv.extend(net.argv("ssh", "alice", &options));
    argv.extend(["europa@127.0.0.1", words[0], words[1]].map(str::to_owned));
    argv.retain(|word| word != "IdentityAgent=none");
    let at = argv.windows(2).position(|two| two == ["-o", "-o"]).expect("the agent's option");
    argv.remove(at);
    let output = Process::start(&argv).expect("ssh").wait(PATIENCE).expect("it ends");
    assert_eq!(output.stdout, "r1\n.\n", "{output:?}");
    assert!(!output.stderr.contains("ld.so"), "{output:?}");

    // The account may request keys and sessions, and nothing else.
    let program = format!("/run/europa/.ssh/{}/europa", net.node.instance());
    let as_account = |arguments: &[&str]| {
        let user =
            ["setpriv", "--reuid", "europa", "--regid", "europa", "--clear-groups", &program];
        let argv = [&user[..], &["--instance", net.node.instance()], arguments].concat();
        Process::start(&argv).expect("setpriv").wait(PATIENCE).expect("it ends")
    };
    for arguments in [&["get", "routers"][..], &["down"], &["exec", "red/r1", "id"]] {
        let output = as_account(arguments);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
    let key = fs::read_to_string(net.key("alice").with_extension("pub")).expect("a key");
    let words: Vec<&str> = key.split(' ').collect();
    let line = as_account(&["ssh-keys", words[0], words[1]]).stdout;
    assert!(line.starts_with("restrict,pty,command=\"/run/europa/.ssh/"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(as_account(&["ssh-keys", words[0], &words[1][1..]]).stdout, "");
    // Another user, even root, gets no answer there, and neither does a key of another user.
    let session = |key: &str| ["session", "--user", "carol", "--key", key].map(str::to_owned);
    let fingerprint =
        line.split("--key ").nth(1).and_then(|rest| rest.split('"').next()).expect("a key");
    let strange = session(fingerprint);
    let strange: Vec<&str> = strange.iter().map(String::as_str).collect();
    let output = net.node.attempt(&strange);
    assert!(!output.status.success() && output.stderr.contains("europa:"), "{output:?}");
    assert!(net.events("LoginRefused").is_empty(), "root is not heard");
    let mut argv =
        vec!["setpriv", "--reuid", "europa", "--regid", "europa", "--clear-groups", "env"];
    argv.extend([
        "SSH_ORIGINAL_COMMAND=blue/secret id",
        &program,
        "--instance",
        net.node.instance(),
    ]);
    argv.extend(strange);
    let output = Process::start(&argv).expect("setpriv").wait(PATIENCE).expect("it ends");
    assert!(output.stderr.contains("this key is not of user carol"), "{output:?}");
    assert_eq!(net.events("LoginRefused").len(), 1);
    // No program inside reaches the machine.
    for (line, wanted) in [
        ("red/r1 ls /run/europa", "No such file"),
        ("red/r1 cat /etc/shadow", "Permission denied"),
        ("red/r1 echo x > /etc/europa-was-here", "Read-only file system"),
        ("red/r1 kill -9 1", "not permitted"),
        ("red/r1 chroot /proc/1/root id", "Permission denied"),
    ] {
        let output = net.ssh("alice", &[], &[line]);
        assert!(!output.status.success() && output.stderr.contains(wanted), "{line}: {output:?}");
    }
}
