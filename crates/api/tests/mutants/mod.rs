//! Makes variants of examples with one mistake each; they are the same in every run.

use std::fs;
use std::path::Path;

/// A text that differs from an example in one place.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The example, and its change.
    pub(crate) what: String,
    /// Its new form.
    pub(crate) text: String,
    /// Whether the text must be invalid. Other texts may be valid by chance.
    pub(crate) wrong: bool,
}

/// Pseudo-random numbers (splitmix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Names and texts of the examples, without comments: a change of a comment is no mistake.
pub(crate) fn examples(folder: &Path) -> Vec<(String, String)> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the examples' folder")
        .map(|entry| entry.expect("an example").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    let bare = |line: &str| line.split(" #").next().unwrap_or_default().trim_end().to_owned();
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).expect("an example");
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let text: Vec<String> = lines.map(bare).collect();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (name, text.join("\n") + "\n")
    };
    paths.iter().map(read).collect()
}

/// Wrong values for each field. None of them is ever valid.
const VALUES: &[(&str, &[&str])] = &[
    ("kind", &["prot", "[]", "7", "Router", "~", "\"\""]),
    (
        "name",
        &["Left", "7", "[a]", "{a: b}", "~", "\"\"", "a b", "x123456789012345678901234567890123"],
    ),
    ("device", &["[eth0]", "7", "{}", "true", "~"]),
    ("slice", &["nobody", "Red", "[red]", "~", "1.5"]),
    ("port", &["nowhere", "[left]", "{a: b}", "~", "Left"]),
    ("mtu", &["-1", "99999999999", "1.5", "large", "[1500]", "0", "1e400", ".nan", "true"]),
    ("vlan", &["0", "4095", "-3", "ten", "[10]", "10.5", "99999999999999999999999"]),
    ("mac", &["02:00:00", "01:00:00:00:00:01", "zz:00:00:00:00:01", "7", "00:00:00:00:00:00", "~"]),
    ("rate", &["fast", "-1Mb/s", "10", "10 parsecs", "[1Gb/s]", "0b/s"]),
    ("delay", &["soon", "-1ms", "10", "1 fortnight", "{}"]),
    ("loss", &["150%", "-1%", "some", "[1%]"]),
    ("builtin", &["ipv5", "[ipv4]", "~", "4"]),
    ("via", &["10.0.0.1/24", "nobody", "300.1.1.1", "[10.0.0.1]", "fe80::g"]),
    ("to", &["10.0.0.0/33", "10.0.0.1/24x", "10.1.2.3/16", "{}", "10.0.0"]),
    (
        "addresses",
        &["10.0.0.1/24", "[10.0.0.1/33]", "[10.0.0.256/24]", "[~]", "{}", "[[]]", "[fd00::/129]"],
    ),
    ("prefix", &["[10.1.2.3/16]", "[10.0.0.0/33]", "10", "[\"\"]"]),
    ("udp", &["[70000]", "[-1]", "[x]", "[0]", "{}"]),
    ("mpls", &["[1048576]", "[-1]", "[x]", "{}"]),
    ("vni", &["16777216", "-1", "x", "[7]"]),
    ("match", &["[]", "all", "7", "{nonsense: 1}", "{vlan: 1, udp: [1], mpls: [1]}"]),
    ("interfaces", &["[]", "7", "~", "{a: 1}", "{\"1a\": {port: left}}"]),
    (
        "fast_path",
        &["ipv4", "[]", "{}", "~", "{builtin: ipv4, click: \"Idle\"}", "{program: [./x]}"],
    ),
    ("link", &["[core]", "{}", "Core", "~"]),
    ("gateway", &["10.0.0.1/24", "nobody", "{}"]),
];

/// Lines that are invalid at any place.
const LINES: &[&str] = &[
    "\t\tkind: port",
    "kind: [port",
    "}",
    "]",
    "key: 'open",
    "key: \"open",
    "- - - {",
    "*nobody",
    "a: *nobody",
    "&a [*a]",
    "%YAML 9.9",
    "@reserved",
    "`tick`",
    "!!binary zzz%%%",
    "nonsense: 1",
    "kind: port",
    "? {a: b}",
    "key: value: value",
    "\u{1}\u{2}\u{3}",
    "\u{fffd}\u{fffd}PNG\u{0}",
];

/// The lines `field: value` of a text, each with the position of its value.
fn fields(text: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(": ") {
        let name = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        let name = name.unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let (mut depth, start) = (0, at + 2);
        let rest = text[start..].char_indices().find(|(_, c)| match c {
            '[' | '{' => {
                depth += 1;
                false
            }
            ']' | '}' if depth > 0 => {
                depth -= 1;
                false
            }
            ']' | '}' => true,
            ',' => depth == 0,
            '\n' => true,
            _ => false,
        });
        let end = rest.map_or(text.len(), |(end, _)| start + end);
        // If a value continues on the next lines, it cannot be replaced within one line.
        if !text[start..end].starts_with('|') {
            found.push((start..end, name.to_owned()));
        }
    }
    found
}

