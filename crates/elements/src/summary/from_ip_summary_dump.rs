//! # FromIPSummaryDump
//!
//! ## Synopsis
//! `FromIPSummaryDump(FILENAME [, STOP, ACTIVE, ZERO, CHECKSUM, PROTO, MULTIPACKET, SAMPLE, FIELDS, FLOWID, TIMING, DATA, ALLOW_NONEXISTENT])`
//!
//! ## Ports
//! One output, push or pull.
//!
//! ## Description
//! Makes packets from the lines of a summary dump, one in each turn: headers with the fields that
//! the line `!data` names, and as much payload as the dump has. The missing part of the packet's
//! length is in the extra length annotation. See `ToIPSummaryDump` for the fields.
//!
//! Lines that begin with `!` are directives: `!data FIELDS`, `!proto PROTOCOL`, `!flowid SRC SPORT
//! DST DPORT [PROTOCOL]` and `!aggregate NUMBER`. The last three apply to packets without these
//! fields.
//!
//! ## Arguments
//! - FILENAME: the file; `-` is standard input.
//! - DATA (keyword): the dump itself, in place of a file.
//! - STOP (keyword): stop the router at the end; default false.
//! - ACTIVE (keyword): whether to send; default true.
//! - ZERO (keyword): accepted as in Click, without effect: bytes that the dump does not contain are
//!   always zero.
//! - CHECKSUM (keyword): set checksums, and add the missing bytes to the IP length; default false.
//! - PROTO (keyword): protocol of packets whose lines have none; default TCP.
//! - MULTIPACKET (keyword): if a line stands for several packets, make each of them; default false.
//! - SAMPLE (keyword): send each packet with this probability; default 1.
//! - CONTENTS (keyword): fields before a line `!data`; FIELDS, DEFAULT_CONTENTS and DEFAULT_FIELDS
//!   are other names for it.
//! - FLOWID (keyword): as a line `!flowid`; DEFAULT_FLOWID is another name for it.
//! - TIMING (keyword): send packets at the intervals of their times; default false.
//! - ALLOW_NONEXISTENT (keyword): treat a missing file as an empty one; default false.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//! - `sampling_prob` (read): SAMPLE.
//! - `encap` (read): `IP`.
//! - `stop` (write): stops the router.
//!
//! ## See also
//! `ToIPSummaryDump`, `FromDump`

mod multiple;

use std::io::{BufRead, BufReader, Cursor, Read};
use std::net::Ipv4Addr;

use europa_engine::{Names, Value, arguments};

use self::multiple::Multiple;
use super::field::Field;
use super::read::{Builder, Defaults, Flow, Given};
use super::to_ip_summary_dump::words;
use crate::prelude::*;
use crate::shared::common::{fill, push_next, sample};
use crate::shared::fields::Annotations;
use crate::shared::files;
use crate::shared::random::Random;
use crate::shared::values::Protocol;

/// Makes packets from a summary dump.
pub(crate) struct FromIPSummaryDump {
    name: String,
    data: Option<Vec<u8>>,
    input: Option<BufReader<Box<dyn Read>>>,
    line: usize,
    stop: bool,
    active: bool,
    multipacket: bool,
    timing: bool,
    allow_missing: bool,
    sample: f64,
    random: Random,
    defaults: Defaults,
    aggregate: Option<u32>,
    binary: bool,
    /// The fields in the order of the line, and their numbers in the order in which they are used.
    fields: Vec<Field>,
    order: Vec<usize>,
    complained: bool,
    /// Read and not sent yet.
    ready: Option<Multiple>,
    /// The difference between a packet's time and the clock.
    offset_ns: Option<i128>,
    /// Time of the next packet.
    due_ns: u64,
    /// Whether the element has reported that the end was reached.
    told: bool,
    names: Names,
}

