//! `/v1/users/USER/tokens`, and which tokens are valid.
//!
//! A token is `europa_ID_SECRET`: the id finds it, the secret proves it. The node keeps the SHA-256
//! of the secret, so neither the store nor this table can be used as tokens.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Path, State};
use axum::middleware::from_extractor;
use axum::routing::{delete, get};
use axum::{Extension, Json, Router};
use europa_api::rest::{MadeToken, NewToken, ProblemDetails, Said, TokenInfo, TokenList};
use europa_node::store::StoredToken;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::problem::{Answer, NoOptions, Problem};
use crate::state::Api;
use crate::who::Who;

/// The prefix of every token, by which scanners of source code recognise tokens.
const PREFIX: &str = "europa";
/// Bytes of an id and of a secret.
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
/// The longest life of a token: ten years.
const MOST_SECONDS: u64 = 10 * 366 * 86_400;
/// Most tokens of a user that are valid at a time.
const MOST_TOKENS: usize = 64;

type Hash = [u8; 32];

/// A valid token.
#[derive(Clone)]
struct Token {
    stored: StoredToken,
    hash: Hash,
    expires: Timestamp,
}

/// All tokens; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tokens(Arc<RwLock<HashMap<String, Token>>>);

impl Tokens {
    /// The tokens of a store, without unreadable ones.
    pub(crate) fn new(stored: Vec<StoredToken>) -> Tokens {
        let tokens = Tokens::default();
        stored.into_iter().for_each(|stored| tokens.put(stored));
        tokens
    }

    fn put(&self, stored: StoredToken) {
        let (Some(hash), Ok(expires)) = (from_hex(&stored.hash), stored.info.expires.parse())
        else {
            return tracing::warn!("token {} cannot be read", stored.info.id);
        };
        let id = stored.info.id.clone();
        self.write(|all| drop(all.insert(id, Token { stored, hash, expires })));
    }

    fn write<T>(&self, work: impl FnOnce(&mut HashMap<String, Token>) -> T) -> T {
        work(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn read<T>(&self, work: impl FnOnce(&HashMap<String, Token>) -> T) -> T {
        work(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Id and user of a token, if it is valid. An unknown id takes as long as a wrong secret.
    pub(crate) fn check(&self, token: &str) -> Option<(String, String)> {
        let mut parts = token.splitn(3, '_');
        let (prefix, id, secret) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        let hash: Hash = Sha256::digest(secret.as_bytes()).into();
        let found = self.read(|all| all.get(id.unwrap_or_default()).cloned());
        let is_equal = equal(&hash, &found.as_ref().map_or([0; 32], |token| token.hash));
        let found = found.filter(|token| is_equal && prefix == Some(PREFIX) && token.is_valid());
        found.map(|token| (token.stored.info.id, token.stored.info.user))
    }

    /// Whether a token is still valid.
    pub(crate) fn is_valid(&self, id: &str) -> bool {
        self.read(|all| all.get(id).is_some_and(Token::is_valid))
    }

    /// Removes the tokens of a removed user.
    pub(crate) fn forget(&self, user: &str) {
        self.write(|all| all.retain(|_, token| token.stored.info.user != user));
    }

    fn of(&self, user: &str) -> Vec<TokenInfo> {
        let mut all: Vec<TokenInfo> = self.read(|all| {
            let own = all.values().filter(|token| token.stored.info.user == user);
            own.filter(|token| token.is_valid()).map(|token| token.stored.info.clone()).collect()
        });
        all.sort_by(|a, b| (&a.created, &a.id).cmp(&(&b.created, &b.id)));
        all
    }

    /// Ids of tokens that have expired.
    fn expired(&self) -> Vec<String> {
        self.read(|all| {
            let old = all.values().filter(|token| !token.is_valid());
            old.map(|token| token.stored.info.id.clone()).collect()
        })
    }
}

impl Token {
    fn is_valid(&self) -> bool {
        Timestamp::now() < self.expires
    }
}

/// Compares in the same time, whatever differs.
fn equal(one: &Hash, other: &Hash) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(hash)
}

fn random<const N: usize>() -> Result<[u8; N], ProblemDetails> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ProblemDetails::failed(error.to_string()))?;
    Ok(bytes)
}

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/users/{user}/tokens", get(list).post(create))
        .route("/v1/users/{user}/tokens/{id}", delete(revoke))
        .route_layer(from_extractor::<NoOptions>())
}

/// Checks that the user exists, as far as the caller may know.
async fn known(api: &Api, who: &Who, user: &str) -> Result<(), Problem> {
    let is_own = who.is_admin() || who.name() == user;
    let there = api.requests.user(user).await?.is_some();
    match is_own && there {
        true => Ok(()),
        false => Err(ProblemDetails::not_found(format!("there is no user {user}")).into()),
    }
}

/// The valid tokens of a user, without their secrets.
#[utoipa::path(get, path = "/v1/users/{user}/tokens", tag = "users", operation_id = "list_tokens",
    params(("user" = String, Path, description = "The user")),
    responses((status = 200, description = "Its tokens", body = ref("#/components/schemas/TokenList"))))]
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(user): Path<String>,
) -> Answer<TokenList> {
    known(&api, &who, &user).await?;
    Ok(Json(TokenList { tokens: api.tokens.of(&user) }))
}

