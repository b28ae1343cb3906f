//! The fields of IP summary dumps: their names and forms.

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Timestamp,
    NanoTimestamp,
    Seconds,
    Microseconds,
    AllMicroseconds,
    FirstTimestamp,
    FirstNanoTimestamp,
    Count,
    Link,
    Paint,
    Direction,
    Aggregate,
    WireLen,
    EthSrc,
    EthDst,
    EthType,
    IpSrc,
    IpDst,
    IpTos,
    IpDscp,
    IpEcn,
    IpTtl,
    IpFrag,
    IpFragOff,
    IpId,
    IpSum,
    IpProto,
    IpHl,
    IpLen,
    IpCaptureLen,
    IpOpt,
    SrcPort,
    DstPort,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpWindow,
    TcpUrp,
    TcpOpt,
    TcpNtOpt,
    TcpSack,
    UdpLen,
    IcmpType,
    IcmpCode,
    IcmpTypeName,
    IcmpCodeName,
    IcmpFlowId,
    IcmpSeq,
    IcmpNextMtu,
    Payload,
    PayloadLen,
    PayloadMd5,
    PayloadMd5Hex,
    /// No field: stands for fields of an input that are not supported.
    None,
}

/// The size of a field in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// This number of bytes.
    Bytes(usize),
    /// A byte with the length, then this number of bytes.
    Counted,
    /// Only in text records, not in binary ones.
    Text,
}

use Field as F;
use Width::{Bytes, Counted, Text};

/// Field, name, width, and position in the order in which fields are written into a packet: those
/// of outer headers come first. Fields with position 0 cannot be read.
const FIELDS: &[(Field, &str, Width, u16)] = &[
    (F::Timestamp, "timestamp", Bytes(8), 100),
    (F::NanoTimestamp, "ntimestamp", Bytes(8), 100),
    (F::Seconds, "ts_sec", Bytes(4), 100),
    (F::Microseconds, "ts_usec", Bytes(4), 100),
    (F::AllMicroseconds, "ts_usec1", Bytes(8), 100),
    (F::FirstTimestamp, "first_timestamp", Bytes(8), 100),
    (F::FirstNanoTimestamp, "first_ntimestamp", Bytes(8), 100),
    (F::Count, "count", Bytes(4), 100),
    (F::Link, "link", Bytes(1), 100),
    (F::Paint, "paint", Bytes(1), 100),
    (F::Direction, "direction", Bytes(1), 100),
    (F::Aggregate, "aggregate", Bytes(4), 100),
    (F::WireLen, "wire_len", Bytes(4), 100),
    (F::EthSrc, "eth_src", Bytes(6), 200),
    (F::EthDst, "eth_dst", Bytes(6), 200),
    (F::EthType, "eth_type", Bytes(2), 200),
    (F::IpSrc, "ip_src", Bytes(4), 300),
    (F::IpDst, "ip_dst", Bytes(4), 300),
    (F::IpTos, "ip_tos", Bytes(1), 300),
    (F::IpDscp, "ip_dscp", Bytes(1), 300),
    (F::IpEcn, "ip_ecn", Bytes(1), 300),
    (F::IpTtl, "ip_ttl", Bytes(1), 300),
    (F::IpFrag, "ip_frag", Bytes(1), 298),
    (F::IpFragOff, "ip_fragoff", Bytes(2), 299),
    (F::IpId, "ip_id", Bytes(2), 300),
    (F::IpSum, "ip_sum", Bytes(2), 302),
    (F::IpProto, "ip_proto", Bytes(1), 300),
    (F::IpHl, "ip_hl", Bytes(1), 299),
    (F::IpLen, "ip_len", Bytes(4), 301),
    (F::IpCaptureLen, "ip_capture_len", Bytes(4), 502),
    (F::IpOpt, "ip_opt", Counted, 300),
    (F::SrcPort, "sport", Bytes(2), 400),
    (F::DstPort, "dport", Bytes(2), 400),
    (F::TcpSeq, "tcp_seq", Bytes(4), 400),
    (F::TcpAck, "tcp_ack", Bytes(4), 400),
    (F::TcpOff, "tcp_off", Bytes(1), 399),
    (F::TcpFlags, "tcp_flags", Bytes(1), 400),
    (F::TcpWindow, "tcp_window", Bytes(2), 400),
    (F::TcpUrp, "tcp_urp", Bytes(2), 400),
    (F::TcpOpt, "tcp_opt", Counted, 403),
    (F::TcpNtOpt, "tcp_ntopt", Counted, 402),
    (F::TcpSack, "tcp_sack", Counted, 401),
    (F::UdpLen, "udp_len", Bytes(4), 400),
    (F::IcmpType, "icmp_type", Bytes(1), 400),
    (F::IcmpCode, "icmp_code", Bytes(1), 401),
    (F::IcmpTypeName, "icmp_type_name", Bytes(1), 400),
    (F::IcmpCodeName, "icmp_code_name", Bytes(1), 401),
    (F::IcmpFlowId, "icmp_flowid", Bytes(2), 402),
    (F::IcmpSeq, "icmp_seq", Bytes(2), 402),
    (F::IcmpNextMtu, "icmp_nextmtu", Bytes(2), 402),
    (F::Payload, "payload", Text, 500),
    (F::PayloadLen, "payload_len", Bytes(4), 501),
    (F::PayloadMd5, "payload_md5", Bytes(16), 0),
    (F::PayloadMd5Hex, "payload_md5_hex", Bytes(16), 0),
    (F::None, "none", Bytes(0), 0),
];

/// Other names.
const SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
    ("length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
];

impl Field {
    /// The field of a name: `ip_src`, `ip src` or `src`.
    pub(crate) fn find(name: &str) -> Option<Field> {
        let name = name.replace(' ', "_");
        let known = |name: &str| {
            let name = SYNONYMS.iter().find(|(other, _)| *other == name).map_or(name, |(_, of)| of);
            FIELDS
                .iter()
                .find(|(field, known, ..)| *known == name && *field != F::None)
                .map(|f| f.0)
        };
        known(&name).or_else(|| known(&format!("ip_{name}")))
    }

    fn entry(self) -> (&'static str, Width, u16) {
        let entry = FIELDS.iter().find(|(field, ..)| *field == self);
        entry.map_or(("none", Bytes(0), 0), |(_, name, width, order)| (name, *width, *order))
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.entry().0
    }

    /// Its size in a binary record.
    pub(crate) fn width(self) -> Width {
        self.entry().1
    }

    /// The position of the field when a packet is built; 0 if it cannot be used.
    pub(crate) fn order(self) -> u16 {
        self.entry().2
    }
}

/// TCP flags by bit.
pub(crate) const TCP_FLAGS: &str = "FSRPAUECN";

/// The bit of a flag, also by its older names.
pub(crate) fn tcp_flag(letter: char) -> Option<u16> {
    let letter = match letter {
        'W' | 'Y' => 'C',
        'X' => 'E',
        other => other,
    };
    TCP_FLAGS.find(letter).map(|bit| 1 << bit)
}
