//! `europa ssh-config`: an sshd inside the router serves files and forwards connections.

use super::*;

#[test]
fn files_and_forwarded_ports_are_the_routers_own() {
    skip_without!("ssh", "scp", "sftp", "ssh-keygen", "sshd", "useradd", "python3");
    let net = Net::up();
    let key = net.key("alice").display().to_string();
    let entries = net.node.run(&["ssh-config", "--identity", &key]);
    assert_eq!(entries.matches("Host ").count(), 2, "{entries}");
    assert!(
        entries.contains("Host red.r1\n") && entries.contains("Host blue.secret\n"),
        "{entries}"
    );
    // The outer connection of a test knows no host keys.
    let outer = net.node.file(
        "outer",
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n\
        LogLevel ERROR\nBatchMode yes\nIdentitiesOnly yes\nIdentityAgent none\n",
    );
    let common = "Host *\n    BatchMode yes\n    IdentitiesOnly yes\n    IdentityAgent none\n";
    let entries = entries.replace("ProxyCommand ssh ", &format!("ProxyCommand ssh -F {outer} "));
    let config = net.node.file("config", &(entries + common));
    let attempt = |argv: &[&str]| {
        let argv = [&argv[..1], &["-F", &config], &argv[1..]].concat();
        Process::start(&argv).expect("ssh").wait(PATIENCE).expect("it ends")
    };
    let output = attempt(&["ssh", "red.r1", "hostname; pwd; id -u; echo $SSH_AUTH_SOCK; exit 4"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!((&*output.stdout, &*output.stderr), ("r1\n/root\n0\n\n", ""));
    let terminal = attempt(&["ssh", "-tt", "red.r1", "tty"]);
    assert!(terminal.stdout.contains("/dev/pts/"), "{terminal:?}");
    // The sshd serves files.
    let text = "x".repeat(300_000);
    let file = net.node.file("sent", &text);
    let output = attempt(&["scp", "-q", &file, "red.r1:/tmp/sent"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!std::path::Path::new("/tmp/sent").exists());
    assert_eq!(net.says("bob", &["red/r1", "cat", "/tmp/sent"]), text);
    let back = format!("{file}.back");
    let batch =
        net.node.file("batch", &format!("get /tmp/sent {back}\nput {file} /etc/europa-sent\n"));
    let output = attempt(&["sftp", "-q", "-b", &batch, "red.r1"]);
    assert!(!output.status.success() && output.stderr.contains("/etc/europa-sent"), "{output:?}");
    assert_eq!(fs::read_to_string(back).expect("a file"), text);
    // The sshd forwards a connection to a port of the router.
    let script = "red/r1 exec python3 -c \"import socket\ns = socket.create_server(('10.0.1.1', 7))\n\
        print('up', flush=True)\nc = s.accept()[0]\nc.sendall(b'from inside')\"";
    let mut server = net.start("alice", &[], &[script]);
    server.wait_for("up", PATIENCE).expect("a server");
    assert_eq!(attempt(&["ssh", "-W", "10.0.1.1:7", "red.r1"]).stdout, "from inside");
    // The sshd gives nothing of another user's router, and nothing of the machine's network.
    let output = attempt(&["ssh", "blue.secret", "hostname"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(output.stderr.contains("there is no router blue/secret"), "{output:?}");
    let to_node = format!("127.0.0.1:{}", net.port);
    assert!(!attempt(&["ssh", "-W", &to_node, "red.r1"]).status.success());
    assert!(net.events("LoggedIn").iter().any(|one| {
        one["message"].as_str().is_some_and(|text| text.starts_with("an sshd inside"))
    }));
}
