//! Users of keys, for `europa ssh-keys`.

use std::os::fd::OwnedFd;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use europa_api::{Documents, SshKey};
use europa_channel::Channel;
use sha2::{Digest, Sha256};

use super::daemon::program;
use super::wire::{KeyLines, KeyQuestion};
use crate::Instance;
use crate::control::Control;

/// Time limit for a question and its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A key's fingerprint, as `ssh-keygen -l` shows it.
pub(super) fn fingerprint(key: &SshKey) -> Option<String> {
    let hash = Sha256::digest(STANDARD.decode(key.key()).ok()?);
    Some(format!("SHA256:{}", STANDARD_NO_PAD.encode(hash)))
}

/// The line of an `authorized_keys` file for a key that a user has.
fn line(documents: &Documents, question: &KeyQuestion, program: &str) -> Option<String> {
    let users = documents.users.iter();
    let mut keys = users.flat_map(|user| user.ssh_keys.iter().map(move |key| (user, key)));
    let is_it = |key: &SshKey| key.kind() == question.kind && key.key() == question.key;
    let (user, key) = keys.find(|(_, key)| is_it(key))?;
    Some(format!(
        "restrict,pty,command=\"{program} --user {} --key {}\" {} {}",
        user.name,
        fingerprint(key)?,
        key.kind(),
        key.key()
    ))
}

/// Answers one question.
pub(super) fn answers(
    instance: &Instance,
    control: Control,
) -> impl Fn(OwnedFd) + Send + Sync + 'static + use<> {
    let path = program(instance);
    let program = format!("{} --instance {} session", path.display(), instance.name());
    move |socket| {
        let mut peer: Channel<KeyLines, KeyQuestion> = Channel::new(socket);
        let Ok(Some((question, _))) = peer.receive_within(PATIENCE) else { return };
        let documents = control.wait(PATIENCE, |node| node.change.accepted().documents.clone());
        let lines = documents.ok().and_then(|documents| line(&documents, &question, &program));
        // The peer may have closed.
        let _ = peer.send(&KeyLines(lines.into_iter().collect()), &[]);
    }
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    #[test]
    fn a_key_forces_its_users_command_and_a_comment_says_nothing() {
        let key = "AAAAC3NzaC1lZDI1NTE5AAAAIJ4vLpqTkFv3mJ0cSxw3o3u5m4m4m4m4m4m4m4m4m4m4";
        let text =
            format!("kind: user\nname: alice\nssh_keys: ['ssh-ed25519 {key} x\" command=\"id']\n");
        let documents = parse(&[Source { path: "u.yaml".into(), text }])
            .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let ask = |kind: &str, key: &str| {
            line(&documents, &KeyQuestion { kind: kind.into(), key: key.into() }, "/e session")
        };
        let found = ask("ssh-ed25519", key).expect("a line");
        let wanted = format!("\" ssh-ed25519 {key}");
        assert!(found.starts_with("restrict,pty,command=\"/e session --user alice --key SHA256:"));
        assert!(found.ends_with(&wanted) && found.matches('"').count() == 2, "{found}");
        assert_eq!(ask("ssh-rsa", key), None);
        assert_eq!(ask("ssh-ed25519", &key[1..]), None);
        assert_eq!(ask("ssh-ed25519", ""), None);
    }
}
