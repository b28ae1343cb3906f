//! # LabelSwitch
//!
//! ## Synopsis
//! `LabelSwitch(INTERFACES [, keywords])`
//!
//! ## Ports
//! With N interfaces, 2N + 2 push inputs. Inputs 0 to N - 1: packets that came by these interfaces
//! and begin with an MPLS label. N to 2N - 1: IP packets of protocol 46 that came by them. 2N: IPv4
//! packets that may belong to a flow; 2N + 1: such IPv6 packets.
//!
//! 2N + 6 push outputs. Outputs 0 to N - 1: packets for IPv4 neighbours behind the interfaces; N to
//! 2N - 1: packets for IPv6 neighbours. 2N, 2N + 1: IPv4 and IPv6 packets that belong to no flow.
//! 2N + 2, 2N + 3: packets that are too long for their flow. 2N + 4, 2N + 5: packets whose LSP ends
//! here.
//!
//! ## Description
//! The label table of a router, and the place where flows begin. Its entries come from a
//! *signaller*, which speaks RSVP-TE. Packets of protocol 46 go to the signaller; packets from the
//! signaller leave for the neighbour that it names. Packets for neighbours have the neighbour as
//! destination annotation, for `ARPQuerier` or `IP6NDSolicitor`. Those with labels have the paint
//! 255, for `LabelEther`.
//!
//! A label's entry swaps the label; removes it at the router before the last; or removes it and has
//! the router look up what is below. A packet whose label has no entry is dropped and counted.
//! Packets to a flow's prefixes get the label of the flow's LSP if the flow keeps to its rate;
//! packets beyond the rate are dropped. While the flow has no LSP, its packets are dropped or
//! follow the routes, as the flow says.
//!
//! The signaller's connection is `connect: unix signaller`, a socket that the node grants. When the
//! connection ends, entries and flows stay.
//!
//! ## Arguments
//! - INTERFACES: names, with blanks between them.
//! - MODEL: `uniform`, the default: each hop of an LSP counts as a hop of its packets; or `pipe`:
//!   an LSP is one hop (RFC 3443).
//! - OWN: the router's subnets: packets to them do not follow a flow with a shorter prefix.
//!
//! ## Handlers
//! - `attach` (write): takes the connection that the node has granted.
//! - `attached` (read): whether there is a signaller.
//! - `table` (read): a line for each LSP: head, tail, tunnel and number, incoming label, outgoing
//!   label, interface and neighbour, packets, bytes. A dash stands for a missing value.
//! - `flows` (read): a line for each flow: name, number of its LSP or a dash.
//! - `count` (read): number of LSPs.
//! - `drops` (read): a line for each cause: packets that were dropped.
//! - `messages` (read): messages received and sent, and messages that found no room.
//!
//! ## See also
//! `LabelEther`, `ARPQuerier`, `MPLSEncap`, `MPLSDecap`

use std::fmt::Write as _;
use std::os::fd::AsFd as _;
use std::rc::Rc;

use europa_channel::Channel;
use europa_engine::{Interest, Resource, arguments};
use europa_label::{FromRouter, Model, ToRouter};
use europa_resource::{Kind, Place, Socket};
use ipnet::IpNet;

use super::datagram;
use super::forward::{Outputs, send};
use super::program::Program;
use crate::prelude::*;
use crate::shared::made::{make, write};

/// The name of the connection that the node grants.
const SIGNALLER: &str = "signaller";
/// MTU of an interface whose own is unknown.
const MTU: usize = 1500;
/// Most messages of one turn, so that packets are handled between turns.
const MOST_MESSAGES: usize = 64;
/// Longest message: a hostile neighbour's message is no longer than a frame.
const MOST_BYTES: usize = 9216;

/// Label table, flows and connection.
#[derive(Default)]
pub(crate) struct LabelSwitch {
    names: Vec<String>,
    pub(super) program: Program,
    signaller: Option<Channel<FromRouter, ToRouter>>,
    received: u64,
    sent: u64,
    lost: u64,
}

