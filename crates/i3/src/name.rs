//! Ids from names.

use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::constraint::{Side, of_id, of_key};
use crate::id::{ID_BITS, Id, Key, LEAST_PREFIX_BITS};
use crate::wire::{Address, Trigger};

/// An id in the form of users: 64 hexadecimal digits, `NAME`, or `NAME/MEMBER` for anycast.
///
/// All members of a name have the same first 192 bits. Every client that knows a name can insert
/// triggers for it, because its key is a hash of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// All 256 bits.
    Digits(Id),
    /// A name and a member of it.
    Name(String, Option<String>),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        if text.len() == 64
            && let Ok(id) = text.parse()
        {
            return Ok(Named::Digits(id));
        }
        let (name, member) = match text.split_once('/') {
            Some((name, member)) => (name, Some(member)),
            None => (text, None),
        };
        if name.is_empty() || member == Some("") {
            let wanted = "write NAME, NAME/MEMBER or 64 hexadecimal digits";
            return Err(format!("{text:?} is no id; {wanted}"));
        }
        Ok(Named::Name(name.to_owned(), member.map(str::to_owned)))
    }
}

fn part<const N: usize>(of: &str, text: &str) -> [u8; N] {
    let digest = Sha256::digest(format!("europa i3 {of} {text}").as_bytes());
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}

impl Named {
    /// The key with which hosts insert triggers; `None` if it is unknown.
    pub fn key(&self) -> Option<Key> {
        match self {
            Named::Digits(_) => None,
            Named::Name(name, _) => Some(Key(part("key", name))),
        }
    }

    /// The id for packets.
    pub fn id(&self) -> Id {
        match self {
            Named::Digits(id) => *id,
            Named::Name(..) => self.keyed(of_key(Side::Left, &self.key().unwrap_or_default())),
        }
    }

    fn keyed(&self, key: Key) -> Id {
        let mut id = Id([0; 32]);
        if let Named::Name(name, member) = self {
            id.0[..8].copy_from_slice(&part::<8>("name", name));
            let suffix = member.as_ref().map_or([0; 8], |member| part("member", member));
            id = id.with_suffix(u64::from_be_bytes(suffix));
        }
        id.with_public(true).with_key(key)
    }

    /// A trigger to a host. Members of a name can replace each other.
    ///
    /// # Errors
    /// The id is given as digits, so its key is unknown.
    pub fn to_host(&self, to: Address, key: Option<Key>) -> Result<Trigger, String> {
        let key = key.or_else(|| self.key());
        let key = key.ok_or("the key of an id in digits is not known; use its name, or --key")?;
        let prefix_bits = match self {
            Named::Name(_, Some(_)) => LEAST_PREFIX_BITS,
            _ => ID_BITS,
        };
        Ok(Trigger { prefix_bits, ..Trigger::new(self.id(), to, key) })
    }

    /// A trigger to further ids. By the constraint, the first of them determines its id.
    ///
    /// # Errors
    /// There are no ids, or more than 15.
    pub fn to_ids(&self, ids: Vec<Id>) -> Result<Trigger, String> {
        let first = ids.first().ok_or("a stack has an id at least")?;
        if ids.len() > crate::wire::MOST_IDS {
            return Err(format!("a stack of {} ids; 15 are possible", ids.len()));
        }
        let id = match self {
            Named::Digits(id) => *id,
            Named::Name(..) => self.keyed(of_id(Side::Left, first)),
        };
        Ok(Trigger::new(id, Address::Stack(ids), Key::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::holds;

    #[test]
    fn names_satisfy_the_constraint() {
        let named = |text: &str| text.parse::<Named>().expect("an id");
        let host = Address::from(std::net::SocketAddr::from(([10, 0, 0, 1], 1)));
        let (ann, bob) = (named("chat/ann"), named("chat/bob"));
        assert_eq!(ann.id().prefix(), bob.id().prefix());
        assert_ne!(ann.id(), bob.id());
        assert_ne!(ann.id().prefix(), named("other").id().prefix());
        assert!(holds(&ann.to_host(host.clone(), None).expect("a trigger")));
        assert!(holds(&named("x").to_ids(vec![ann.id()]).expect("a trigger")));
        let digits = named(&ann.id().to_string());
        assert_eq!(digits.id(), ann.id());
        assert!(digits.to_host(host.clone(), None).is_err());
        assert!(holds(&digits.to_host(host, ann.key()).expect("a trigger")));
        for wrong in ["", "/", "a/", "/b"] {
            assert!(wrong.parse::<Named>().is_err(), "{wrong}");
        }
    }
}
