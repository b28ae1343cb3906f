//! Triggers that are kept or removed, and the state of servers.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use europa_i3::wire::Trigger;
use europa_i3::{Codec, Id, Message, Named};

use super::{ANSWER, InsertArgs, RemoveArgs, SILENCE, Session, bind, ring_key, stopping, tell};
use crate::exit::Failure;

/// Keeps a trigger to ids until a signal, and then removes it.
pub(super) fn insert(args: &InsertArgs) -> Result<ExitCode, Failure> {
    let ids: Vec<Id> = args.to.iter().map(Named::id).collect();
    let trigger = args.id.to_ids(ids).map_err(Failure::usage)?;
    println!("{}", trigger.id);
    let stop = stopping()?;
    let session = Session::new(&args.client)?;
    hold(session, trigger, |_, _| stop.load(Ordering::Relaxed))
}

/// Inserts a trigger to the own address, which reveals its nonce, and removes the trigger.
pub(super) fn remove(args: &RemoveArgs) -> Result<ExitCode, Failure> {
    if args.client.port == 0 {
        let wanted = "--port names the port to which the trigger points";
        return Err(Failure::usage(wanted));
    }
    let session = Session::new(&args.client)?;
    let trigger = args.id.to_host(session.at.into(), args.key)?;
    hold(session, trigger, |inserted, _| inserted)
}

/// Keeps a trigger inserted until `ends` decides, and removes it.
fn hold(
    mut session: Session,
    trigger: Trigger,
    ends: impl Fn(bool, Duration) -> bool,
) -> Result<ExitCode, Failure> {
    let id = trigger.id;
    let start = session.wire.now();
    session.begin(trigger);
    let mut failure = None;
    let mut was_inserted = false;
    session.wire.run(&mut session.client, |client, now, arrived, out| {
        failure = arrived.iter().find_map(|one| tell(one).err());
        was_inserted |= client.is_inserted();
        if failure.is_none() && !was_inserted && now > start + ANSWER {
            failure = Some(Failure::from(SILENCE));
        }
        if failure.is_none() && !ends(was_inserted, now) {
            return ControlFlow::Continue(());
        }
        client.remove(now, &id, out);
        ControlFlow::Break(())
    })?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Prints the state of a server.
pub(super) fn state(server: SocketAddr, key_file: Option<&Path>) -> Result<ExitCode, Failure> {
    let codec = Codec::new(&ring_key(key_file)?);
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let question = codec.write(&Message::AskState);
    let answer = bind(any)?.ask(server, &question, Duration::from_secs(2), |bytes| {
        match codec.read(bytes) {
            Ok(Message::State(text)) => Some(text),
            _ => None,
        }
    });
    match answer.map_err(|error| format!("{server}: {error}"))? {
        Some(text) => {
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let remedy = "is it running, and is --key-file that of its ring?";
            Err(format!("{server} does not answer; {remedy}").into())
        }
    }
}
