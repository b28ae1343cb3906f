//! The functions of scripts that need nothing but their arguments.

use europa_engine::{Names, Value};

use super::words::{shift_word, unquoted};

const LIST: &str = "expected list of numbers";
const ONE: &str = "expected one number";
const TWO: &str = "expected two numbers";
const SYNTAX: &str = "syntax error";

/// Calls the function `name`; `None` if it does not exist.
pub(crate) fn call(name: &str, arguments: &str) -> Option<Result<String, String>> {
    let text = arguments.trim();
    Some(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => arithmetic(name, text),
        "mod" | "rem" => remainder(name, text),
        "neg" | "abs" => sign(name, text),
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => compare(name, text),
        "not" => boolean(text).map(|value| (!value).to_string()),
        "and" | "or" | "nand" | "nor" => logic(name, text),
        "if" => choose(text),
        "in" => Ok(contains(text).to_string()),
        "first" => Ok(shift_word(&mut &*text).to_owned()),
        "length" => Ok(arguments.len().to_string()),
        "unquote" => Ok(unquoted(text)),
        "sprintf" => super::format::sprintf(text),
        "htons" | "ntohs" => swap(text, |value| i64::from((value as u16).to_be())),
        "htonl" | "ntohl" => swap(text, |value| i64::from((value as u32).to_be() as i32)),
        _ => return None,
    })
}

pub(super) fn integer(word: &str) -> Option<i64> {
    i64::parse(word, &Names::default())
}

fn number(word: &str) -> Option<f64> {
    let looks = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    integer(word).map(|value| value as f64).or_else(|| word.parse().ok().filter(|_| looks))
}

fn boolean(word: &str) -> Result<bool, String> {
    bool::parse(word, &Names::default()).ok_or_else(|| SYNTAX.to_owned())
}

/// A number as C's `%.12g` writes it.
pub(crate) fn real(value: f64) -> String {
    const DIGITS: i32 = 12;
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let scientific = format!("{value:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        strip(&format!("{value:.*}", (DIGITS - 1 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", strip(mantissa), exponent.abs())
    }
}

fn arithmetic(name: &str, mut text: &str) -> Result<String, String> {
    let mut whole: Option<i64> = None;
    let mut exact = !matches!(name, "div" | "idiv");
    let mut total: Option<f64> = None;
    while !text.is_empty() {
        let word = shift_word(&mut text);
        let value = number(word).ok_or(LIST)?;
        let integer = integer(word);
        exact &= integer.is_some();
        let step = |old: f64| match name {
            "add" => old + value,
            "sub" => old - value,
            "min" => old.min(value),
            "max" => old.max(value),
            "mul" => old * value,
            _ => old / value,
        };
        total = Some(total.map_or(value, step));
        if let Some(value) = integer {
            let step = |old: i64| match name {
                "add" => old.wrapping_add(value),
                "sub" => old.wrapping_sub(value),
                "min" => old.min(value),
                "max" => old.max(value),
                _ => old.wrapping_mul(value),
            };
            whole = Some(whole.map_or(value, step));
        }
    }
    let nothing = if matches!(name, "add" | "sub") { 0 } else { 1 };
    Ok(match (exact, name) {
        (true, _) => whole.unwrap_or(nothing).to_string(),
        (false, "idiv") => (total.unwrap_or(1.0) as i64).to_string(),
        (false, _) => real(total.unwrap_or(nothing as f64)),
    })
}

fn two(mut text: &str) -> Result<(&str, &str), String> {
    let (a, b) = (shift_word(&mut text), shift_word(&mut text));
    if a.is_empty() || b.is_empty() || !text.is_empty() { Err(TWO.to_owned()) } else { Ok((a, b)) }
}

fn remainder(name: &str, text: &str) -> Result<String, String> {
    let (a, b) = two(text)?;
    match (integer(a), integer(b)) {
        (Some(_), Some(0)) => Err("division by zero".to_owned()),
        (Some(a), Some(b)) => Ok(a.wrapping_rem(b).to_string()),
        _ if name == "mod" => Err(TWO.to_owned()),
        _ => Ok(real(number(a).ok_or(TWO)? % number(b).ok_or(TWO)?)),
    }
}

