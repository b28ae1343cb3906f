//! Keys, values and constants as text, by their types if known.
//!
//! ```text
//! 42   -1   0x2a           numbers
//! 10.0.0.1                 four bytes in network order
//! 02:00:00:00:00:01        bytes of an address
//! {a: 1, b: [1, 2]}        structures and arrays
//! hex:00ff10               bytes of anything
//! ```

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::btf::{Btf, Kind, TypeId};
use crate::object::Object;
use crate::problem::Problem;

/// Deepest nesting of structures.
const MAX_DEPTH: u32 = 16;
/// Longest text of a value.
const MAX_TEXT: usize = 1 << 16;

/// The text of a value of this type; as bytes if the type is unknown.
pub fn format(btf: &Btf, of: Option<TypeId>, bytes: &[u8]) -> String {
    let mut text = String::new();
    let typed = of.filter(|of| btf.size(*of) == Some(bytes.len() as u32));
    match typed {
        Some(of) => write_value(btf, of, bytes, 0, &mut text),
        None => write_bytes(bytes, &mut text),
    }
    text
}

fn write_bytes(bytes: &[u8], text: &mut String) {
    // Most maps without types hold numbers.
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            let _ = write!(text, "{}", unsigned(bytes));
        }
        _ => {
            text.push_str("hex:");
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
        }
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn signed(bytes: &[u8]) -> i64 {
    let shift = 64 - 8 * bytes.len().clamp(1, 8);
    (unsigned(bytes) << shift).cast_signed() >> shift
}

fn write_value(btf: &Btf, of: TypeId, bytes: &[u8], depth: u32, text: &mut String) {
    if depth > MAX_DEPTH || text.len() > MAX_TEXT {
        text.push_str("...");
        return;
    }
    let of = btf.resolve(of);
    match btf.kind(of) {
        Kind::Integer { boolean: true, .. } => {
            text.push_str(if bytes.iter().any(|byte| *byte != 0) { "true" } else { "false" });
        }
        Kind::Integer { signed: true, .. } if bytes.len() <= 8 => {
            let _ = write!(text, "{}", signed(bytes));
        }
        Kind::Integer { .. } if bytes.len() <= 8 => {
            let _ = write!(text, "{}", unsigned(bytes));
        }
        Kind::Enumeration(values) => {
            let number = signed(bytes);
            match values.iter().find(|(_, value)| *value == number) {
                Some((name, _)) => text.push_str(btf.string(*name)),
                None => {
                    let _ = write!(text, "{number}");
                }
            }
        }
        Kind::Array { of, .. } => {
            let each = btf.size(*of).unwrap_or(0) as usize;
            text.push('[');
            for (number, part) in bytes.chunks(each.max(1)).enumerate() {
                if number > 0 {
                    text.push_str(", ");
                }
                if text.len() > MAX_TEXT {
                    text.push_str("...");
                    break;
                }
                write_value(btf, *of, part, depth + 1, text);
            }
            text.push(']');
        }
        Kind::Structure(members) => {
            text.push('{');
            for (number, member) in members.iter().enumerate() {
                let name = btf.member_name(member);
                if number > 0 {
                    text.push_str(", ");
                }
                let start = member.offset as usize / 8;
                let size = btf.size(member.of).unwrap_or(0) as usize;
                let part = bytes.get(start..start.saturating_add(size)).unwrap_or_default();
                if !name.is_empty() {
                    let _ = write!(text, "{name}: ");
                }
                match member.bits {
                    0 => write_value(btf, member.of, part, depth + 1, text),
                    bits => {
                        let bits = u32::from(bits).min(64);
                        let number = unsigned(part) >> (member.offset % 8);
                        let _ = write!(text, "{}", number & (u64::MAX >> (64 - bits)));
                    }
                }
            }
            text.push('}');
        }
        _ => write_bytes(bytes, text),
    }
}

