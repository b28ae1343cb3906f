//! Pages of the documentation as scripts: their commands, and the output that they show.
//!
//! Fenced blocks are read in their order:
//!
//! | block | meaning |
//! |---|---|
//! | `sh` | commands, which must succeed |
//! | `sh terminal` | commands in a terminal of their own, ended by Ctrl-C at the end of the page |
//! | `sh nightly` | commands that take long: `make test` omits them, `make nightly` does not |
//! | `sh norun REASON` | commands that no test runs |
//! | `text` directly after one of them | its output: `...` stands for any text, a line `...` for any lines |
//! | `text terminal` | the output of the last `sh terminal`, once it has ended by itself |
//! | any other, after a line that ends with a name in backquotes and a colon | the content of this file; a name with a folder is no file of the test |
//!
//! A comment `<!-- test: COMMANDS -->` has commands that make the state which the page's reader
//! already has.

/// The use of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Commands that must succeed.
    Run,
    /// Commands in a terminal of their own.
    Terminal,
    /// Commands that only a nightly run executes.
    Nightly,
    /// Commands that no test runs, with the reason.
    NoRun(String),
    /// Commands that the page does not show.
    Hidden,
    /// The output of the block of commands before.
    Output,
    /// The output of the last block in a terminal.
    TerminalOutput,
    /// The content of a file with this name.
    File(String),
}

/// A block of a page.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its use.
    pub purpose: Use,
    /// Its text, with a newline at the end.
    pub text: String,
    /// The number of its first line in the page.
    pub line: usize,
}

impl Block {
    /// True if it has commands that a reader sees.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        matches!(self.purpose, Use::Run | Use::Terminal | Use::Nightly | Use::NoRun(_))
    }
}

/// The file whose content a block is, by the last line before the block.
fn named(before: &str) -> Option<Use> {
    let name = before.strip_suffix("`:")?.rsplit('`').next()?;
    // A file in another folder belongs to the machine.
    (!name.contains([' ', '/'])).then(|| Use::File(name.to_owned()))
}

/// The use of a block: `info` follows its fence, `before` is the line before it, and `follows` says
/// whether it directly follows commands.
fn purpose(info: &str, before: &str, follows: bool) -> Option<Use> {
    match info.split_once(' ').unwrap_or((info, "")) {
        ("sh", "") => Some(Use::Run),
        ("sh", "terminal") => Some(Use::Terminal),
        ("sh", "nightly") => Some(Use::Nightly),
        ("sh", rest) => Some(Use::NoRun(rest.strip_prefix("norun")?.trim().to_owned())),
        ("text", "terminal") => Some(Use::TerminalOutput),
        ("text", "") if follows => Some(Use::Output),
        _ => named(before),
    }
}

/// The blocks of a page that a test needs, in their order.
///
/// # Panics
/// A block has a word after `sh` that has no meaning.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    // The last line with text, and whether it ended a block of commands.
    let (mut before, mut follows) = ("", false);
    while let Some((number, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let bare = line.trim();
        if let Some(info) = bare.strip_prefix("```") {
            let inside =
                lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let text: String =
                inside.map(|line| line.get(indent..).unwrap_or("").to_owned() + "\n").collect();
            let found = purpose(info, before, follows);
            assert!(found.is_some() || !info.starts_with("sh"), "line {}: {info}", number + 1);
            (before, follows) = ("", false);
            if let Some(purpose) = found {
                let block = Block { purpose, text, line: number + 1 };
                follows = block.is_shown();
                blocks.push(block);
            }
        } else if let Some(first) = bare.strip_prefix("<!-- test:") {
            let mut text = first.to_owned();
            while !text.trim_end().ends_with("-->") {
                let Some((_, line)) = lines.next() else { break };
                text = text + "\n" + line;
            }
            let text = text.trim_end().trim_end_matches("-->").to_owned() + "\n";
            blocks.push(Block { purpose: Use::Hidden, text, line: number + 1 });
            follows = false;
        } else if !bare.is_empty() {
            (before, follows) = (bare, false);
        }
    }
    blocks
}

/// True if a line matches a line of a page: `...` stands for any text, and blanks for any number of
/// them.
fn line_fits(shown: &str, line: &str) -> bool {
    let parts: Vec<&str> = shown.split("...").collect();
    let [first, middle @ .., last] = parts.as_slice() else { return shown == line };
    let Some(mut rest) = line.strip_prefix(first.trim_end()) else { return false };
    for part in middle {
        let Some((_, after)) = rest.split_once(part.trim()) else { return false };
        rest = after;
    }
    rest.ends_with(last.trim_start())
}

/// True if lines match the lines of a page.
fn lines_fit(shown: &[&str], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|from| lines_fit(rest, &lines[from..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, after)| line_fits(first, line) && lines_fit(rest, after)),
    }
}

/// True if an output matches a page, whatever the number of blanks and empty lines.
#[must_use]
pub fn fits(shown: &str, output: &str) -> bool {
    let plain = |text: &str| -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).filter(|line| !line.is_empty()).collect()
    };
    let (shown, output) = (plain(shown), plain(output));
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    lines_fit(&shown, &output.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Write `a.yaml`:\n\n```yaml\nkind: host\n```\n\n<!-- test: true -->\n\
        ```sh\neuropa up\n```\n\n```text\n+ host ...\n```\n\nIt has:\n\n```text\nno output\n```\n\
        - item:\n  ```sh norun needs two machines\n  false\n  ```\n```sh terminal\nsleep 1\n```\n";

    #[test]
    fn a_page_has_these_blocks() {
        let found: Vec<(Use, String)> =
            blocks(PAGE).into_iter().map(|block| (block.purpose, block.text)).collect();
        let block = |purpose, text: &str| (purpose, text.to_owned());
        assert_eq!(
            found,
            [
                block(Use::File("a.yaml".into()), "kind: host\n"),
                block(Use::Hidden, " true \n"),
                block(Use::Run, "europa up\n"),
                block(Use::Output, "+ host ...\n"),
                block(Use::NoRun("needs two machines".into()), "false\n"),
                block(Use::Terminal, "sleep 1\n"),
            ]
        );
    }

    #[test]
    fn files_of_the_machine_are_not_written() {
        assert!(blocks("In `/etc/default/etcd`:\n\n```ini\nA=1\n```\n").is_empty());
        assert!(blocks("In `../x`:\n\n```ini\nA=1\n```\n").is_empty());
    }

    #[test]
    fn output_fits_or_does_not() {
        for (shown, output, wanted) in [
            ("a b\n", "a   b\n\n", true),
            ("a b\n", "a c\n", false),
            ("a\n", "a\nb\n", false),
            ("a\nb\n", "a\n", false),
            ("...\nb\n", "a\na\nb\n", true),
            ("...\nb\n...\n", "a\n", false),
            ("time ... ms\n", "time 0.31 ms\n", true),
            ("time ... ms\n", "time 0.31 s\n", false),
            ("... in ... ms, ... lost\n", "a in 3 ms, 0 lost\n", true),
            ("... in ... ms, 0 lost\n", "a in 3 ms, 10 lost\n", false),
            ("... in ... ms, 0 lost\n", "a in 3 ms, 1 lost\n", false),
            ("process ...\n", "process 17, running\n", true),
        ] {
            assert_eq!(fits(shown, output), wanted, "{shown:?} {output:?}");
        }
    }
}
