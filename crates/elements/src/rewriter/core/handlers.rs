//! Handlers of rewriters: tables, look-ups, specifications.

use std::net::Ipv4Addr;

use europa_engine::{Context, Flags, Handler, HandlerError, parse};

use super::{Kind, Rewriter};
use crate::rewriter::flows::{FlowId, MAX_CAPACITY};
use crate::rewriter::pattern::Spec;

pub(crate) const HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("mappings").with(Flags::UNCOMMON),
    Handler::read("table_size"),
    Handler::read("nmappings").with(Flags::UNCOMMON),
    Handler::read("mapping_failures"),
    Handler::read("patterns"),
    Handler::read("size"),
    Handler::both("capacity"),
    Handler::button("clear"),
    Handler::both("pattern0"),
    Handler::both("pattern1"),
    Handler::both("pattern2"),
    Handler::both("pattern3"),
];

pub(crate) const TCP_HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("tcp_table"),
    Handler::read("udp_table"),
    Handler::read("tcp_lookup").with(Flags::PARAMETER),
    Handler::read("udp_lookup").with(Flags::PARAMETER),
    Handler::read("lookup").with(Flags::PARAMETER),
    Handler::read("tcp_mappings").with(Flags::UNCOMMON),
    Handler::read("udp_mappings").with(Flags::UNCOMMON),
    Handler::read("table_size"),
    Handler::read("nmappings").with(Flags::UNCOMMON),
    Handler::read("mapping_failures"),
    Handler::read("patterns"),
    Handler::read("size"),
    Handler::both("capacity"),
    Handler::button("clear"),
    Handler::both("pattern0"),
    Handler::both("pattern1"),
    Handler::both("pattern2"),
    Handler::both("pattern3"),
];

impl Rewriter {
    /// Lines about all flows of a protocol, or of all.
    fn lines(&self, protocol: Option<u8>, now_ns: u64) -> String {
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
    fn look_up(&self, protocol: u8, handler: &str, text: &str) -> Result<String, HandlerError> {
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
            // One number says it, and requests have it as replies have.
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

    pub(crate) fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let now_ns = context.now_ns();
        let tcp = (self.kind == Kind::TcpAndUdp).then_some(6);
        Ok(match handler {
            "table" | "mappings" => self.lines(None, now_ns),
            "tcp_table" | "tcp_mappings" => self.lines(tcp, now_ns),
            "udp_table" | "udp_mappings" => self.lines(Some(17), now_ns),
            "table_size" | "nmappings" => {
                let table = self.table.borrow();
                let counts = (0..self.specs.len()).map(|input| table.count(self.owner, input));
                counts.sum::<u64>().to_string()
            }
            "mapping_failures" => self.failures.iter().sum::<u64>().to_string(),
            "size" => self.table.borrow().len().to_string(),
            "capacity" => self.table.borrow().capacity.to_string(),
            "lookup" | "tcp_lookup" => self.look_up(6, handler, parameter)?,
            "udp_lookup" => self.look_up(17, handler, parameter)?,
            "patterns" => (0..self.specs.len()).filter_map(|input| self.spec_line(input)).collect(),
            other => {
                let input = other.strip_prefix("pattern").and_then(|number| number.parse().ok());
                let line = input.and_then(|input| self.spec_line(input));
                return line.ok_or_else(|| HandlerError::NotFound(other.to_owned()));
            }
        })
    }

    pub(crate) fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let now_ns = context.now_ns();
        match handler {
            "capacity" => {
                let most = parse::<usize>(handler, value)?.min(MAX_CAPACITY);
                self.table.borrow_mut().capacity = most;
                self.shrink(now_ns);
            }
            "clear" => self.table.borrow_mut().shrink(0, now_ns),
            other => {
                let missing = || HandlerError::NotFound(other.to_owned());
                let input: usize = other
                    .strip_prefix("pattern")
                    .and_then(|number| number.parse().ok())
                    .ok_or_else(missing)?;
                let outputs = context.outputs();
                let spec = Spec::parse(value, outputs, context.address_names());
                let spec = spec.map_err(HandlerError::Other)?;
                if matches!(spec, Spec::Mapper(..)) {
                    return Err(HandlerError::Other("unknown specification".to_owned()));
                }
                *self.specs.get_mut(input).ok_or_else(missing)? = spec;
                self.table.borrow_mut().remove_input(self.owner, input);
                if let Some(failures) = self.failures.get_mut(input) {
                    *failures = 0;
                }
            }
        }
        Ok(())
    }
}