impl Default for FromIPSummaryDump {
    fn default() -> FromIPSummaryDump {
        FromIPSummaryDump {
            name: String::new(),
            data: None,
            input: None,
            line: 0,
            stop: false,
            active: true,
            multipacket: false,
            timing: false,
            allow_missing: false,
            sample: 1.0,
            random: Random,
            defaults: Defaults { protocol: 6, flow: None, byte_offsets: true, checksum: false },
            aggregate: None,
            binary: false,
            fields: Vec::new(),
            order: Vec::new(),
            complained: false,
            ready: None,
            offset_ns: None,
            due_ns: 0,
            told: false,
            names: Names::default(),
        }
    }
}

impl Class for FromIPSummaryDump {
    const INFO: ClassInfo =
        ClassInfo::new("FromIPSummaryDump", "0/1").processing("a/a").not_inline("waits for a file");
}

fn protocol(word: &str) -> Option<u8> {
    match word {
        "T" => Some(6),
        "U" => Some(17),
        "I" => Some(1),
        other => Protocol::parse(other, &Names::default()).map(|protocol| protocol.0),
    }
}

/// Parts of a line, in quotes or not.
fn split(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.find(|c: char| {
            let ends = c.is_whitespace() && !quoted;
            quoted ^= c == '"' && !escaped;
            escaped = c == '\\' && quoted && !escaped;
            ends
        });
        let (part, tail) = rest.split_at(end.unwrap_or(rest.len()));
        parts.push(part);
        rest = tail.trim_start();
    }
    parts
}

impl FromIPSummaryDump {
    fn say(&self, context: &mut Context<'_>, text: &str) {
        let name = if self.name == "-" { "<stdin>" } else { &self.name };
        context.log(&format!("{name}:{}: {text}", self.line));
    }

    /// The fields of a `!data` line. Returns the words that are no fields.
    fn set_fields(&mut self, line: &str) -> Vec<String> {
        let mut unknown = Vec::new();
        self.fields.clear();
        for word in words(line) {
            if self.fields.is_empty() && matches!(word.as_str(), "!data" | "!contents") {
                continue;
            }
            let field = match Field::find(&word) {
                Some(field) if field.order() > 0 => field,
                _ => {
                    unknown.push(word);
                    Field::None
                }
            };
            self.fields.push(field);
        }
        self.order = (0..self.fields.len()).collect();
        let fields = &self.fields;
        self.order.sort_by_key(|index| fields.get(*index).map_or(0, |field| field.order()));
        unknown
    }

    fn set_flow(&mut self, words: &[&str]) -> Option<()> {
        let (names, [source, sport, destination, dport, rest @ ..]) = (&self.names, words) else {
            return None;
        };
        let address = |word: &str| match word {
            "-" => Some([0; 4]),
            word => Ipv4Addr::parse(word, names).map(|address| address.octets()),
        };
        let port = |word: &str| if word == "-" { Some(0) } else { word.parse().ok() };
        let flow = Flow {
            source: address(source)?,
            destination: address(destination)?,
            ports: [port(sport)?, port(dport)?],
        };
        if let Some(word) = rest.first() {
            self.defaults.protocol = protocol(word)?;
        }
        self.defaults.flow = Some(flow);
        Some(())
    }

