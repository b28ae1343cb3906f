//! `kind: user`: a person or program that uses the node, and its roles on slices.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, entries, word};
use crate::problem::Problem;
use crate::source::At;
use crate::tree::Node;
use crate::values::Name;

/// The name of the machine's own administrator, which needs no document.
pub const ROOT: &str = "root";

/// Types of SSH keys that a user may have (RFC 4253, 5656, 8709).
const KEY_TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
];

/// A person or program that uses the node over the network, with roles on slices. `europa token
/// create` makes its tokens, which are in no document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct User {
    /// Its name, unique on the node.
    pub name: At<Name>,
    /// A text for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<At<String>>,
    /// The user's public SSH keys, a line each, as `ssh-keygen` writes them. With any of them the
    /// user can log in to routers, if the node has `--ssh`. A key belongs to one user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub ssh_keys: Vec<At<SshKey>>,
    /// The user's role on each slice that the user may see: `{red: owner, blue: viewer}`.
    #[serde(skip_serializing_if = "Roles::is_empty")]
    #[schemars(with = "Option<Roles>")]
    pub roles: Roles,
    /// `true`: the user may do everything that root may do with the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<At<bool>>,
}

/// The rights of a user on a slice. Each role includes those before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May read documents, states, counters, handlers, logs and events of the slice.
    Viewer,
    /// May also write handlers, restart routers and capture their packets.
    Operator,
    /// May also apply and delete documents of the slice, within its reservation.
    Owner,
}

/// Roles by slice, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles(pub Vec<(At<Name>, At<Role>)>);

/// A public SSH key: type, base64 and an optional comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SshKey(pub String);

impl User {
    /// Whether it has all rights.
    pub fn is_admin(&self) -> bool {
        self.admin.is_some_and(|admin| admin.value)
    }
}

impl SshKey {
    /// The key's type, such as `ssh-ed25519`.
    pub fn kind(&self) -> &str {
        self.0.split_whitespace().next().unwrap_or_default()
    }

    /// The key itself in base64, which identifies it.
    pub fn key(&self) -> &str {
        self.0.split_whitespace().nth(1).unwrap_or_default()
    }
}

impl Roles {
    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Role {
    /// Its word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Owner => "owner",
        }
    }
}

impl Decode for Role {
    fn decode(node: &Node, context: &mut Context) -> Option<Role> {
        let words = [Role::Viewer, Role::Operator, Role::Owner].map(|role| (role.word(), role));
        word(node, context, "a role", &words)
    }
}

impl Decode for Roles {
    fn decode(node: &Node, context: &mut Context) -> Option<Roles> {
        entries(node, context, "a mapping from slices to roles").map(Roles)
    }
}