/// Makes a token; only this answer has its secret. Only an admin may do this.
#[utoipa::path(post, path = "/v1/users/{user}/tokens", tag = "users", operation_id = "create_token",
    params(("user" = String, Path, description = "The user")),
    request_body = ref("#/components/schemas/NewToken"),
    responses((status = 200, description = "The token", body = ref("#/components/schemas/MadeToken"))))]
pub(crate) async fn create(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(user): Path<String>,
    Json(wanted): Json<NewToken>,
) -> Answer<MadeToken> {
    known(&api, &who, &user).await?;
    if !(1..=MOST_SECONDS).contains(&wanted.seconds) {
        let detail = format!("a token is valid for 1 to {MOST_SECONDS} seconds");
        return Err(ProblemDetails::bad_request(detail).into());
    }
    let _turn = api.turn.lock().await;
    if api.tokens.of(&user).len() >= MOST_TOKENS {
        let detail = format!("user {user} has {MOST_TOKENS} tokens, the most; revoke one");
        return Err(ProblemDetails::conflict(detail).into());
    }
    let life = SignedDuration::from_secs(wanted.seconds.cast_signed());
    let now = Timestamp::now();
    let expires = now.checked_add(life).map_err(|e| ProblemDetails::failed(e.to_string()))?;
    let (id, secret) = (hex(&random::<ID_BYTES>()?), hex(&random::<SECRET_BYTES>()?));
    let info = TokenInfo {
        id: id.clone(),
        user: user.clone(),
        created: format!("{now:.3}"),
        expires: format!("{expires:.3}"),
        note: wanted.note,
    };
    let hash = hex(&Sha256::digest(secret.as_bytes()));
    let stored = StoredToken { info: info.clone(), hash };
    let expired = api.tokens.expired();
    api.requests.write_tokens(vec![stored.clone()], expired.clone()).await?;
    expired.iter().for_each(|id| api.tokens.write(|all| drop(all.remove(id))));
    api.tokens.put(stored);
    let message = format!("token {id}, valid until {}", info.expires);
    api.events.asked(who.by(), ("user", &user), "TokenCreated", message);
    Ok(Json(MadeToken { info, token: format!("{PREFIX}_{id}_{secret}") }))
}

/// Revokes a token: requests with it are refused from now on, and its connections end.
#[utoipa::path(delete, path = "/v1/users/{user}/tokens/{id}", tag = "users", operation_id = "revoke_token",
    params(("user" = String, Path, description = "The user"),
        ("id" = String, Path, description = "The token's id, or `all`")),
    responses((status = 200, description = "It is revoked", body = ref("#/components/schemas/Said"))))]
pub(crate) async fn revoke(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((user, id)): Path<(String, String)>,
) -> Answer<Said> {
    known(&api, &who, &user).await?;
    let _turn = api.turn.lock().await;
    let all = api.tokens.of(&user).into_iter().map(|token| token.id);
    let ids: Vec<String> = all.filter(|own| id == "all" || *own == id).collect();
    if ids.is_empty() && id != "all" {
        return Err(ProblemDetails::not_found(format!("user {user} has no token {id}")).into());
    }
    // No request gets through while the store is written.
    ids.iter().for_each(|id| api.tokens.write(|all| drop(all.remove(id))));
    api.requests.write_tokens(Vec::new(), ids.clone()).await?;
    let lines: Vec<String> = ids.iter().map(|id| format!("token {id} is revoked")).collect();
    for line in &lines {
        api.events.asked(who.by(), ("user", &user), "TokenRevoked", line.clone());
    }
    Ok(Json(Said { lines }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(id: &str, user: &str, secret: &str, seconds: i64) -> StoredToken {
        let now = Timestamp::now();
        let expires = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        let info = TokenInfo {
            id: id.into(),
            user: user.into(),
            created: now.to_string(),
            expires: expires.to_string(),
            note: None,
        };
        StoredToken { info, hash: hex(&Sha256::digest(secret.as_bytes())) }
    }

    #[test]
    fn only_the_secret_proves_a_token() {
        let tokens = Tokens::new(vec![
            stored("01", "alice", "s1", 60),
            stored("02", "bob", "s2", -1),
            StoredToken { hash: "nonsense".into(), ..stored("03", "bob", "s3", 60) },
        ]);
        for (token, wanted) in [
            ("europa_01_s1", Some("alice")),
            ("europa_01_s2", None),
            ("europa_02_s2", None),
            ("europa_03_s3", None),
            ("europa_04_s1", None),
            ("other_01_s1", None),
            ("europa_01_", None),
            ("europa_01", None),
            ("", None),
        ] {
            let found = tokens.check(token).map(|(_, user)| user);
            assert_eq!(found.as_deref(), wanted, "{token}");
        }
        assert_eq!((tokens.of("alice").len(), tokens.of("bob").len()), (1, 0));
        assert_eq!(tokens.expired(), ["02"]);
        tokens.forget("alice");
        assert!(tokens.check("europa_01_s1").is_none() && !tokens.is_valid("01"));
    }
}
