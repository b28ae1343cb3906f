//! # FromDump
//!
//! ## Synopsis
//! `FromDump(FILENAME [, TIMING, STOP, END_CALL, ACTIVE, SAMPLE, FORCE_IP, START, START_AFTER, END, END_AFTER, INTERVAL])`
//!
//! ## Ports
//! Output 0 push or pull; an optional second, push output for packets that are not IP, with
//! FORCE_IP.
//!
//! ## Description
//! Makes the packets of a capture file, as tcpdump (pcap) or Wireshark (pcapng) writes it, one in
//! each turn, with their times. The uncaptured length of a packet is in the extra length
//! annotation. Packets that are longer than a buffer are cut.
//!
//! ## Arguments
//! - FILENAME: the file; `-` is standard input.
//! - TIMING: send packets at the intervals of their times; default false.
//! - STOP (keyword): stop the router at the end; default false.
//! - END_CALL (keyword): a handler to write at the end, with its value.
//! - ACTIVE (keyword): whether to send; default true.
//! - SAMPLE (keyword): send each packet with this probability; default 1.
//! - FORCE_IP (keyword): send only IP packets, and set their header annotations; default false, but
//!   true for files of bare IP packets.
//! - START (keyword): send packets from this time on, in seconds since 1970; START_AFTER: from this
//!   time after the first packet on.
//! - END (keyword): end at this time; END_AFTER: this time after the first packet; INTERVAL: this
//!   time after the first packet that is sent.
//! - MMAP, FILEPOS, BURST, TIMING_FNT (keywords): accepted; no effect.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//! - `count` (read): packets sent.
//! - `encap` (read): the header type of packets.
//! - `filename`, `sampling_prob` (read): see the arguments.
//! - `reset_counts` (write): sets `count` to zero.
//! - `stop` (write): stops the router.
//!
//! ## See also
//! `ToDump`, `FromIPSummaryDump`

use super::pcap::{self, Reader, Record};
use crate::prelude::*;
use crate::shared::common::{fill, push_next, sample};
use crate::shared::fields::Annotations;
use crate::shared::files;
use crate::shared::handler_call::HandlerCall;
use crate::shared::random::Random;
use crate::shared::values::Time;

/// Reads a capture file.
pub(crate) struct FromDump {
    name: String,
    reader: Option<Reader>,
    link_type: u32,
    timing: bool,
    stop: bool,
    end_call: Option<HandlerCall>,
    active: bool,
    force_ip: bool,
    sample: f64,
    random: Random,
    /// Bounds, and whether they count from the first packet.
    start: (Time, bool),
    end: (Time, bool),
    interval: Option<Time>,
    first_ns: Option<u64>,
    count: u64,
    /// The difference between a packet's time and the clock.
    offset_ns: Option<i128>,
    /// Time at which the next packet may be sent.
    due_ns: u64,
    /// Whether the element has reported that the end was reached.
    told: bool,
    waiting: Option<Packet>,
}

impl Default for FromDump {
    fn default() -> FromDump {
        FromDump {
            name: String::new(),
            reader: None,
            link_type: 1,
            timing: false,
            stop: false,
            end_call: None,
            active: true,
            force_ip: false,
            sample: 1.0,
            random: Random,
            start: (Time(0), false),
            end: (Time(i64::MAX), false),
            interval: None,
            first_ns: None,
            count: 0,
            offset_ns: None,
            due_ns: 0,
            told: false,
            waiting: None,
        }
    }
}

impl Class for FromDump {
    const INFO: ClassInfo =
        ClassInfo::new("FromDump", "0/1-2").processing("a/ah").not_inline("waits for a file");
}

impl FromDump {
    /// The next record within the bounds.
    fn record(&mut self, context: &mut Context<'_>) -> Option<Record> {
        loop {
            let record = match self.reader.as_mut()?.next() {
                Ok(record) => record,
                Err(error) => {
                    context.log(&format!("{}: {error}", self.name));
                    None
                }
            };
            let Some(record) = record else {
                self.reader = None;
                return None;
            };
            let time = Time::of(record.time_ns);
            let first = Time::of(*self.first_ns.get_or_insert(record.time_ns));
            let bound = |(bound, relative): (Time, bool)| match relative {
                true => Time(first.0.saturating_add(bound.0)),
                false => bound,
            };
            if time < bound(self.start) {
                continue;
            }
            if let Some(interval) = self.interval.take() {
                self.end = (Time(time.0.saturating_add(interval.0)), false);
            }
            if time >= bound(self.end) {
                self.reader = None;
                return None;
            }
            let chosen =
                self.sample >= 1.0 || f64::from(self.random.next()) < self.sample * 4_294_967_296.0;
            if chosen {
                return Some(record);
            }
        }
    }

