//! Tests of arguments by position, by keyword and by table.

use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

proptest! {
    #[test]
    fn arguments_of_any_text(
        text in prop::collection::vec(prop_oneof![".{0,40}", "[-+0-9a-fx._:/ eEsmunkMGbpsLIT]{0,30}"], 0..5)
    ) {
        let mut names = Names::default();
        let mut arguments = Arguments::new(&text, &mut names, 1, 1);
        let _ = arguments.keyword::<u16>("LIMIT");
        let _ = arguments.positional::<Duration>("TIME");
        let _ = arguments.mandatory::<String>("TEXT");
        for word in &text {
            let _ = (arguments.value::<f64>("A", 0, word), arguments.value::<i64>("B", 0, word));
            let _ = arguments.value::<[u8; 6]>("C", 0, word);
            let _ = arguments.value::<Ipv4Addr>("D", 0, word);
            let _ = arguments.value::<Ipv6Addr>("E", 0, word);
            let _ = arguments.value::<crate::Ipv4Prefix>("F", 0, word);
            let _ = arguments.value::<crate::Ipv6Prefix>("G", 0, word);
            let _ = arguments.value::<Vec<u8>>("H", 0, word);
        }
        // Everything is taken or named.
        let left = arguments.rest().len();
        prop_assert!(left <= text.len());
    }

    #[test]
    fn integers_are_read_back(value in any::<u64>()) {
        for text in [value.to_string(), format!("{value:#x}")] {
            prop_assert_eq!(u64::parse(&text, &Names::default()), Some(value));
        }
    }
}

#[test]
fn positions_and_keywords_are_told_apart_as_in_click() {
    for (text, expected) in [
        ("7", Ok((7, None, None))),
        ("7,8", Ok((7, Some(8), None))),
        ("7,LIMIT 9", Ok((7, None, Some(9)))),
        ("LIMIT 9,7", Ok((7, None, Some(9)))),
        ("SECOND 8,LIMIT 9,FIRST 7", Ok((7, Some(8), Some(9)))),
        ("7,LIMIT 9,LIMIT 10", Ok((7, None, Some(10)))),
        ("", Err("FIRST: required argument missing")),
        ("7,,LIMIT 9", Ok((7, None, Some(9)))),
        ("7,", Ok((7, None, None))),
        ("7,,", Err("unexpected argument ''")),
        (",8", Err("FIRST: required argument missing")),
        ("7,x", Err("SECOND: expected unsigned integer, found 'x'")),
        ("7,8,9", Err("unexpected argument '9'")),
        ("7,FOO 9", Err("unexpected argument 'FOO 9'")),
        ("FOO 9", Err("FIRST: expected unsigned integer, found 'FOO 9'")),
    ] {
        let text: Vec<String> = text.split(',').map(str::to_owned).collect();
        let mut names = Names::default();
        let mut arguments = Arguments::new(&text, &mut names, 1, 1);
        let mut read = || -> Result<(u32, Option<u32>, Option<u32>), ConfigError> {
            let limit = arguments.keyword("LIMIT")?;
            let first = arguments.mandatory("FIRST")?;
            let second = arguments.positional("SECOND")?;
            arguments.finish()?;
            Ok((first, second, limit))
        };
        assert_eq!(read().map_err(|e| e.to_string()), expected.map_err(str::to_owned));
    }
}

/// An element with a table of every kind of line.
#[derive(Default)]
struct Table {
    first: u32,
    second: Option<u32>,
    limit: u64,
    time_ns: u128,
    hosts: Vec<Ipv4Addr>,
    rates: Vec<u16>,
    sum: u64,
}

fn half(name: &'static str, given: &mut Arguments<'_>) -> Result<u64, ConfigError> {
    Ok(given.keyword::<u64>(name)?.unwrap_or(8) / 2)
}

impl crate::Element for Table {
    crate::arguments! { this, given;
        mandatory "FIRST": u32 => this.first;
        positional "SECOND" | "OTHER": u32 => this.second;
        keyword "TIME": Duration = Duration::from_millis(20), with |time| time.as_nanos()
            => this.time_ns;
        keyword "QUIET": bool => _;
        keyword "HALF": "even number", by half => this.limit;
        keyword_list "HOSTS": Ipv4Addr => this.hosts;
        let more = keyword "MORE": u64 = 1;
        each "RATE": u16 => this.rates;
        then {
            this.sum = more + u64::from(this.first);
            if this.sum == 13 {
                return Err(ConfigError::other("MORE: 13 is not allowed"));
            }
        }
        live new, context { this.limit = new.limit; }
    }
}

/// The fields of a table with these arguments, in short.
fn read(text: &str) -> Result<String, String> {
    let text: Vec<String> = text.split(',').map(str::to_owned).collect();
    let (mut names, mut table) = (Names::default(), Table::default());
    let mut given = Arguments::new(&text, &mut names, 1, 1);
    crate::Element::configure(&mut table, &mut given).map_err(|error| error.to_string())?;
    let Table { first, second, limit, time_ns, hosts, rates, sum } = table;
    let time_ms = time_ns / 1_000_000;
    Ok(format!("{first} {second:?} {limit} {time_ms} {hosts:?} {rates:?} {sum}"))
}

#[test]
fn a_table_reads_every_kind_of_argument() {
    for (text, expected) in [
        ("7", Ok("7 None 4 20 [] [] 8")),
        (
            "7,8,TIME 1s,HALF 6,HOSTS 10.0.0.1 10.0.0.2,MORE 2",
            Ok("7 Some(8) 3 1000 [10.0.0.1, 10.0.0.2] [] 9"),
        ),
        // A keyword of a later line is not taken by position.
        ("MORE 5,7,OTHER 3,QUIET true", Ok("7 Some(3) 4 20 [] [] 12")),
        ("7,8,9,10", Ok("7 Some(8) 4 20 [] [9, 10] 8")),
        ("7,MORE 6", Err("MORE: 13 is not allowed")),
        ("7,8,9,x", Err("RATE: expected unsigned integer up to 65535, found 'x'")),
        ("7,HOSTS 10.0.0.1 b", Err("HOSTS: expected IP address, found 'b'")),
        ("QUIET no", Err("FIRST: required argument missing")),
        ("7,QUIET 3", Err("QUIET: expected true or false, found '3'")),
    ] {
        assert_eq!(read(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
    }
}

#[test]
fn a_table_says_what_it_takes() {
    let table = crate::Element::arguments(&Table::default());
    let shown: Vec<_> = Argument::all(table)
        .iter()
        .map(|a| (a.name, a.given, a.default.map(|default| default()), a.ignored, a.list))
        .collect();
    use crate::Given::{Keyword, Mandatory, Positional, Rest};
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        shown,
        [
            ("FIRST", Mandatory, None, false, false),
            ("SECOND", Positional, None, false, false),
            ("TIME", Keyword, text("20ms"), false, false),
            ("QUIET", Keyword, None, true, false),
            ("HALF", Keyword, None, false, false),
            ("HOSTS", Keyword, None, false, true),
            ("MORE", Keyword, text("1"), false, false),
            ("RATE", Rest, None, false, false),
        ]
    );
}
