//! # WepEncap
//!
//! ## Synopsis
//! `WepEncap([KEY, KEYID, ACTIVE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! If ACTIVE, encrypts IEEE 802.11 data and authentication frames by WEP, each with a random
//! initialisation vector. Other frames pass unchanged. WEP is not secure: use it only for networks
//! that support nothing else.
//!
//! ## Arguments
//! - KEY: up to 16 bytes.
//! - KEYID (keyword): its number, default 0.
//! - ACTIVE (keyword): default false.
//! - DEBUG, STRICT (keywords): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `key`, `keyid`, `active`, `debug` (read, write): see the arguments.
//! - `drops` (read): frames without room for the added bytes.
//!
//! ## See also
//! `WepDecap`, `WifiEncap`

use super::cipher::{CHECK, Cipher, HEADER, Key};
use super::{Header, kind, management};
use crate::check::check_crc32::crc32;
use crate::prelude::*;
use crate::shared::fields::{grow_front, grow_tail};
use crate::shared::random::Random;

/// Encrypts frames.
#[derive(Default)]
pub(crate) struct WepEncap {
    key: Key,
    active: bool,
    debug: bool,
    drops: u64,
}

impl Class for WepEncap {
    const INFO: ClassInfo = ClassInfo::new("WepEncap", "1/1");
}

/// A random initialisation vector, except those that reveal parts of the key.
fn vector() -> [u8; 3] {
    let [a, mut b, c, _] = Random.next().to_le_bytes();
    if b == 0xff && (3..16).contains(&c) {
        b = 0;
    }
    [a, b, c]
}

impl WepEncap {
    fn encrypt(&self, packet: &mut Packet) -> Option<()> {
        let header = Header::of(packet.data())?;
        grow_front(packet, HEADER)?;
        let vector = vector();
        let check = packet.data().get(Header::BYTES + HEADER..).map(crc32)?;
        grow_tail(packet, CHECK)?;
        let (front, payload) = packet.data_mut().split_at_mut_checked(Header::BYTES + HEADER)?;
        let rest = crate::shared::made::write(front, &header.0);
        let rest = crate::shared::made::write(rest, &vector);
        crate::shared::made::write(rest, &[self.key.number]);
        if let Some(flags) = front.get_mut(1) {
            *flags |= super::frame::PROTECTED;
        }
        let end = payload.len().checked_sub(CHECK)?;
        crate::shared::made::write(payload.get_mut(end..)?, &check.to_le_bytes());
        Cipher::new(vector, &self.key.key).apply(payload);
        Some(())
    }
}

impl Element for WepEncap {
    arguments! { this, given;
        let key = positional "KEY": Vec<u8> = Vec::new();
        keyword "KEYID": u8 = 0 => this.key.number;
        keyword "ACTIVE": bool = false => this.active;
        keyword "DEBUG": bool = false => this.debug;
        keyword "STRICT": bool => _;
        then {
            this.key.set(key).map_err(ConfigError::other)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        if !self.active {
            return;
        }
        let mut drops = 0;
        batch.filter(
            |packet| match Header::of(packet.data()) {
                Some(header)
                    if header.kind() == kind::DATA
                        || header.kind() == kind::MANAGEMENT
                            && header.subtype() == management::AUTHENTICATION =>
                {
                    self.encrypt(packet).is_some()
                }
                _ => true,
            },
            |_| drops += 1,
        );
        self.drops += drops;
    }

    handlers! { this, context, value;
        both "key" => this.key.text(), set this.key.write(value)?;
        both "keyid" => this.key.number;
        both "active" [CHECKBOX] => this.active;
        both "debug" [CHECKBOX] => this.debug;
        read "drops" => this.drops;
    }
}
