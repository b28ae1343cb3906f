//! Whether a user may enter a router: by the accepted documents, at the begin of a session and
//! again and again until its end.

use europa_api::{Documents, Role, Router, User};

use super::keys::fingerprint;
use super::line::Target;

/// The full name of the router that a user enters.
///
/// # Errors
/// The reason of a refusal. A router in a slice without a role counts as missing.
pub(crate) fn admit(
    documents: &Documents,
    user: &str,
    key: &str,
    target: &Target,
) -> Result<String, String> {
    let found = documents.users.iter().find(|one| **one.name == *user);
    let Some(user) = found else { return Err(format!("there is no user {user} any more")) };
    if !user.ssh_keys.iter().any(|own| fingerprint(own).as_deref() == Some(key)) {
        return Err(format!("this key is not of user {} any more", user.name));
    }
    let is_it = |router: &&Router| {
        let of_slice = target.slice.as_ref().is_none_or(|slice| **router.slice == **slice);
        of_slice && **router.name == *target.router && role(user, router).is_some()
    };
    let found: Vec<&Router> = documents.routers.iter().filter(is_it).collect();
    let router = match found.as_slice() {
        [one] => *one,
        [] => return Err(format!("there is no router {target}")),
        several => {
            let names: Vec<String> = several.iter().map(|one| one.full_name()).collect();
            return Err(format!(
                "{target} is the name of several routers: write {}",
                names.join(" or ")
            ));
        }
    };
    match role(user, router) {
        Some(role) if role < Role::Operator => {
            return Err(format!(
                "a login needs the role operator on slice {}; yours is {}",
                router.slice,
                role.word()
            ));
        }
        _ => {}
    }
    match router.slow_path {
        Some(_) => Ok(router.full_name()),
        None => Err(format!("router {} has no slow path", router.full_name())),
    }
}

/// A user's role on a router's slice; an admin owns all.
fn role(user: &User, router: &Router) -> Option<Role> {
    let own = user.roles.0.iter().find(|(slice, _)| **slice == *router.slice);
    if user.is_admin() { Some(Role::Owner) } else { own.map(|(_, role)| role.value) }
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4vLpqTkFv3mJ0cSxw3o3u5m4m4m4m4m4m4m4m4m4m4";

    fn router(slice: &str, name: &str, more: &str) -> String {
        format!(
            "---\nkind: router\nname: {name}\nslice: {slice}\nfast_path: {{builtin: ipv4}}\n\
             interfaces: {{a: {{link: {slice}-{name}, addresses: [10.0.0.1/24]}}}}\n{more}"
        )
    }

    /// Each user has a key that ends with its own letter.
    fn key(user: &str) -> String {
        let letter = user.chars().next().unwrap_or('x');
        format!("{}{letter}{letter}E", &KEY[..KEY.len() - 3])
    }

    #[test]
    fn roles_keys_and_routers() {
        let slow = "slow_path: {}\n";
        let user = |name: &str, more: &str| {
            format!("---\nkind: user\nname: {name}\nssh_keys: [\"{}\"]\n{more}\n", key(name))
        };
        let text = "kind: slice\nname: red\n---\nkind: slice\nname: blue\n".to_owned()
            + &router("red", "r1", slow)
            + &router("red", "bare", "")
            + &router("red", "both", slow)
            + &router("blue", "both", slow)
            + &router("blue", "secret", slow)
            + &user("alice", "roles: {red: owner}")
            + &user("bob", "roles: {red: operator, blue: viewer}")
            + &user("carol", "admin: true")
            + &user("dave", "");
        let documents = parse(&[Source { path: "t.yaml".into(), text }])
            .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let of = |user: &str| {
            let own = documents.users.iter().find(|one| **one.name == *user).expect("a user");
            fingerprint(&own.ssh_keys[0]).expect("a key")
        };
        for (user, target, wanted) in [
            ("alice", "red/r1", Ok("red/r1")),
            ("alice", "r1", Ok("red/r1")),
            ("alice", "both", Ok("red/both")),
            ("alice", "secret", Err("there is no router secret")),
            ("alice", "blue/secret", Err("there is no router blue/secret")),
            ("alice", "blue/nosuch", Err("there is no router blue/nosuch")),
            ("alice", "red/bare", Err("has no slow path")),
            ("bob", "red/r1", Ok("red/r1")),
            ("bob", "blue/secret", Err("yours is viewer")),
            ("bob", "both", Err("red/both or blue/both")),
            ("carol", "blue/secret", Ok("blue/secret")),
            ("dave", "red/r1", Err("there is no router")),
        ] {
            let found = admit(&documents, user, &of(user), &target.parse().expect("a name"));
            match wanted {
                Ok(router) => assert_eq!(found.as_deref(), Ok(router), "{user} {target}"),
                Err(part) => assert!(
                    found.clone().is_err_and(|why| why.contains(part)),
                    "{user} {target}: {found:?}"
                ),
            }
        }
        let target: Target = "red/r1".parse().expect("a name");
        assert!(admit(&documents, "alice", &of("bob"), &target).is_err(), "another's key");
        assert!(admit(&documents, "erin", &of("bob"), &target).is_err(), "no user");
    }
}
