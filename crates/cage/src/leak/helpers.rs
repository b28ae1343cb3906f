//! The arguments and results of helpers.

use crate::leak::value::{Region, Value};
use crate::object::Object;

/// The kind of a helper's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Number,
    Context,
    Map,
    /// Memory of a map's key or value, the map being argument 1.
    Key,
    MapValue,
    /// Memory that the helper reads; the next argument is its length.
    Reads,
    Writes,
    /// Memory of this number of bytes that the helper reads and writes.
    Both(u16),
    /// Memory that the helper reads; the former argument is its length.
    ReadsBefore,
    Function,
    /// The argument of a callback, of any type.
    Anything,
    /// A record, or a lock in a map's value.
    Record,
}

/// The result of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Number,
    Value,
    Record,
}

/// Arguments and result of a helper.
pub(super) fn signature(helper: u32) -> Option<(&'static [Takes], Gives)> {
    use Takes::{
        Anything, Both, Context, Function, Key, Map, MapValue, Number, Reads, ReadsBefore, Record,
        Writes,
    };
    let takes: &[Takes] = match helper {
        1 => return Some((&[Map, Key], Gives::Value)),
        2 => &[Map, Key, MapValue, Number],
        3 => &[Map, Key],
        5 | 7 | 8 | 42 | 118 | 125 | 160 | 208 => &[],
        6 => &[Reads, Number, Number, Number, Number],
        12 => &[Context, Map, Number],
        23 => &[Number, Number],
        25 => &[Context, Map, Number, Reads, Number],
        28 => &[Reads, Number, Reads, Number, Number],
        44 | 54 | 65 => &[Context, Number],
        51 => &[Map, Number, Number],
        69 => &[Context, Both(64), Number, Number],
        93 | 94 => &[Record],
        130 => &[Map, Reads, Number, Number],
        131 => return Some((&[Map, Number, Number], Gives::Record)),
        132 | 133 => &[Record, Number],
        134 => &[Map, Number],
        177 => &[Reads, Number, Reads, Number],
        181 => &[Number, Function, Anything, Number],
        182 => &[Reads, Number, ReadsBefore],
        188 => &[Context],
        189 => &[Context, Number, Writes, Number],
        190 => &[Context, Number, Reads, Number],
        _ => return None,
    };
    Some((takes, Gives::Number))
}

/// Length of the memory that an argument points to; `None` if it is unknown.
pub(super) fn bytes_of(
    object: &Object,
    takes: Takes,
    at: usize,
    arguments: &[Value; 5],
) -> Option<usize> {
    let number = |at: usize| match arguments.get(at) {
        Some(Value::Number(range)) => {
            usize::try_from(range.high).ok().filter(|bytes| *bytes <= 4096)
        }
        _ => None,
    };
    let map = match arguments.first() {
        Some(Value::Pointer(Region::Map(map), _)) => object.maps.get(usize::from(*map)),
        _ => None,
    };
    match takes {
        Takes::Key => map.map(|map| map.key_bytes as usize),
        Takes::MapValue => map.map(|map| map.value_bytes as usize),
        Takes::Reads | Takes::Writes => number(at + 1),
        Takes::ReadsBefore => number(at.checked_sub(1)?),
        Takes::Both(bytes) => Some(usize::from(bytes)),
        _ => Some(0),
    }
}
