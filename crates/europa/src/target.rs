//! The node of a command: a node of this machine, or one that a context names.
//!
//! Contexts are in `$XDG_CONFIG_HOME/europa/contexts.json`, together with their tokens, so only
//! their user may read the file.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use europa_client::{Client, Remote};
use europa_node::Instance;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The context name that means the node of this machine.
pub(crate) const LOCAL: &str = "local";

/// The choice, which is made once, before a command runs.
static CHOSEN: OnceLock<Option<Remote>> = OnceLock::new();

/// Options that choose a node on another machine.
#[derive(Args, Debug, Default)]
pub(crate) struct TargetArgs {
    /// URL of a node on another machine, such as `https://node.example:7443`.
    ///
    /// Default: the current context; without one, the node of this machine. With --instance, always
    /// the node of this machine.
    #[arg(long = "node", global = true, value_name = "URL", env = "EUROPA_NODE")]
    pub(crate) url: Option<String>,
    /// File with the token for --node. Default: that of the context with this URL.
    #[arg(long, global = true, value_name = "FILE", env = "EUROPA_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with certificates of authorities for --node. Default: those that this machine trusts.
    #[arg(long, global = true, value_name = "FILE", env = "EUROPA_CA")]
    pub(crate) ca: Option<PathBuf>,
}

/// A node and the caller's token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Context {
    /// Its URL.
    pub(crate) url: String,
    /// The user.
    pub(crate) user: String,
    /// The user's token.
    pub(crate) token: String,
    /// Certificates, as PEM, of the authorities that may have signed the node's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
}

/// All contexts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// The current context; `None` for the node of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// By name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

fn file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let configuration = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let of_home = || set("HOME").map(|home| Path::new(&home).join(".config"));
    Some(configuration.or_else(of_home)?.join("europa").join("contexts.json"))
}

impl Contexts {
    /// The contexts of this user.
    pub(crate) fn read() -> Result<Contexts, Failure> {
        let Some(path) = file() else { return Ok(Contexts::default()) };
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| format!("{}: {error}", path.display()).into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Contexts::default()),
            // The folder belongs to another user, for example in a slow path, where HOME is that of
            // the machine.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !path.is_file() => {
                Ok(Contexts::default())
            }
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    }

    /// Writes the contexts as a whole, readable only by their user.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let path = file().ok_or("neither XDG_CONFIG_HOME nor HOME says where contexts are kept")?;
        self.write_to(&path).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn write_to(&self, path: &Path) -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let new = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        // A file that an interrupted command has left may have other permissions.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, path)
    }
}

impl Context {
    /// The node that it names.
    pub(crate) fn remote(&self) -> Result<Remote, Failure> {
        Ok(Remote::new(&self.url, &self.token, self.ca.as_deref())?)
    }
}

/// The contents of a small file; `-` is standard input.
pub(crate) fn text_of(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| Failure::from(format!("cannot read {}: {error}", path.display())))?;
    Ok(text)
}

fn find(args: &TargetArgs, is_local: bool) -> Result<Option<Remote>, Failure> {
    if is_local {
        return Ok(None);
    }
    let Some(url) = &args.url else {
        let contexts = Contexts::read()?;
        let current = contexts.current.and_then(|name| contexts.contexts.get(&name).cloned());
        return current.map(|context| context.remote()).transpose();
    };
    let contexts = Contexts::read()?;
    let is_it = |context: &&Context| context.url.trim_end_matches('/') == url.trim_end_matches('/');
    let known = contexts.contexts.into_values().find(|context| is_it(&context));
    let token = match (&args.token_file, &known) {
        (Some(path), _) => text_of(path)?,
        (None, Some(context)) => context.token.clone(),
        (None, None) => {
            return Err(Failure::usage(format!(
                "who asks {url}? Give --token-file, or `europa login {url}` first"
            )));
        }
    };
    let of_file = args.ca.as_deref().map(text_of).transpose()?;
    let authority = of_file.or(known.and_then(|context| context.ca));
    Ok(Some(Remote::new(url, &token, authority.as_deref())?))
}

/// Chooses the node for the command. `is_local`: the command line names an instance of this
/// machine.
pub(crate) fn choose(args: &TargetArgs, is_local: bool) -> Result<(), Failure> {
    let chosen = find(args, is_local)?;
    // A process runs one command.
    let _ = CHOSEN.set(chosen);
    Ok(())
}

/// The chosen node on another machine, if there is one.
pub(crate) fn remote() -> Option<&'static Remote> {
    CHOSEN.get().and_then(Option::as_ref)
}

/// A client of the node that was chosen.
pub(crate) fn client(instance: &Instance) -> Client {
    match remote() {
        Some(remote) => Client::remote(remote.clone()),
        None => Client::new(instance.socket()),
    }
}

/// Refuses a command that works only on the node's own machine.
pub(crate) fn local_only(what: &str) -> Result<(), Failure> {
    match remote() {
        None => Ok(()),
        Some(remote) => Err(format!(
            "`europa {what}` works on the machine of the node only, and the context names {}: \
             `europa context use {LOCAL}` goes back to this machine",
            remote.url()
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_for_their_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("europa/contexts.json");
        let context = Context {
            url: "https://a:1".into(),
            user: "alice".into(),
            token: "t".into(),
            ca: None,
        };
        let contexts = BTreeMap::from([("a".to_owned(), context)]);
        let contexts = Contexts { current: Some("a".into()), contexts };
        contexts.write_to(&path).expect("a file");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
        let read: Contexts =
            serde_json::from_slice(&fs::read(&path).expect("a file")).expect("contexts");
        assert_eq!((read.current.as_deref(), read.contexts["a"].token.as_str()), (Some("a"), "t"));
    }
}