/// Why a line is no public key.
fn wrong_key(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace();
    let (kind, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !KEY_TYPES.contains(&kind) {
        return Some("it begins with its type, like ssh-ed25519");
    }
    if line.chars().any(char::is_control) {
        return Some("a key is one line");
    }
    let Ok(bytes) = BASE64.decode(key) else { return Some("its second word is not base64") };
    // The key contains the type again, after its length in four bytes.
    let named = bytes.get(4..4 + kind.len()).is_some_and(|named| named == kind.as_bytes());
    let length = u32::try_from(kind.len()).unwrap_or(0).to_be_bytes();
    (!named || !bytes.starts_with(&length)).then_some("it is not of the type that it begins with")
}

impl Decode for SshKey {
    fn decode(node: &Node, context: &mut Context) -> Option<SshKey> {
        let line = String::decode(node, context)?;
        if let Some(why) = wrong_key(&line) {
            let problem = Problem::new(context.place(node), "this is no public SSH key")
                .label(why)
                .help("copy the whole line of a file like ~/.ssh/id_ed25519.pub");
            context.report(problem);
            return None;
        }
        Some(SshKey(line))
    }
}

impl Decode for User {
    fn decode(node: &Node, context: &mut Context) -> Option<User> {
        let mut fields = Fields::open(node, "a user", context)?;
        fields.take("kind");
        let name: Option<At<Name>> = fields.required("name");
        let description = fields.optional("description");
        let ssh_keys = fields.list("ssh_keys");
        let roles: Roles = fields.optional("roles").unwrap_or_default();
        let admin = fields.optional("admin");
        if let Some(name) = name.as_ref().filter(|name| ****name == *ROOT) {
            let problem = Problem::new(name.place, "root is the machine's own administrator")
                .label("this name is taken")
                .help("root uses the node's Unix socket, and needs no document");
            fields.context.report(problem);
        }
        let mut seen: Vec<&At<Name>> = Vec::new();
        for (slice, _) in &roles.0 {
            if let Some(first) = seen.iter().find(|seen| seen.value == slice.value) {
                let message = format!("there are two roles on slice {:?}", slice.to_string());
                let problem = Problem::new(slice.place, message).label("the second");
                fields.context.report(problem.also(first.place, "the first"));
            }
            seen.push(slice);
        }
        fields.close();
        Some(User { name: name?, description, ssh_keys, roles, admin })
    }
}

impl Serialize for Roles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(slice, role)| (slice, role)))
    }
}

impl JsonSchema for Roles {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Roles".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<Name>(),
            "additionalProperties": generator.subschema_for::<Role>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Documents, Source, parse};

    const KEY: &str = "ssh-ed25519 \
        AAAAC3NzaC1lZDI1NTE5AAAAIJ4vLpqTkFv3mJ0cSxw3o3u5m4m4m4m4m4m4m4m4m4m4 alice@desk";

    fn read(user: &str) -> Result<Documents, String> {
        let text = format!("kind: slice\nname: red\n---\nkind: user\n{user}");
        let sources = [Source { path: "u.yaml".into(), text }];
        parse(&sources).map_err(|problems| problems.render(false))
    }

    #[test]
    fn users_are_read_and_written() {
        let text = format!("name: alice\nssh_keys: [{KEY:?}]\nroles: {{red: owner}}\n");
        let documents = read(&text).unwrap_or_else(|report| panic!("{report}"));
        let user = &documents.users[0];
        assert_eq!(
            (&*user.roles.0[0].0.to_string(), user.roles.0[0].1.value),
            ("red", Role::Owner)
        );
        assert!(!user.is_admin() && Role::Viewer < Role::Operator);
        let json = serde_json::to_string(user).unwrap_or_default();
        assert!(json.contains("\"roles\":{\"red\":\"owner\"}"), "{json}");
    }

    #[test]
    fn mistakes_of_users() {
        for (text, wanted) in [
            ("name: root\n", "this name is taken"),
            ("name: a\nroles: {blue: owner}\n", "there is no slice \"blue\""),
            ("name: a\nroles: {red: boss}\n", "expected one of viewer, operator, owner"),
            ("name: a\nadmin: 1\n", "expected true or false"),
            ("name: a\ntoken: x\n", "a user has no field \"token\""),
            (
                &*format!(
                    "name: a\nssh_keys: [{KEY:?}]\n---\nkind: user\nname: b\nssh_keys: [{KEY:?}]\n"
                ),
                "two users",
            ),
            (&*format!("name: a\nssh_keys: [{KEY:?}, {KEY:?}]\n"), "stands there twice"),
            (
                &*format!("name: a\nssh_keys: [{:?}]\n", KEY.replace(" alice", "\nalice")),
                "one line",
            ),
            ("name: a\nssh_keys: [\"ssh-dss AAAA\"]\n", "begins with its type"),
            ("name: a\nssh_keys: [\"ssh-ed25519 %\"]\n", "not base64"),
            ("name: a\nssh_keys: [\"ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA\"]\n", "not of the type"),
        ] {
            let report = read(text).expect_err(text);
            assert!(report.contains(wanted), "{text}: {report}");
        }
    }
}
