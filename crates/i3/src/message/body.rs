//! The bodies of messages.

use std::net::{Ipv6Addr, SocketAddr};

use super::{Member, Message, MessageError, Neighbours, Replica, Routed, SUCCESSORS};
use crate::id::Prefix;
use crate::wire::{Reader, Trigger, WireError};

fn write_at(at: &SocketAddr, out: &mut Vec<u8>) {
    let ip = match at {
        SocketAddr::V4(at) => at.ip().to_ipv6_mapped(),
        SocketAddr::V6(at) => *at.ip(),
    };
    out.extend(ip.octets());
    out.extend(at.port().to_be_bytes());
}

fn read_at(reader: &mut Reader<'_>) -> Result<SocketAddr, WireError> {
    let ip = Ipv6Addr::from(reader.array::<16>("an address")?);
    let port = reader.u16("a port")?;
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

fn write_member(member: &Member, out: &mut Vec<u8>) {
    out.extend(member.id.0);
    write_at(&member.at, out);
}

fn read_member(reader: &mut Reader<'_>) -> Result<Member, WireError> {
    Ok(Member { id: Prefix(reader.array("a position")?), at: read_at(reader)? })
}

fn write_neighbours(all: &Neighbours, out: &mut Vec<u8>) {
    out.push(u8::from(all.predecessor.is_some()));
    all.predecessor.iter().for_each(|one| write_member(one, out));
    let successors = &all.successors[..all.successors.len().min(SUCCESSORS)];
    out.push(successors.len() as u8);
    successors.iter().for_each(|one| write_member(one, out));
}

fn read_neighbours(reader: &mut Reader<'_>) -> Result<Neighbours, MessageError> {
    let known = reader.byte("whether a predecessor follows")? != 0;
    let predecessor = known.then(|| read_member(reader)).transpose()?;
    let count = reader.byte("the number of successors")?;
    if usize::from(count) > SUCCESSORS {
        return Err(MessageError::Successors(count));
    }
    let successors = (0..count).map(|_| read_member(reader)).collect::<Result<_, _>>()?;
    Ok(Neighbours { predecessor, successors })
}

pub(super) fn write_body(message: &Message, out: &mut Vec<u8>) {
    match message {
        Message::Ask(one) => {
            out.push(1);
            write_member(one, out);
        }
        Message::Tell(one, all) => {
            out.push(2);
            write_member(one, out);
            write_neighbours(all, out);
        }
        Message::Notify(one) => {
            out.push(3);
            write_member(one, out);
        }
        Message::Find { token, key, origin, hops_left, hops } => {
            out.push(4);
            out.extend(token.to_be_bytes());
            out.extend(key.0);
            write_at(origin, out);
            out.extend([*hops_left, *hops]);
        }
        Message::Found { token, owner, hops } => {
            out.push(5);
            out.extend(token.to_be_bytes());
            write_member(owner, out);
            out.push(*hops);
        }
        Message::Leave(one, all) => {
            out.push(6);
            write_member(one, out);
            write_neighbours(all, out);
        }
        Message::Route(Routed { last, hops_left, copies, previous, packet }) => {
            out.extend([7, u8::from(*last), *hops_left]);
            out.extend(copies.to_be_bytes());
            out.push(u8::from(previous.is_some()));
            previous.iter().for_each(|at| write_at(at, out));
            out.extend(packet);
        }
        Message::Keep(replicas) => {
            out.push(8);
            for Replica { left_ms, trigger } in replicas {
                out.extend(left_ms.to_be_bytes());
                trigger.write(false, out);
            }
        }
        Message::PushBack(id) => {
            out.push(9);
            out.extend(id.0);
        }
        Message::Relay(to, bytes) => {
            out.push(10);
            write_at(to, out);
            out.extend(bytes);
        }
        Message::AskState => out.push(11),
        Message::State(text) => {
            out.push(12);
            out.extend(text.as_bytes());
        }
    }
}

pub(super) fn read_body(reader: &mut Reader<'_>) -> Result<Message, MessageError> {
    Ok(match reader.byte("the kind of the message")? {
        1 => Message::Ask(read_member(reader)?),
        2 => Message::Tell(read_member(reader)?, read_neighbours(reader)?),
        3 => Message::Notify(read_member(reader)?),
        4 => Message::Find {
            token: reader.u64("a token")?,
            key: Prefix(reader.array("a position")?),
            origin: read_at(reader)?,
            hops_left: reader.byte("the hops left")?,
            hops: reader.byte("the hops")?,
        },
        5 => Message::Found {
            token: reader.u64("a token")?,
            owner: read_member(reader)?,
            hops: reader.byte("the hops")?,
        },
        6 => Message::Leave(read_member(reader)?, read_neighbours(reader)?),
        7 => {
            let last = reader.byte("whether this is the last hop")? != 0;
            let hops_left = reader.byte("the hops left")?;
            let copies = reader.u16("the copies")?;
            let known = reader.byte("whether a server follows")? != 0;
            let previous = known.then(|| read_at(reader)).transpose()?;
            Message::Route(Routed {
                last,
                hops_left,
                copies,
                previous,
                packet: reader.left().to_vec(),
            })
        }
        8 => {
            let mut replicas = Vec::new();
            while !reader.is_empty() {
                let left_ms = reader.u16("the time left")?;
                replicas.push(Replica { left_ms, trigger: Trigger::read(reader)? });
            }
            Message::Keep(replicas)
        }
        9 => Message::PushBack(reader.id()?),
        10 => Message::Relay(read_at(reader)?, reader.left().to_vec()),
        11 => Message::AskState,
        12 => {
            let text = String::from_utf8(reader.left().to_vec()).map_err(|_| MessageError::Text)?;
            Message::State(text)
        }
        other => return Err(MessageError::Kind(other)),
    })
}