    /// A line that begins with `!`.
    fn command(&mut self, line: &str, context: &mut Context<'_>) {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let (Some(word), rest) = (parts.first(), parts.get(1..).unwrap_or_default()) else {
            return;
        };
        let good = match (*word, rest) {
            ("!data" | "!contents", _) => {
                for word in self.set_fields(line) {
                    self.say(context, &format!("warning: unknown content type '{word}'"));
                }
                !self.fields.is_empty()
            }
            ("!flowid", words) => self.set_flow(words).is_some(),
            ("!proto", [word]) => {
                protocol(word).map(|found| self.defaults.protocol = found).is_some()
            }
            ("!aggregate", [word]) => {
                self.aggregate = word.parse().ok();
                self.aggregate.is_some()
            }
            ("!binary", []) => {
                self.binary = true;
                self.line = 0;
                true
            }
            ("!IPSummaryDump", [version, ..]) => {
                self.defaults.byte_offsets = *version != "1.0";
                true
            }
            (word, _) => !matches!(word, "!proto" | "!aggregate" | "!binary"),
        };
        if !good {
            self.say(context, &format!("bad {word} specification"));
        }
    }

    /// The next line or record: whether it is text, and its bytes.
    fn next_record(&mut self) -> Option<(bool, Vec<u8>)> {
        let input = self.input.as_mut()?;
        let mut bytes = Vec::new();
        self.line += 1;
        if !self.binary {
            let count = input.read_until(b'\n', &mut bytes).ok().filter(|count| *count > 0);
            count?;
            while matches!(bytes.last(), Some(b'\n' | b'\r')) {
                bytes.pop();
            }
            return Some((true, bytes));
        }
        let mut head = [0; 4];
        input.read_exact(&mut head).ok()?;
        let head = u32::from_be_bytes(head);
        // The length may be wrong, so it is limited to the rest of the file.
        let length = u64::from(head & 0x7fff_ffff).checked_sub(4)?;
        input.take(length).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == length).then_some((head >> 31 != 0, bytes))
    }

    /// The next packet, or `None` at the end.
    fn read_packet(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        loop {
            let Some((textual, bytes)) = self.next_record() else {
                self.input = None;
                return None;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if textual && (text.starts_with('#') || text.trim().is_empty()) {
                continue;
            }
            if textual && text.starts_with('!') {
                self.command(text.trim_end_matches('\0'), context);
                continue;
            }
            let packet = context.arena().alloc()?;
            let mut builder = Builder::new(packet, &self.names, self.defaults);
            let found = match textual {
                true => self.inject_line(&mut builder, &text),
                false => self.inject_record(&mut builder, &bytes),
            };
            match found {
                Some(0) if !self.complained => {
                    self.complained = true;
                    let text = if self.fields.is_empty() {
                        "no '!data' provided"
                    } else {
                        "packet parse error"
                    };
                    self.say(context, text);
                }
                Some(0) => {}
                Some(_) => {
                    if let Some(mut packet) = builder.finish() {
                        if let Some(aggregate) = self.aggregate {
                            packet.set_aggregate(aggregate);
                        }
                        return Some(packet);
                    }
                    self.say(context, "packet too long");
                }
                None => self.say(context, "packet too long"),
            }
        }
    }

    /// Number of fields found, or `None` if the packet is too long.
    fn inject_line(&self, builder: &mut Builder<'_>, line: &str) -> Option<usize> {
        let parts = split(line);
        let mut count = 0;
        for index in &self.order {
            let (Some(field), Some(part)) = (self.fields.get(*index), parts.get(*index)) else {
                continue;
            };
            if *part != "-"
                && let Some(given) = builder.parse(*field, part)
            {
                builder.inject(*field, given)?;
                count += 1;
            }
        }
        Some(count)
    }

    fn inject_record(&self, builder: &mut Builder<'_>, mut record: &[u8]) -> Option<usize> {
        let take = |field: &Field| Builder::take(*field, &mut record).flatten();
        let mut found: Vec<Option<Given>> = self.fields.iter().map(take).collect();
        let mut count = 0;
        for index in &self.order {
            if let Some(field) = self.fields.get(*index)
                && let Some(given) = found.get_mut(*index).and_then(Option::take)
            {
                builder.inject(*field, given)?;
                count += 1;
            }
        }
        Some(count)
    }

    /// The next packet if its time has come.
    fn next(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        if !self.active {
            return None;
        }
        while self.ready.is_none() {
            let Some(packet) = self.read_packet(context) else {
                let ended = self.stop && self.input.is_none();
                if ended && !std::mem::replace(&mut self.told, true) {
                    context.stop();
                }
                return None;
            };
            let chosen =
                self.sample >= 1.0 || f64::from(self.random.next()) < self.sample * 4_294_967_296.0;
            if chosen {
                self.ready = Some(Multiple::of(packet, self.multipacket));
            }
        }
        if self.timing {
            let (now_ns, time_ns) = (context.now_ns(), self.ready.as_ref()?.time_ns());
            let offset = *self.offset_ns.get_or_insert(i128::from(now_ns) - i128::from(time_ns));
            let due_ns = u64::try_from(i128::from(time_ns) + offset).unwrap_or(0);
            self.due_ns = due_ns;
            if due_ns > now_ns {
                context.schedule(0, due_ns);
                return None;
            }
        }
        match self.ready.as_mut()?.copy() {
            // There is no slot for it now.
            None if !self.ready.as_ref()?.is_last() => None,
            Some(copy) => Some(copy),
            None => Some(self.ready.take()?.last()),
        }
    }
}

