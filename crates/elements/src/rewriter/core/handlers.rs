//! Handlers of rewriters: tables, look-ups, specifications.

use std::net::Ipv4Addr;

use europa_engine::{Context, HandlerError, parse};

use super::{Kind, Rewriter};
use crate::rewriter::flows::{FlowId, MAX_CAPACITY};
use crate::rewriter::pattern::Spec;

impl Rewriter {
    /// Lines about all flows of a protocol, or of all.
    pub(crate) fn lines(&self, protocol: Option<u8>, now_ns: u64) -> String {
        let (ping, table) = (self.kind == Kind::Ping, self.table.borrow());
        let flows = table.flows().filter(|flow| {
            let wanted = protocol.is_none_or(|protocol| flow.protocol() == protocol);
            wanted && flow.owner() == self.owner
        });
        flows.flat_map(|flow| [false, true].map(|back| flow.text(back, now_ns, ping))).collect()
    }

    fn spec_line(&self, input: usize) -> Option<String> {
        let spec = self.specs.get(input)?;
        Some(match self.table.borrow().count(self.owner, input) {
            0 => format!("{spec}\n"),
            count => format!("{spec} [{count}]\n"),
        })
    }

    /// The mapping of packets with `SADDR SPORT DADDR DPORT`; empty if they belong to no flow.
    pub(crate) fn look_up(
        &self,
        protocol: u8,
        handler: &str,
        text: &str,
    ) -> Result<String, HandlerError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || HandlerError::value(handler, text, "SADDR SPORT DADDR DPORT");
        let [source, source_port, destination, destination_port] = words[..] else {
            return Err(wrong());
        };
        let id = FlowId {
            source: parse::<Ipv4Addr>(handler, source)?.into(),
            source_port: parse(handler, source_port)?,
            destination: parse::<Ipv4Addr>(handler, destination)?.into(),
            destination_port: parse(handler, destination_port)?,
        };
        let space = self.space(if self.kind == Kind::TcpAndUdp { protocol } else { 0 });
        let found = match self.kind {
            // One identifier is enough; requests and replies have the same.
            Kind::Ping => [false, true]
                .iter()
                .find_map(|reply| self.find(space, id.ping(id.source_port, *reply))),
            _ => self.find(space, id),
        };
        let Some((index, back)) = found else { return Ok(String::new()) };
        let mut new = self.flow(index, |flow| flow.rewritten(back)).unwrap_or_default();
        if self.kind == Kind::Ping {
            let identifier = new.identifier(back);
            (new.source_port, new.destination_port) = (identifier, identifier);
        }
        let (from, to) = (Ipv4Addr::from(new.source), Ipv4Addr::from(new.destination));
        Ok(format!("{from} {} {to} {}", new.source_port, new.destination_port))
    }

    /// TCP if there are tables by protocol; else `None`, for all flows.
    pub(crate) fn tcp(&self) -> Option<u8> {
        (self.kind == Kind::TcpAndUdp).then_some(6)
    }

    /// How many flows there are of all inputs.
    pub(crate) fn count(&self) -> u64 {
        let table = self.table.borrow();
        (0..self.specs.len()).map(|input| table.count(self.owner, input)).sum()
    }

    /// Lines about the specifications of all inputs.
    pub(crate) fn spec_lines(&self) -> String {
        (0..self.specs.len()).filter_map(|input| self.spec_line(input)).collect()
    }

    /// The line about the specification of an input.
    pub(crate) fn pattern(&self, input: usize) -> Result<String, HandlerError> {
        let missing = || HandlerError::NotFound(format!("pattern{input}"));
        self.spec_line(input).ok_or_else(missing)
    }

    /// Gives an input another specification, and removes its flows.
    pub(crate) fn set_pattern(
        &mut self,
        input: usize,
        text: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let spec = Spec::parse(text, context.outputs(), context.address_names());
        let spec = spec.map_err(HandlerError::Other)?;
        if matches!(spec, Spec::Mapper(..)) {
            return Err(HandlerError::Other("unknown specification".to_owned()));
        }
        let missing = || HandlerError::NotFound(format!("pattern{input}"));
        *self.specs.get_mut(input).ok_or_else(missing)? = spec;
        self.table.borrow_mut().remove_input(self.owner, input);
        if let Some(failures) = self.failures.get_mut(input) {
            *failures = 0;
        }
        Ok(())
    }

    /// Sets the largest number of flows, and removes the oldest flows beyond it.
    pub(crate) fn set_capacity(&mut self, text: &str, now_ns: u64) -> Result<(), HandlerError> {
        let most = parse::<usize>("capacity", text)?.min(MAX_CAPACITY);
        self.table.borrow_mut().capacity = most;
        self.shrink(now_ns);
        Ok(())
    }
}
