//! `send`: payloads to ids.

use std::io::BufRead;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use europa_i3::client::Arrived;
use europa_i3::{Id, Named};

use super::{SILENCE, SendArgs, Session, stopping, tell};
use crate::exit::Failure;

/// Time after the last packet for which the client waits: a server may answer that the id has no
/// trigger.
const LINGER: Duration = Duration::from_millis(300);
/// Time limit for a server's answer to an echo request, and interval between two requests.
const ECHO: Duration = Duration::from_secs(3);
const ECHO_AGAIN: Duration = Duration::from_millis(500);
/// Time between two packets with the same payload.
const EVERY: Duration = Duration::from_secs(1);
/// Lines that wait for being sent.
const LINES: usize = 64;

/// The payloads, one after the other.
enum Payloads {
    Text { text: String, left: u64 },
    Lines(Receiver<std::io::Result<String>>),
}

impl Payloads {
    fn new(args: &SendArgs) -> Payloads {
        if let Some(text) = &args.text {
            return Payloads::Text { text: text.clone(), left: args.count };
        }
        let (sender, receiver) = sync_channel(LINES);
        // Reading may wait for the user, so a thread of its own reads, while the client continues.
        // The thread ends with the process.
        std::thread::spawn(move || {
            std::io::stdin().lock().lines().try_for_each(|line| sender.send(line))
        });
        Payloads::Lines(receiver)
    }

    /// Sends the next payload; `Break` after the last one.
    fn next(&mut self) -> ControlFlow<(), Option<std::io::Result<String>>> {
        match self {
            Payloads::Text { left: 0, .. } => ControlFlow::Break(()),
            Payloads::Text { text, left } => {
                *left -= 1;
                ControlFlow::Continue(Some(Ok(text.clone())))
            }
            Payloads::Lines(lines) => match lines.try_recv() {
                Ok(line) => ControlFlow::Continue(Some(line)),
                Err(TryRecvError::Empty) => ControlFlow::Continue(None),
                Err(TryRecvError::Disconnected) => ControlFlow::Break(()),
            },
        }
    }
}

/// Sends payloads by the first server that answers.
pub(super) fn send(args: &SendArgs) -> Result<ExitCode, Failure> {
    let mut session = Session::new(&args.client)?;
    let stack: Vec<Id> = args.ids.iter().map(Named::id).collect();
    if stack.len() > europa_i3::wire::MOST_IDS {
        return Err(Failure::usage(format!("{} ids; 15 are possible", stack.len())));
    }
    let every = args.every.unwrap_or(if args.text.is_some() { EVERY } else { Duration::ZERO });
    let mut payloads = Payloads::new(args);
    let stop = stopping()?;
    let start = session.wire.now();
    let (mut next, mut next_echo, mut end) = (start, start, Duration::MAX);
    let mut missing = false;
    let mut failure = None;
    session.wire.run(&mut session.client, |client, now, arrived, out| {
        for one in arrived {
            missing |= matches!(one, Arrived::NotPresent(_));
            // Other answers concern triggers.
            let _ = tell(&one);
        }
        if !client.is_reached() {
            if now >= next_echo {
                next_echo = now + ECHO_AGAIN;
                client.probe(now, out);
            }
            if now >= start + ECHO {
                failure = Some(Failure::from(SILENCE));
            }
        } else if end == Duration::MAX && now >= next {
            match payloads.next() {
                ControlFlow::Continue(None) => {}
                ControlFlow::Continue(Some(Ok(payload))) => {
                    next = now + every;
                    client.send(now, stack.clone(), payload.as_bytes(), out);
                }
                ControlFlow::Continue(Some(Err(error))) => {
                    failure = Some(Failure::from(format!("standard input: {error}")));
                }
                ControlFlow::Break(()) => end = now + LINGER,
            }
        }
        let ends = now >= end || failure.is_some() || stop.load(Ordering::Relaxed);
        if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match failure {
        Some(failure) => Err(failure),
        None if missing => Ok(ExitCode::FAILURE),
        None => Ok(ExitCode::SUCCESS),
    }
}
