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
//! Lines that begin with `!` say more: `!data FIELDS`, `!proto PROTOCOL`, `!flowid SRC SPORT DST
//! DPORT [PROTOCOL]` and `!aggregate NUMBER` for packets that say none themselves.
//!
//! ## Arguments
//! - FILENAME: the file; `-` is standard input.
//! - DATA (keyword): the dump itself, in place of a file.
//! - STOP (keyword): stop the router at the end; default false.
//! - ACTIVE (keyword): whether to send; default true.
//! - ZERO (keyword): accepted for Click's sake; packets are always zero where nothing is known.
//! - CHECKSUM (keyword): set checksums, and add the missing bytes to the IP length; default false.
//! - PROTO (keyword): protocol of packets that say none; default TCP.
//! - MULTIPACKET (keyword): make a packet for each that a line stands for; default false.
//! - SAMPLE (keyword): send each packet with this probability; default 1.
//! - FIELDS (keyword): fields before a line `!data`. CONTENTS is another name for it.
//! - FLOWID (keyword): as a line `!flowid`.
//! - TIMING (keyword): keep the distances of time that packets have; default false.
//! - ALLOW_NONEXISTENT (keyword): take a missing file for an empty one; default false.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//! - `sampling_prob` (read): SAMPLE.
//! - `encap` (read): `IP`.
//! - `stop` (write): stops the router.
//!
//! ## See also
//! `ToIPSummaryDump`, `FromDump`

use std::any::Any;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::net::Ipv4Addr;

use europa_engine::{Names, Value};

use super::field::Field;
use super::read::{Builder, Defaults, Flow, Given};
use super::to_ip_summary_dump::words;
use crate::prelude::*;
use crate::shared::common::{fill, push_next};
use crate::shared::fields::{Annotations, be16, network_mut, set};
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
    /// In the order of the line, and numbers of these in the order of their use.
    fields: Vec<Field>,
    order: Vec<usize>,
    complained: bool,
    /// Read and not sent yet.
    ready: Option<Multiple>,
    /// The difference between a packet's time and the clock.
    offset_ns: Option<i128>,
    /// Time of the next packet.
    due_ns: u64,
    /// Whether it has reported that the end was reached.
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

/// A packet that represents several packets, which are made from it in sequence.
struct Multiple {
    packet: Packet,
    count: u64,
    /// Packets made so far.
    made: u64,
    /// Bytes of all, and of each but the last.
    total: u64,
    each: u64,
    /// Time between two of them.
    step_ns: u64,
}

impl Multiple {
    /// All packets that this one represents if `multiplies`, or only this one.
    fn of(mut packet: Packet, multiplies: bool) -> Multiple {
        let extra = packet.extra_packets();
        if !multiplies || extra == 0 {
            return Multiple { packet, count: 1, made: 0, total: 0, each: 0, step_ns: 0 };
        }
        let (count, there) = (u64::from(extra) + 1, packet.len() as u64);
        let total = there + u64::from(packet.extra_length());
        let each = (total / count).max(there);
        let (first_ns, end_ns) = (packet.first_timestamp_ns(), packet.timestamp_ns());
        let step_ns =
            if first_ns == 0 { 0 } else { end_ns.saturating_sub(first_ns) / u64::from(extra) };
        packet.set_extra_packets(0);
        Multiple { packet, count, made: 0, total, each, step_ns }
    }

    fn is_last(&self) -> bool {
        self.made + 1 >= self.count
    }

    /// Time of the next packet.
    fn time_ns(&self) -> u64 {
        let first_ns = self.packet.first_timestamp_ns();
        match first_ns == 0 || self.is_last() {
            true => self.packet.timestamp_ns(),
            false => first_ns + self.step_ns * self.made,
        }
    }

    /// The next packet, except the last one; `None` without a free slot.
    fn copy(&mut self) -> Option<Packet> {
        if self.is_last() {
            return None;
        }
        let mut copy = self.packet.try_clone()?;
        give(&mut copy, self.each, self.time_ns());
        self.made += 1;
        Some(copy)
    }