impl Element for FromIPSummaryDump {
    arguments! { this, given;
        let name = positional "FILENAME": String;
        keyword "STOP": bool = false => this.stop;
        keyword "ACTIVE": bool = true => this.active;
        keyword "ZERO": bool => _;
        keyword "TIMING": bool = false => this.timing;
        keyword "CHECKSUM": bool = false => this.defaults.checksum;
        keyword "SAMPLE": "part of the packets, 0 to 1", by sample => this.sample;
        keyword "PROTO": Protocol = Protocol(6) => Protocol(this.defaults.protocol);
        keyword "MULTIPACKET": bool = false => this.multipacket;
        keyword "ALLOW_NONEXISTENT": bool = false => this.allow_missing;
        keyword "DATA": Vec<u8> => this.data;
        let default_fields = keyword "DEFAULT_CONTENTS" | "DEFAULT_FIELDS": String;
        let fields = keyword "CONTENTS" | "FIELDS": String;
        let default_flow = keyword "DEFAULT_FLOWID": String;
        let flow = keyword "FLOWID": String;
        then {
            this.names = given.names().clone();
            for fields in [default_fields, fields].into_iter().flatten() {
                for word in this.set_fields(&fields) {
                    given.warn(format!("unknown content type '{word}'"));
                }
            }
            for text in [default_flow, flow].into_iter().flatten() {
                let words: Vec<&str> = text.split_whitespace().collect();
                let flow = this.set_flow(words.strip_prefix(&["!flowid"]).unwrap_or(&words));
                flow.ok_or_else(|| ConfigError::other("bad !flowid specification"))?;
            }
            match (name, &this.data) {
                (Some(_), Some(_)) => return Err(ConfigError::other("FILENAME and DATA conflict")),
                (Some(name), None) => this.name = name,
                (None, Some(_)) => this.name = "DATA".to_owned(),
                (None, None) => return Err(ConfigError::Missing { name: "FILENAME" }),
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let input: Box<dyn Read> = match self.data.clone() {
            Some(data) => Box::new(Cursor::new(data)),
            None if self.allow_missing && files::is_missing(&self.name) => {
                Box::new(std::io::empty())
            }
            None => files::open(&self.name, context)?,
        };
        self.input = Some(BufReader::new(input));
        if context.is_push_output(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, context: &mut Context<'_>) -> bool {
        let more = self.input.is_some() || self.ready.is_some();
        self.active && more && self.due_ns <= context.now_ns()
    }

    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        Some(self.has_packets(0, context))
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let packet = self.next(context);
        push_next(packet, context)
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        fill(max, batch, || self.next(context));
    }

    // Continues in the same file at the position of the old element.
    keep! { this, old if (&old.name, &old.data) == (&this.name, &this.data);
        input, fields, order, line, binary, aggregate, offset_ns, due_ns, complained, told, ready;
        then {
            this.defaults = Defaults { checksum: this.defaults.checksum, ..old.defaults };
        }
    }

    handlers! { this, context, value;
        both "active" [CHECKBOX] => this.active, set { this.active = parse("active", value)?; this.told = false; };
        read "sampling_prob" => this.sample;
        read "encap" => "IP";
        button "stop" => { this.active = false; context.stop(); };
    }
}

#[cfg(test)]
mod tests;