impl Class for LabelSwitch {
    /// Inside the switch it has one socket, which the node grants; orders come a bounded number at a
    /// time.
    const INFO: ClassInfo =
        ClassInfo::new("LabelSwitch", "-/-").processing("h/h").flow("x/y").inline();
}

impl LabelSwitch {
    /// Takes the granted connection, and reports the present entries.
    fn attach(&mut self, context: &mut Context<'_>) {
        let at = Place::Path(SIGNALLER.to_owned());
        let resource = Resource::Connect(Socket { kind: Kind::Unix, at, from: None });
        let Ok(socket) = context.devices().open(&resource) else { return };
        self.detach(context);
        self.signaller = Some(Channel::new(socket));
        self.tell(&FromRouter::Kept(self.program.entries()), context);
        self.listen(context);
    }

    fn detach(&mut self, context: &mut Context<'_>) {
        if self.signaller.take().is_some() {
            context.unwatch(0, Interest::Read);
        }
    }

    fn listen(&mut self, context: &mut Context<'_>) {
        let own = self.signaller.as_ref().map(|channel| channel.as_fd().try_clone_to_owned());
        if let Some(Ok(own)) = own {
            context.watch(0, Interest::Read, Rc::new(own));
        }
    }

    /// Sends a message to the signaller; without a signaller or room, counts it as lost.
    fn tell(&mut self, message: &FromRouter, context: &mut Context<'_>) {
        let Some(signaller) = &self.signaller else {
            self.lost += 1;
            return;
        };
        match signaller.try_send(message) {
            Ok(true) => {}
            Ok(false) => self.lost += 1,
            Err(_) => self.detach(context),
        }
    }

    /// Receives packets of protocol 46 from an interface.
    fn hear(&mut self, interface: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.drain() {
            let Some((source, ttl, bytes)) = datagram::read(packet.data()) else {
                self.program.counts.malformed += 1;
                continue;
            };
            self.received += 1;
            let message = FromRouter::Message {
                interface: interface as u32,
                source,
                ttl,
                bytes: bytes.to_vec(),
            };
            self.tell(&message, context);
        }
    }

    /// Carries out an order of the signaller.
    fn obey(&mut self, message: ToRouter, context: &mut Context<'_>) {
        match message {
            ToRouter::Send(wanted) => {
                let fits = wanted.bytes.len() <= MOST_BYTES
                    && (wanted.interface as usize) < self.names.len();
                let made = datagram::header(&wanted).filter(|_| fits).and_then(|(header, used)| {
                    let mut packet = make(context, used + wanted.bytes.len())?;
                    let rest = write(packet.data_mut(), header.get(..used)?);
                    write(rest, &wanted.bytes);
                    packet.set_network_header(0, used.min(40));
                    Some(packet)
                });
                let Some(mut packet) = made else {
                    self.lost += 1;
                    return;
                };
                let hop =
                    europa_label::Hop { interface: wanted.interface, via: wanted.via, label: 3 };
                let output = send(self.program.outputs, &mut packet, &hop, 0);
                self.sent += 1;
                context.push(usize::from(output), packet);
            }
            ToRouter::Program { ticket, lsp, entry } => {
                let is_done = self.program.set(lsp, entry);
                if let Some(ticket) = ticket {
                    self.tell(&FromRouter::Programmed { ticket, is_done }, context);
                }
            }
            ToRouter::Heads(heads) => self.program.set_flows(heads, context.now_ns()),
        }
    }
}