    /// The last packet.
    fn last(self) -> Packet {
        let time_ns = self.time_ns();
        let Multiple { count, total, each, mut packet, .. } = self;
        if count > 1 {
            // It gets the rest of the division.
            let this = total.saturating_sub(each * (count - 1)).max(packet.len() as u64);
            give(&mut packet, this, time_ns);
        }
        packet
    }
}

/// Sets the length and time of a packet.
fn give(packet: &mut Packet, bytes: u64, time_ns: u64) {
    let missing = bytes.saturating_sub(packet.len() as u64);
    packet.set_extra_length(u32::try_from(missing).unwrap_or(u32::MAX));
    packet.set_timestamp_ns(time_ns);
    if let Some((header, rest)) = network_mut(packet) {
        set(header, 2, (bytes.min(0xffff) as u16).to_be_bytes());
        if header.get(9) == Some(&17) && be16(rest, 4).is_some() {
            let length = (bytes.min(0xffff) as usize).saturating_sub(header.len()) as u16;
            set(rest, 4, length.to_be_bytes());
        }
    }
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
        // A length is not believed further than the file goes.
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
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.stop = arguments.keyword("STOP")?.unwrap_or(false);
        self.active = arguments.keyword("ACTIVE")?.unwrap_or(true);
        arguments.keyword::<bool>("ZERO")?;
        self.timing = arguments.keyword("TIMING")?.unwrap_or(false);
        self.defaults.checksum = arguments.keyword("CHECKSUM")?.unwrap_or(false);
        self.sample = crate::shared::common::sample(arguments)?;
        if let Some(Protocol(number)) = arguments.keyword("PROTO")? {
            self.defaults.protocol = number;
        }
        self.multipacket = arguments.keyword("MULTIPACKET")?.unwrap_or(false);
        self.allow_missing = arguments.keyword("ALLOW_NONEXISTENT")?.unwrap_or(false);
        self.data = arguments.keyword("DATA")?;
        self.names = arguments.names().clone();
        for name in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            if let Some(fields) = arguments.keyword::<String>(name)? {
                for word in self.set_fields(&fields) {
                    arguments.warn(format!("unknown content type '{word}'"));
                }
            }
        }
        for name in ["DEFAULT_FLOWID", "FLOWID"] {
            if let Some(text) = arguments.keyword::<String>(name)? {
                let words: Vec<&str> = text.split_whitespace().collect();
                let flow = self.set_flow(words.strip_prefix(&["!flowid"]).unwrap_or(&words));
                flow.ok_or_else(|| ConfigError::other("bad !flowid specification"))?;
            }
        }
        match (arguments.positional("FILENAME")?, &self.data) {
            (Some(_), Some(_)) => return Err(ConfigError::other("FILENAME and DATA conflict")),
            (Some(name), None) => self.name = name,
            (None, Some(_)) => self.name = "DATA".to_owned(),
            (None, None) => return Err(ConfigError::Missing { name: "FILENAME" }),
        }
        arguments.finish()
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

    /// Continues in the same file at the other's position.
    fn take_state(&mut self, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<FromIPSummaryDump>()
            && (&old.name, &old.data) == (&self.name, &self.data)
        {
            std::mem::swap(&mut self.input, &mut old.input);
            std::mem::swap(&mut self.fields, &mut old.fields);
            std::mem::swap(&mut self.order, &mut old.order);
            self.defaults = Defaults { checksum: self.defaults.checksum, ..old.defaults };
            (self.line, self.binary, self.aggregate) = (old.line, old.binary, old.aggregate);
            (self.offset_ns, self.due_ns) = (old.offset_ns, old.due_ns);
            (self.complained, self.told) = (old.complained, old.told);
            self.ready = old.ready.take();
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
mod tests {
    use crate::testing::{Bench, run};
    use europa_engine::Graph;

    /// A dump after it is read and written again.
    fn again(dump: &str, from: &[&str], to: &[&str]) -> String {
        // One file a case: the text is its name.
        let hash = super::super::md5::hex(super::super::md5::digest(
            format!("{dump}{from:?}{to:?}").as_bytes(),
        ));
        let path = std::env::temp_dir().join(format!("europa-{}-{hash}", std::process::id()));
        let mut graph = Graph::default();
        let data = format!("DATA \"{}\"", dump.replace('\\', "\\\\").replace('"', "\\\""));
        let source = graph.add("s", "FromIPSummaryDump", &[&[data.as_str()], from].concat());
        let name = path.to_str().unwrap();
        let sink = graph.add("t", "ToIPSummaryDump", &[&[name, "HEADER false"], to].concat());
        graph.connect(source, 0, sink, 0);
        drop(run(graph));
        let text = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }

    #[test]
    fn lines_come_back_as_they_were() {
        for (fields, line) in [
            ("src dst proto", "1.0.0.1 2.0.0.2 U\n"),
            ("timestamp ip_id ip_ttl ip_tos", "7.000000009 12 3 4\n"),
            ("sport dport tcp_seq tcp_ack tcp_flags tcp_window tcp_urp", "1 2 3 4 SA 5 6\n"),
            ("tcp_opt payload", "mss1400;sackok \"a b\\n\"\n"),
            ("ip_opt src", "rr{1.0.0.1}+2 1.0.0.2\n"),
            ("ip_fragoff ip_frag", "64+ f\n"),
            ("ip_len payload_len", "80 40\n"),
            ("eth_src eth_dst eth_type", "00-01-02-03-04-05 06-07-08-09-0A-0B 0800\n"),
            ("count aggregate direction", "3 4 <\n"),
            ("ip_ecn ip_dscp", "ce 46\n"),
        ] {
            let dump = format!("!data {fields}\n{line}");
            assert_eq!(again(&dump, &[], &[&format!("FIELDS {fields}")]), line, "{fields}");
        }
        let dump = "!data icmp_type icmp_code icmp_seq\n!proto I\necho 0 7\nunreachable port 1\n";
        let names = &["FIELDS icmp_type_name icmp_code_name icmp_seq ip_len"];
        assert_eq!(again(dump, &[], names), "echo 0 7 28\nunreachable port - 28\n");
        let dump = "!flowid 1.0.0.1 5 2.0.0.2 6 U\n!data ip_len\n40\n";
        assert_eq!(
            again(dump, &[], &["FIELDS src sport dst dport udp_len"]),
            "1.0.0.1 5 2.0.0.2 6 20\n"
        );
    }

    #[test]
    fn a_line_may_stand_for_many_packets() {
        let dump = "!data timestamp first_timestamp count ip_len\n5 3 3 150\n";
        let out = again(dump, &["MULTIPACKET true"], &["FIELDS timestamp ip_len"]);
        assert_eq!(out, "3.000000 50\n4.000000 50\n5.000000 50\n");
    }

    #[test]
    fn binary_records_come_back() {
        let fields = "FIELDS timestamp src sport tcp_opt ip_len";
        let dump = "!data timestamp src sport tcp_opt ip_len\n2.5 1.0.0.1 7 mss1400 44\n";
        let binary = again(dump, &[], &[fields, "BINARY true"]);
        let record =
            b"\0\0\0\x1b\0\0\0\x02\0\x07\xa1\x20\x01\0\0\x01\0\x07\x04\x02\x04\x05\x78\0\0\0\x2c";
        assert_eq!(binary, String::from_utf8_lossy(record));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Bench::error("FromIPSummaryDump", &[]), "FILENAME: required argument missing");
        let error = Bench::error("FromIPSummaryDump", &["/nonexistent"]);
        assert_eq!(error, "/nonexistent: No such file or directory");
        let error = Bench::error("ToIPSummaryDump", &["-", "FIELDS nothing"]);
        assert_eq!(error, "unknown content type 'nothing'");
    }

    proptest::proptest! {
        #[test]
        fn any_line(line in "[-0-9a-zA-Z.<>!{}:;,= \"]{0,60}") {
            let fields = "src sport ip_opt tcp_opt tcp_flags ip_fragoff payload payload_len ip_len ip_hl tcp_off eth_src";
            let data = format!("DATA \"!data {fields}\n{}\"", line.replace('"', "'"));
            let mut bench = Bench::new("FromIPSummaryDump", &[&data, "CHECKSUM true"]);
            bench.router.set_log(Box::new(|_| {}));
            bench.run();
        }
    }
}
