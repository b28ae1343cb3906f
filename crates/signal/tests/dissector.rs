//! Checks that tshark agrees with the encoded messages. Skipped if it is not installed.

#[path = "common/capture.rs"]
mod capture;
mod common;

use europa_signal::wire::{Kind, Message, Object};

/// tshark 4.0 to 4.4 does not support C-Type 8, LSP_TUNNEL_IPv6, and reads an IPv4 address there.
fn is_known_to_tshark(message: &Message) -> bool {
    let is_v4 = |object: &Object| match object {
        Object::Session(session) => session.destination.is_ipv4(),
        _ => true,
    };
    message.objects.iter().all(is_v4)
}

#[test]
fn tshark_finds_nothing_malformed() {
    let known: Vec<Message> = common::messages().into_iter().filter(is_known_to_tshark).collect();
    let messages: Vec<Vec<u8>> = known.iter().map(Message::encode).collect();
    let Some(lines) = capture::dissect(&messages) else { return };
    for (line, message) in lines.iter().zip(known) {
        let fields: Vec<&str> = line.split('\t').collect();
        let kind = fields[1].split(',').next().unwrap_or_default();
        assert_eq!(kind, (message.kind as u8).to_string(), "{line}");
        // tshark expects a session in challenges, which have none (RFC 2747).
        let has_session = !matches!(message.kind, Kind::Challenge | Kind::ChallengeResponse);
        let wrong = if has_session { &fields[2..] } else { &fields[2..3] };
        assert!(wrong.iter().all(|field| field.is_empty()), "{line}\n{message:?}");
    }
}