impl Element for LabelSwitch {
    arguments! { this, given;
        mandatory_list "INTERFACES": String => this.names;
        let model = keyword "MODEL": String;
        let own = keyword "OWN": String = String::new();
        then {
            let model = match model.as_deref() {
                None | Some("uniform") => Model::Uniform,
                Some("pipe") => Model::Pipe,
                Some(other) => {
                    let what = format!("MODEL: expected uniform or pipe, found '{other}'");
                    return Err(ConfigError::other(what));
                }
            };
            let read = |word: &str| {
                word.parse::<IpNet>()
                    .map_err(|_| ConfigError::other(format!("OWN: expected prefix, found '{word}'")))
            };
            let own = own.split_whitespace().map(read).collect::<Result<_, _>>()?;
            let interfaces = this.names.len();
            if interfaces == 0 {
                return Err(ConfigError::other("INTERFACES: expected names, found none"));
            }
            let outputs = Outputs::of(interfaces).count();
            if (given.inputs(), given.outputs()) != (interfaces * 2 + 2, outputs) {
                let what = format!(
                    "with {interfaces} interfaces it has {} inputs and {outputs} outputs",
                    interfaces * 2 + 2
                );
                return Err(ConfigError::other(what));
            }
            this.program = Program::new(model, vec![MTU; interfaces], own);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (mtu, name) in self.program.mtus.iter_mut().zip(&self.names) {
            *mtu = context.interface(name).map_or(MTU, |(_, interface)| interface.mtu as usize);
        }
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let interfaces = self.names.len();
        if port < interfaces {
            context.forward_each(batch, |packet| self.program.labelled(packet));
        } else if port < interfaces * 2 {
            self.hear(port - interfaces, batch, context);
        } else {
            let (is_v6, now_ns) = (port > interfaces * 2, context.now_ns());
            context.forward_each(batch, |packet| self.program.head(packet, is_v6, now_ns));
        }
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.attach(context);
    }

    fn descriptor_ready(&mut self, _: u32, _: Interest, context: &mut Context<'_>) {
        for _ in 0..MOST_MESSAGES {
            let Some(signaller) = &mut self.signaller else { return };
            match signaller.try_receive() {
                Ok(Some((message, _))) => self.obey(message, context),
                Ok(None) => return,
                Err(_) => return self.detach(context),
            }
        }
    }

    handlers! { this, context, value;
        button "attach" => context.schedule(0, context.now_ns());
        read "attached" => this.signaller.is_some();
        read "table" => this.table();
        read "flows" => this.flows();
        read "count" => this.program.entries().len();
        read "drops" => this.drops();
        read "messages" => format!("{} {} {}", this.received, this.sent, this.lost);
    }

    // Entries name interfaces by number. If the names differ, the signaller sends all entries again.
    keep! { this, old if old.names == this.names;
        signaller, received, sent, lost;
        then { this.program.take(&mut old.program); }
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        self.listen(context);
    }
}

impl LabelSwitch {
    fn table(&self) -> String {
        let mut text = String::new();
        for lsp in self.program.lsps.iter().flatten() {
            let id = &lsp.id;
            let label =
                |label: Option<u32>| label.map_or("-".to_owned(), |label| label.to_string());
            let name = |hop: &europa_label::Hop| self.names.get(hop.interface as usize).cloned();
            let to = lsp.entry.outgoing.as_ref().map_or("- - -".to_owned(), |hop| {
                format!("{} {} {}", hop.label, name(hop).unwrap_or_default(), hop.via)
            });
            let _ = writeln!(
                text,
                "{} {} {} {} {} {to} {} {}",
                id.sender,
                id.destination,
                id.tunnel,
                id.lsp,
                label(lsp.entry.incoming),
                lsp.packets,
                lsp.bytes
            );
        }
        text
    }

    fn flows(&self) -> String {
        let mut text = String::new();
        for flow in &self.program.flows {
            let lsp = flow.lsp.and(flow.head.lsp).map_or("-".to_owned(), |lsp| lsp.lsp.to_string());
            let _ = writeln!(text, "{} {lsp}", flow.head.name);
        }
        text
    }

    fn drops(&self) -> String {
        let counts = &self.program.counts;
        let all = [
            ("unknown label", counts.unknown),
            ("no hop left", counts.expired),
            ("malformed", counts.malformed),
            ("flow is down", counts.down),
            ("more than the flow may send", counts.exceeding),
            ("no room for a label", counts.no_room),
        ];
        all.iter().fold(String::new(), |text, (cause, count)| format!("{text}{count} {cause}\n"))
    }
}