fn sign(name: &str, text: &str) -> Result<String, String> {
    if let Some(value) = integer(text) {
        let value = if name == "neg" { value.wrapping_neg() } else { value.wrapping_abs() };
        return Ok(value.to_string());
    }
    let value = number(text).ok_or(ONE)?;
    Ok(real(if name == "neg" { -value } else { value.abs() }))
}

fn compare(name: &str, text: &str) -> Result<String, String> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (a, b) = two(text)?;
    let order = match (integer(a), integer(b), number(a), number(b)) {
        (Some(a), Some(b), ..) => a.cmp(&b),
        (.., Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Greater),
        _ => unquoted(a).cmp(&unquoted(b)),
    };
    let holds = match name {
        "eq" => order == Equal,
        "ne" => order != Equal,
        "gt" => order == Greater,
        "ge" => order != Less,
        "lt" => order == Less,
        _ => order != Greater,
    };
    Ok(holds.to_string())
}

fn logic(name: &str, mut text: &str) -> Result<String, String> {
    let all = matches!(name, "and" | "nand");
    let mut value = all;
    // Stops reading arguments once they cannot change the answer.
    while value == all && !text.is_empty() {
        value = boolean(shift_word(&mut text))?;
    }
    Ok((value != name.starts_with('n')).to_string())
}

fn choose(mut text: &str) -> Result<String, String> {
    let condition = boolean(shift_word(&mut text))?;
    let (yes, no) = (shift_word(&mut text), shift_word(&mut text));
    Ok(if condition { yes } else { no }.to_owned())
}

fn contains(mut text: &str) -> bool {
    let word = unquoted(shift_word(&mut text));
    while !text.is_empty() {
        if unquoted(shift_word(&mut text)) == word {
            return true;
        }
    }
    false
}

fn swap(text: &str, turn: impl Fn(i64) -> i64) -> Result<String, String> {
    integer(text).map(|value| turn(value).to_string()).ok_or_else(|| SYNTAX.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn functions_answer_as_in_click() {
        for (name, arguments, expected) in [
            ("add", "1 2 3", Ok("6")),
            ("add", "", Ok("0")),
            ("add", "1 .5", Ok("1.5")),
            ("add", "1 x", Err(LIST)),
            ("sub", "10 2 2", Ok("6")),
            ("min", "10 6 20", Ok("6")),
            ("max", "-1 6 3", Ok("6")),
            ("mul", "1 2 3", Ok("6")),
            ("div", "75 2.5 5", Ok("6")),
            ("div", "1 3", Ok("0.333333333333")),
            ("div", "1 0", Ok("inf")),
            ("idiv", "60 2 5", Ok("6")),
            ("mod", "7 3", Ok("1")),
            ("mod", "7 0", Err("division by zero")),
            ("rem", "7.5 2", Ok("1.5")),
            ("neg", "-3", Ok("3")),
            ("abs", "-3.5", Ok("3.5")),
            ("eq", "10 0xA", Ok("true")),
            ("eq", "10x 10x", Ok("true")),
            ("le", "9 8", Ok("false")),
            ("lt", "a b", Ok("true")),
            ("eq", "1", Err(TWO)),
            ("not", "false", Ok("true")),
            ("and", "true false", Ok("false")),
            ("nand", "true false", Ok("true")),
            ("or", "false true x", Ok("true")),
            ("nor", "false false", Ok("true")),
            ("if", "true a b", Ok("a")),
            ("in", "foo bar foo", Ok("true")),
            ("first", "'a b' c", Ok("'a b'")),
            ("length", "abcdef", Ok("6")),
            ("unquote", "\"a\"", Ok("a")),
            ("ntohl", "1", Ok("16777216")),
        ] {
            let answer = call(name, arguments).unwrap();
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(answer, expected, "{name} {arguments}");
        }
        assert_eq!(call("none", ""), None);
        assert_eq!((real(1e15), real(0.00001)), ("1e+15".into(), "1e-05".into()));
    }

    proptest! {
        #[test]
        fn any_arguments_have_an_answer(
            name in prop::sample::select(vec!["add", "div", "idiv", "mod", "abs", "neg", "eq", "if", "in"]),
            text in "[-0-9a-fx. '\"\\\\]{0,30}",
        ) {
            let _ = call(name, &text);
        }
    }
}