/// The bytes of a value, from its text.
///
/// # Errors
/// The value found, and the expected form.
pub fn parse(btf: &Btf, of: Option<TypeId>, bytes: usize, text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("hex:") {
        let found = from_hex(digits)
            .ok_or_else(|| format!("'{text}' has no even number of hexadecimal digits"))?;
        return match found.len() == bytes {
            true => Ok(found),
            false => Err(format!("{} bytes found where {bytes} are wanted", found.len())),
        };
    }
    let mut value = vec![0; bytes];
    match of.filter(|of| btf.size(*of) == Some(bytes as u32)) {
        Some(of) => {
            let mut rest = text;
            read_value(btf, of, &mut value, &mut rest, 0)?;
            match rest.trim() {
                "" => Ok(value),
                more => Err(format!("'{more}' is too much")),
            }
        }
        None => {
            read_scalar(text, &mut value, None)?;
            Ok(value)
        }
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| Some(char::from(byte).to_digit(16)? as u8);
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// A word that ends at a separator.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let text = rest.trim_start();
    let end = text.find([',', '}', ']', ' ']).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after.trim_start();
    word
}

fn eat(rest: &mut &str, wanted: char) -> bool {
    let text = rest.trim_start();
    match text.strip_prefix(wanted) {
        Some(after) => {
            *rest = after.trim_start();
            true
        }
        None => false,
    }
}

fn read_value(
    btf: &Btf,
    of: TypeId,
    to: &mut [u8],
    rest: &mut &str,
    depth: u32,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("structures are nested too deeply".into());
    }
    let of = btf.resolve(of);
    match btf.kind(of) {
        Kind::Structure(members) if eat(rest, '{') => {
            while !eat(rest, '}') {
                let colon = rest.find(':').ok_or("expected 'NAME: VALUE' or '}'")?;
                let (name, after) = rest.split_at(colon);
                let member = members.iter().find(|member| btf.member_name(member) == name.trim());
                let member = member.ok_or_else(|| {
                    let names: Vec<&str> = members.iter().map(|m| btf.member_name(m)).collect();
                    format!("no member '{}'; there are {}", name.trim(), names.join(", "))
                })?;
                if member.bits != 0 {
                    return Err(format!(
                        "'{}' is a bit field: write all bytes as hex:",
                        name.trim()
                    ));
                }
                *rest = after.get(1..).unwrap_or_default();
                let start = member.offset as usize / 8;
                let size = btf.size(member.of).unwrap_or(0) as usize;
                let part = to.get_mut(start..start.saturating_add(size));
                let part = part.ok_or("the structure is shorter than its members")?;
                read_value(btf, member.of, part, rest, depth + 1)?;
                if !eat(rest, ',') && !rest.starts_with('}') {
                    return Err(format!("expected ',' or '}}' before '{rest}'"));
                }
            }
            Ok(())
        }
        Kind::Array { of, .. } if eat(rest, '[') => {
            let each = btf.size(*of).unwrap_or(0) as usize;
            let mut parts = to.chunks_mut(each.max(1));
            while !eat(rest, ']') {
                let part = parts.next().ok_or("more values than the array has")?;
                read_value(btf, *of, part, rest, depth + 1)?;
                if !eat(rest, ',') && !rest.starts_with(']') {
                    return Err(format!("expected ',' or ']' before '{rest}'"));
                }
            }
            Ok(())
        }
        Kind::Enumeration(values) => {
            let name = word(rest);
            match values.iter().find(|(of, _)| btf.string(*of) == name) {
                Some((_, value)) => {
                    to.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from);
                    Ok(())
                }
                None => read_scalar(name, to, None),
            }
        }
        Kind::Integer { signed, boolean } => {
            let text = match (word(rest), boolean) {
                ("true", true) => "1",
                ("false", true) => "0",
                (text, _) => text,
            };
            read_scalar(text, to, Some(*signed))
        }
        _ => read_scalar(word(rest), to, None),
    }
}

/// A number or an address. `signed` is not known for bytes without a type.
fn read_scalar(text: &str, to: &mut [u8], signed: Option<bool>) -> Result<(), String> {
    let wanted = || format!("'{text}' is no value of {} bytes", to.len());
    if to.len() == 4
        && let Ok(address) = text.parse::<Ipv4Addr>()
    {
        to.copy_from_slice(&address.octets());
        return Ok(());
    }
    let pairs: Vec<&str> = text.split(':').collect();
    if pairs.len() > 1 && pairs.len() == to.len() {
        let bytes = pairs.iter().map(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
        to.copy_from_slice(&bytes.ok_or_else(wanted)?);
        return Ok(());
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).map_err(|_| wanted())?),
        None => text.parse().map_err(|_| wanted())?,
    };
    let bits = 8 * to.len().min(8) as u32;
    let most = if signed == Some(true) { (1_i128 << (bits - 1)) - 1 } else { (1 << bits) - 1 };
    let least = if signed == Some(false) { 0 } else { -(1_i128 << (bits - 1)) };
    if bits == 0 || to.len() > 8 || number > most || number < least {
        return Err(wanted());
    }
    to.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
    Ok(())
}

/// Sets a constant (`const volatile`) of a program before it is linked.
///
/// # Errors
/// There is no constant of this name, or the value is wrong.
pub fn set_constant(object: &mut Object, name: &str, text: &str) -> Result<(), Problem> {
    let sections = [".rodata", ".data", ".bss"];
    let found = sections.iter().find_map(|section| {
        let variable = object.btf.variables(section).find(|(of, _)| *of == name)?.1;
        Some((*section, variable))
    });
    let Some((section, variable)) = found else {
        let names: Vec<&str> = object.btf.variables(".rodata").map(|(name, _)| name).collect();
        let known = if names.is_empty() { "it has none".to_owned() } else { names.join(", ") };
        return Err(Problem::new(
            format!("the program has no constant '{name}'"),
            format!("constants: {known}; declare one by `const volatile __u32 {name} = 0;`"),
        ));
    };
    let wrong = |what: String| Problem::new(format!("constant '{name}': {what}"), "");
    let bytes = object.btf.size(variable.of).unwrap_or(0) as usize;
    let value = parse(&object.btf, Some(variable.of), bytes, text).map_err(wrong)?;
    let map = object.maps.iter_mut().find(|map| map.name == section);
    let data = map.and_then(|map| map.data.as_mut()).map(|(data, _)| data);
    let start = variable.offset as usize;
    let place = data.and_then(|data| data.get_mut(start..start.saturating_add(bytes)));
    place.ok_or_else(|| wrong("it lies outside of its section".into()))?.copy_from_slice(&value);
    Ok(())
}
