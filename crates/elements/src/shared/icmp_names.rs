//! Names of ICMP types and codes.

/// Types.
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

/// Codes: type, name, number.
const CODES: &[(u8, &str, u8)] = &[
    (3, "net", 0),
    (3, "host", 1),
    (3, "protocol", 2),
    (3, "port", 3),
    (3, "needfrag", 4),
    (3, "srcroutefail", 5),
    (3, "netunknown", 6),
    (3, "hostunknown", 7),
    (3, "isolated", 8),
    (3, "netprohibited", 9),
    (3, "hostprohibited", 10),
    (3, "tosnet", 11),
    (3, "toshost", 12),
    (3, "filterprohibited", 13),
    (3, "hostprecedence", 14),
    (3, "precedencecutoff", 15),
    (5, "net", 0),
    (5, "host", 1),
    (5, "tosnet", 2),
    (5, "toshost", 3),
    (11, "transit", 0),
    (11, "reassembly", 1),
    (12, "erroratptr", 0),
    (12, "missingopt", 1),
    (12, "length", 2),
];

/// A type by name or number.
pub(crate) fn parse_type(text: &str) -> Option<u8> {
    let known = TYPES.iter().find(|(name, _)| *name == text);
    known.map(|(_, number)| *number).or_else(|| text.parse().ok())
}

/// A code of a type by name or number.
pub(crate) fn parse_code(kind: u8, text: &str) -> Option<u8> {
    let known = CODES.iter().find(|(of, name, _)| *of == kind && *name == text);
    known.map(|(_, _, number)| *number).or_else(|| text.parse().ok())
}

/// The name of a type, if it has one.
pub(crate) fn name_of_type(kind: u8) -> Option<&'static str> {
    TYPES.iter().find(|(_, number)| *number == kind).map(|(name, _)| *name)
}

/// The name of a code of a type, if it has one.
pub(crate) fn name_of_code(kind: u8, code: u8) -> Option<&'static str> {
    let known = CODES.iter().find(|(of, _, number)| *of == kind && *number == code);
    known.map(|(_, name, _)| *name)
}

/// The name of a type, or its number.
pub(crate) fn type_name(kind: u8) -> String {
    name_of_type(kind).map_or_else(|| kind.to_string(), str::to_owned)
}

/// The name of a code of a type, or its number.
pub(crate) fn code_name(kind: u8, code: u8) -> String {
    name_of_code(kind, code).map_or_else(|| code.to_string(), str::to_owned)
}

/// Whether messages of a type have an identifier and a sequence number.
pub(crate) fn has_identifier(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=16)
}

/// Length of the header of a type, in bytes.
pub(crate) fn header_len(kind: u8) -> usize {
    if matches!(kind, 13 | 14) { 20 } else { 8 }
}