/// Makes one mutant of each possible kind; `round` counts through the possible places.
fn mutate(name: &str, text: &str, random: &mut Random, mutants: &mut Vec<Mutant>) {
    let mut add = |what: String, text: String, wrong: bool| {
        mutants.push(Mutant { what: format!("{name}: {what}"), text, wrong });
    };
    let cut = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let some_byte = |random: &mut Random| cut(random.below(text.len())).unwrap_or(0);
    let replaced = |range: std::ops::Range<usize>, by: &str| {
        format!("{}{by}{}", &text[..range.start], &text[range.end..])
    };
    let next = |at: usize| text[at..].chars().next().map_or(at, |c| at + c.len_utf8());

    let at = some_byte(random);
    add(format!("character {at} struck out"), replaced(at..next(at), ""), false);
    let at = some_byte(random);
    let twice = text[at..next(at)].repeat(2);
    add(format!("character {at} doubled"), replaced(at..next(at), &twice), false);
    let at = some_byte(random);
    let other =
        random.of(&["#", ":", "\"", "{", "-", "\t", "é", "0", "&", "*", "!", "|", "%", "@"]);
    add(format!("character {at} becomes {other:?}"), replaced(at..next(at), other), false);
    let at = some_byte(random);
    add(format!("cut off at {at}"), text[..at].to_owned(), false);

    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = random.below(lines.len());
    let with = |place: usize, line: String| {
        let mut all: Vec<&str> = lines.clone();
        all[place] = &line;
        all.concat()
    };
    let deeper = " ".repeat(1 + random.below(5));
    add(format!("line {} moved right", place + 1), with(place, deeper + lines[place]), false);
    let less = lines[place].trim_start_matches(' ').to_owned();
    add(format!("line {} moved left", place + 1), with(place, less), false);
    add(format!("line {} twice", place + 1), with(place, lines[place].repeat(2)), false);
    add(format!("line {} struck out", place + 1), with(place, String::new()), false);
    let line = random.of(LINES);
    let added = format!("{line}\n{}", lines[place]);
    add(format!("{line:?} before line {}", place + 1), with(place, added), false);

    let fields = fields(text);
    let (range, field) = random.of(&fields).clone();
    let key = range.start - 2 - field.len()..range.start - 2;
    let letter = random.below(field.len());
    let typo = format!("{}x{}", &field[..letter], &field[letter..]);
    // Users choose the names of interfaces and of a host's parameters.
    let known = VALUES.iter().any(|(name, _)| *name == field);
    add(format!("{field} becomes {typo}"), replaced(key, &typo), known && field != "to");
    let twice = format!("{}, {field}: {}", &text[range.clone()], &text[range.clone()]);
    add(format!("{field} twice"), replaced(range.clone(), &twice), false);
    for _ in 0..4 {
        let (range, field) = random.of(&fields).clone();
        let Some((_, values)) = VALUES.iter().find(|(name, _)| *name == field) else { continue };
        let value = random.of(values);
        // Users choose this key as a name, so it may be valid by chance.
        add(format!("{field} is {value}"), replaced(range, value), false);
    }
}

/// Makes this number of different mutants of the examples in `folder`, and files that are no
/// configurations at all.
pub(crate) fn mutants(folder: &Path, count: usize) -> Vec<Mutant> {
    let mut random = Random(3);
    let examples = examples(folder);
    let mut mutants = bombs();
    while mutants.len() < count {
        for (name, text) in &examples {
            mutate(name, text, &mut random, &mut mutants);
        }
        let mut seen = std::collections::HashSet::new();
        mutants.retain(|mutant| seen.insert(mutant.text.clone()));
    }
    mutants.truncate(count);
    mutants
}

/// Files that could exhaust memory or time, and files that are not YAML.
fn bombs() -> Vec<Mutant> {
    let laughs = (0..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
        format!("{text}a{}: &a{} [*a{i}, *a{i}, *a{i}, *a{i}, *a{i}, *a{i}]\n", i + 1, i + 1)
    });
    let router = "kind: router\nname: r\nslice: red\nfast_path: {builtin: ipv4}\ninterfaces:\n";
    let many: String = (0..2000).map(|i| format!("  i{i}: {{port: p{i}}}\n")).collect();
    [
        ("aliases that grow", laughs),
        ("an alias of itself", "a: &a [*a]\n".to_owned()),
        ("deep lists", "[".repeat(100_000)),
        ("deep mappings", "{a: ".repeat(50_000)),
        ("deep lines", "- ".repeat(50_000)),
        ("deep and closed", format!("a: {}{}", "[".repeat(5000), "]".repeat(5000))),
        (
            "a long number",
            format!("kind: port\nname: p\ndevice: d\nmtu: {}\n", "9".repeat(100_000)),
        ),
        ("a long text", format!("kind: port\nname: {}\ndevice: d\n", "x".repeat(200_000))),
        ("many mistakes", format!("{router}{many}")),
        ("many documents", "---\nkind: nonsense\n".repeat(3000)),
        ("zeros", "\0".repeat(5000)),
        ("an image", "\u{fffd}PNG\r\n\u{1a}\n\0\0\0\rIHDR".repeat(50)),
        ("a program", "\u{7f}ELF\u{2}\u{1}\u{1}\0\0\0".repeat(50)),
        ("JSON that is cut off", "{\"kind\": \"port\", \"name\": ".to_owned()),
        ("another tool's", "version: '3'\nservices:\n  web: {image: nginx}\n".to_owned()),
        ("a list", "- a\n- b\n".to_owned()),
        ("prose", "This is not a configuration.\n".to_owned()),
        ("a shell script", "#!/bin/sh\nset -e\nip link show | grep eth0\n".to_owned()),
    ]
    .into_iter()
    .map(|(what, text)| Mutant { what: what.to_owned(), text, wrong: true })
    .collect()
}