    fn make(&mut self, record: &Record, context: &mut Context<'_>) -> Option<Packet> {
        let mut packet = context.arena().alloc()?;
        let there = record.data.len().min(packet.tailroom());
        packet.put(there)?.copy_from_slice(record.data.get(..there)?);
        packet.set_timestamp_ns(record.time_ns);
        packet.set_extra_length(record.length.saturating_sub(there as u32));
        packet.set_mac_header(0);
        Some(packet)
    }

    /// Sets header annotations. `false` if there is no IP packet.
    fn mark_ip(&self, packet: &mut Packet) -> bool {
        let Some(at) = pcap::ip_offset(self.link_type, packet.data()) else { return false };
        match packet.data().get(at).map(|byte| (byte >> 4, byte & 15)) {
            Some((4, words)) if words >= 5 => packet.set_network_header(at, usize::from(words) * 4),
            Some((6, _)) => packet.set_network_header(at, 40),
            _ => return false,
        }
        if let Some(destination) = crate::shared::fields::bytes::<4>(packet.data(), at + 16) {
            packet.set_annotation(annotation::DST_IP, destination);
        }
        true
    }

    /// The next packet if its time has come.
    fn next(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        if !self.active {
            return None;
        }
        while self.waiting.is_none() {
            let Some(record) = self.record(context) else {
                if !std::mem::replace(&mut self.told, true) {
                    if self.stop {
                        context.stop();
                    }
                    if let Some(call) = &self.end_call {
                        call.write(context);
                    }
                }
                return None;
            };
            let mut packet = self.make(&record, context)?;
            if self.force_ip && !self.mark_ip(&mut packet) {
                context.push(1, packet);
                continue;
            }
            self.waiting = Some(packet);
        }
        if self.timing {
            let (now_ns, time_ns) = (context.now_ns(), self.waiting.as_ref()?.timestamp_ns());
            let offset = *self.offset_ns.get_or_insert(i128::from(now_ns) - i128::from(time_ns));
            let due_ns = u64::try_from(i128::from(time_ns) + offset).unwrap_or(0);
            self.due_ns = due_ns;
            if due_ns > now_ns {
                context.schedule(0, due_ns);
                return None;
            }
        }
        self.count += 1;
        self.waiting.take()
    }
}

