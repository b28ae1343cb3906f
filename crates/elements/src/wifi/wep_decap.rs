//! # WepDecap
//!
//! ## Synopsis
//! `WepDecap([KEY, KEYID])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Decrypts IEEE 802.11 frames that are encrypted by WEP with the key of this number. All others
//! pass unchanged. A frame with a wrong checksum also passes, still marked as encrypted:
//! `WifiDecap` drops it.
//!
//! ## Arguments
//! - KEY: up to 16 bytes.
//! - KEYID: its number, default 0.
//! - DEBUG, STRICT (keywords): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `key`, `keyid`, `debug` (read, write): see the arguments.
//! - `errors` (read): frames whose checksum was wrong.
//!
//! ## See also
//! `WepEncap`, `WifiDecap`

use super::Header;
use super::cipher::{CHECK, Cipher, HEADER, Key};
use super::frame::PROTECTED;
use crate::check::check_crc32::crc32;
use crate::prelude::*;
use crate::shared::fields::bytes;

/// Decrypts frames.
#[derive(Default)]
pub(crate) struct WepDecap {
    key: Key,
    debug: bool,
    errors: u64,
}

impl Class for WepDecap {
    const INFO: ClassInfo = ClassInfo::new("WepDecap", "1/1");
}

impl WepDecap {
    /// Whether the frame was encrypted with this key and is intact.
    fn decrypt(&mut self, packet: &mut Packet) -> Option<()> {
        let mut header = Header::of(packet.data()).filter(|header| header.has(PROTECTED))?;
        let [a, b, c, number] = bytes(packet.data(), Header::BYTES)?;
        let payload = packet.data_mut().get_mut(Header::BYTES + HEADER..)?;
        let end = payload.len().checked_sub(CHECK)?;
        if number != self.key.number {
            return None;
        }
        Cipher::new([a, b, c], &self.key.key).apply(payload);
        let check = payload.get(..end).map(crc32);
        if check != bytes(payload, end).map(u32::from_le_bytes) {
            self.errors += 1;
            return None;
        }
        header.0[1] &= !PROTECTED;
        packet.pull(HEADER)?;
        crate::shared::made::write(packet.data_mut(), &header.0);
        packet.take(CHECK)
    }
}

impl Element for WepDecap {
    arguments! { this, given;
        let key = positional "KEY": Vec<u8> = Vec::new();
        positional "KEYID": u8 = 0 => this.key.number;
        keyword "DEBUG": bool = false => this.debug;
        keyword "STRICT": bool => _;
        then {
            this.key.set(key).map_err(ConfigError::other)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            self.decrypt(packet);
        }
    }

    handlers! { this, context, value;
        both "key" => this.key.text(), set this.key.write(value)?;
        both "keyid" => this.key.number;
        both "debug" [CHECKBOX] => this.debug;
        read "errors" => this.errors;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_is_encrypted_comes_back() {
        let data = [&[0x08, 1, 0, 0][..], &[7; 20], b"a payload"].concat();
        let beacon = [&[0x80, 0, 0, 0][..], &[7; 20], b"a payload"].concat();
        let mut encap = Bench::new("WepEncap", &["\"secret\"", "KEYID 2", "ACTIVE true"]);
        let out = encap.push(0, &[&data, &beacon, b"short"]);
        assert_eq!(out[1..], [(0, beacon), (0, b"short".to_vec())]);
        let frame = &out[0].1;
        assert_eq!((frame.len(), frame[1], frame[27]), (data.len() + 8, 0x41, 2));
        assert!(!frame.windows(4).any(|bytes| bytes == b"payl"));
        for (arguments, expected, errors) in [
            (&["\"secret\"", "2"][..], &data, "0"),
            (&["\"secret\"", "1"], frame, "0"),
            (&["\"other\"", "2"], &Vec::new(), "1"),
        ] {
            let mut decap = Bench::new("WepDecap", arguments);
            let out = decap.push(0, &[frame]);
            assert!(out[0].1 == *expected || errors == "1" && out[0].1[1] == 0x41);
            assert_eq!(decap.router.read("e.errors", ""), Ok(errors.into()));
        }
        for length in 0..frame.len() {
            Bench::new("WepDecap", &["\"secret\"", "2"]).push(0, &[&frame[..length]]);
        }
        assert!(Bench::error("WepEncap", &["12345678901234567"]).contains("16 bytes"));
    }
}