impl Element for FromDump {
    arguments! { this, given;
        mandatory "FILENAME": String => this.name;
        positional "TIMING": bool = false => this.timing;
        keyword "STOP": bool = false => this.stop;
        keyword "END_CALL": "'HANDLER [VALUE]'", by HandlerCall::read => this.end_call;
        keyword "ACTIVE": bool = true => this.active;
        keyword "SAMPLE": "part of the packets, 0 to 1", by sample => this.sample;
        keyword "FORCE_IP": bool = false => this.force_ip;
        let start = keyword "START": Time;
        let start_after = keyword "START_AFTER": Time;
        let end = keyword "END": Time;
        let end_after = keyword "END_AFTER": Time;
        keyword "INTERVAL": Time => this.interval;
        keyword "MMAP": bool => _;
        keyword "TIMING_FNT": String => _;
        keyword "BURST": String => _;
        keyword "FILEPOS": u64 => _;
        then {
            // A relative bound replaces an absolute one.
            for (time, relative) in [(start, false), (start_after, true)] {
                this.start = time.map_or(this.start, |time| (time, relative));
            }
            for (time, relative) in [(end, false), (end_after, true)] {
                this.end = time.map_or(this.end, |time| (time, relative));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if let Some(call) = &self.end_call {
            call.check(context)?;
        }
        let reader = Reader::open(files::open(&self.name, context)?);
        let reader =
            reader.map_err(|error| ConfigError::other(format!("{}: {error}", self.name)))?;
        self.link_type = reader.link_type;
        self.force_ip |= self.link_type == 101;
        if self.force_ip && !pcap::knows_ip(self.link_type) {
            let message = format!(
                "{}: unknown linktype {}; can't force IP packets",
                self.name, self.link_type
            );
            return Err(ConfigError::other(message));
        }
        self.reader = Some(reader);
        if context.is_push_output(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, context: &mut Context<'_>) -> bool {
        let more = self.reader.is_some() || self.waiting.is_some();
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
    keep! { this, old if old.name == this.name;
        reader, first_ns, interval, end, offset_ns, due_ns, count, told, waiting;
    }

    handlers! { this, context, value;
        both "active" [CHECKBOX] => this.active, set { this.active = parse("active", value)?; this.told = false; };
        read "count" => this.count;
        read "encap" => pcap::link_name(this.link_type);
        read "filename" => this.name;
        read "sampling_prob" => this.sample;
        button "reset_counts" => this.count = 0;
        button "stop" => { this.active = false; context.stop(); };
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::{Bench, ip_packet};

    /// Writes frames to a file with `ToDump`, with times one second apart.
    fn write(name: &str, arguments: &[&str], frames: &[Vec<u8>]) -> String {
        let path = std::env::temp_dir().join(format!("europa-dump-{}-{name}", std::process::id()));
        let path = path.to_str().unwrap().to_owned();
        let mut bench = Bench::new("ToDump", &[&[path.as_str()], arguments].concat());
        let packets = (1..).zip(frames).map(|(second, frame)| {
            let mut packet = bench.arena.packet(frame).unwrap();
            packet.set_timestamp_ns(second * 1_000_000_000 + 5_007);
            packet
        });
        let packets = packets.collect();
        bench.push_packets(0, packets);
        assert_eq!(bench.router.read("e.count", ""), Ok(frames.len().to_string()));
        drop(bench);
        path
    }

    #[test]
    fn packets_come_back_with_their_times() {
        let frames = [b"first".to_vec(), b"second".to_vec()];
        for (name, arguments, time_ns) in
            [("nano", &["3"][..], 1_000_005_007), ("micro", &["3", "NANO false"], 1_000_005_000)]
        {
            let path = write(name, arguments, &frames);
            let arguments = [&path, "STOP true", "END_CALL e.active false"];
            let mut bench = Bench::new("FromDump", &arguments);
            assert_eq!(bench.run(), [(0, b"fir".to_vec()), (0, b"sec".to_vec())]);
            let packet = &bench.out[0].1;
            assert_eq!((packet.timestamp_ns(), packet.extra_length()), (time_ns, 2));
            assert!(bench.router.is_stopped());
            assert_eq!(bench.router.read("e.active", ""), Ok("false".into()));
            assert_eq!(bench.router.read("e.encap", ""), Ok("ETHER".into()));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn the_file_is_as_tcpdump_has_it() {
        let path = write("bytes", &["0", "IP", "NANO false"], &[b"x".to_vec()]);
        let bytes = std::fs::read(&path).unwrap();
        let expected = [
            0xa1b2_c3d4u32.to_ne_bytes(),
            if cfg!(target_endian = "little") { [2, 0, 4, 0] } else { [0, 2, 0, 4] },
            [0; 4],
            [0; 4],
            u32::MAX.to_ne_bytes(),
            101u32.to_ne_bytes(),
            1u32.to_ne_bytes(),
            5u32.to_ne_bytes(),
            1u32.to_ne_bytes(),
            1u32.to_ne_bytes(),
        ];
        assert_eq!(bytes, [expected.as_flattened(), b"x"].concat());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_ip_packets_and_only_some_times() {
        let ip = ip_packet(1, 2, 3, b"payload");
        let ether = |kind: [u8; 2]| [&[2; 12][..], &kind, &ip].concat();
        let path = write("ip", &[], &[ether([8, 6]), ether([8, 0]), ether([8, 0]), ether([8, 0])]);
        let mut bench =
            Bench::with_outputs("FromDump", &[&path, "FORCE_IP true", "END_AFTER 3"], 2);
        let mut outputs: Vec<_> = bench.run().into_iter().map(|(output, _)| output).collect();
        outputs.sort_unstable();
        assert_eq!(outputs, [0, 0, 1]);
        let packet =
            bench.out.iter().find(|(output, _)| *output == 0).map(|(_, packet)| packet).unwrap();
        assert_eq!((packet.network_offset(), packet.dst_ip()), (Some(14), 2));
        let mut bench =
            Bench::with_outputs("FromDump", &[&path, "START_AFTER 1", "INTERVAL 1.5"], 1);
        assert_eq!(bench.run().len(), 2);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn files_of_other_kinds_are_refused() {
        let path = std::env::temp_dir().join(format!("europa-dump-{}-bad", std::process::id()));
        for (content, error) in [(&b"short"[..], "too short"), (&[7; 100], "bad magic number")] {
            std::fs::write(&path, content).unwrap();
            let found = Bench::error("FromDump", &[path.to_str().unwrap()]);
            assert!(found.ends_with(&format!("not a tcpdump file ({error})")), "{found}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
