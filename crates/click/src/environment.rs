//! `$variables`: lexically nested definitions and their substitution.

use std::collections::HashMap;

use crate::quote::quote;
use crate::text::{comment_starts, skip_comment, split_words};

/// Deepest nesting of variables in the values of other variables.
const MAX_DEPTH: u32 = 10;
/// A configuration string that is longer than this after substitution is refused: a value that
/// doubles eleven times would fill the memory.
const MAX_LENGTH: usize = 1 << 20;

/// The string became too long during substitution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// One scope's definitions.
#[derive(Debug)]
struct Frame {
    parent: Option<usize>,
    depth: usize,
    variables: HashMap<String, String>,
}

/// All scopes of an expansion, identified by number.
#[derive(Debug)]
pub(crate) struct Environments(Vec<Frame>);

impl Environments {
    /// Only the file's own scope, number 0.
    pub(crate) fn new() -> Environments {
        Environments(vec![Frame { parent: None, depth: 0, variables: HashMap::new() }])
    }

    /// A new scope for an element class that was defined `depth` levels deep and is used in scope
    /// `user`. The parent is the scope of the definition, not that of the use.
    pub(crate) fn enter(&mut self, user: usize, depth: usize) -> usize {
        let mut parent = Some(user);
        while let Some(frame) = parent.and_then(|p| self.0.get(p)) {
            if frame.depth < depth {
                break;
            }
            parent = frame.parent;
        }
        self.0.push(Frame { parent, depth, variables: HashMap::new() });
        self.0.len() - 1
    }

    /// Defines a variable; an earlier definition in the same scope wins.
    pub(crate) fn define(&mut self, scope: usize, name: &str, value: String) {
        if let Some(frame) = self.0.get_mut(scope) {
            frame.variables.entry(name.to_owned()).or_insert(value);
        }
    }

    fn value(&self, scope: usize, name: &str) -> Option<&str> {
        let mut current = Some(scope);
        while let Some(frame) = current.and_then(|c| self.0.get(c)) {
            if let Some(value) = frame.variables.get(name) {
                return Some(value);
            }
            current = frame.parent;
        }
        None
    }

    /// Expands the variables of `scope` in a configuration string. Unknown variables remain
    /// unchanged; single quotes and comments hide variables; inside double quotes the value is
    /// quoted.
    pub(crate) fn expand(&self, scope: usize, config: &str) -> Result<String, TooLong> {
        self.expand_at(scope, config, 0)
    }

    fn expand_at(&self, scope: usize, config: &str, depth: u32) -> Result<String, TooLong> {
        if !config.contains('$') || depth > MAX_DEPTH {
            return Ok(config.to_owned());
        }
        let bytes = config.as_bytes();
        let mut out = String::new();
        let (mut done, mut i, mut quoted) = (0, 0, 0u8);
        while i < bytes.len() {
            match bytes[i] {
                b'\\' if quoted == b'"' => i += 2,
                c @ (b'\'' | b'"') => {
                    if quoted == 0 {
                        quoted = c;
                    } else if quoted == c {
                        quoted = 0;
                    }
                    i += 1;
                }
                b'/' if quoted == 0 && comment_starts(bytes, i) => i = skip_comment(bytes, i),
                b'$' if quoted != b'\'' => {
                    let Some(reference) = Reference::read(config, i) else {
                        i += 1;
                        continue;
                    };
                    let start = i;
                    i = reference.end;
                    let Some(value) = self.resolve(scope, &reference, depth)? else {
                        continue;
                    };
                    out.push_str(config.get(done..start).unwrap_or_default());
                    done = i;
                    if quoted == b'"' {
                        let value = quote(value.as_bytes());
                        out.push_str(value.get(1..value.len() - 1).unwrap_or_default());
                    } else {
                        out.push_str(&value);
                    }
                    if out.len() > MAX_LENGTH {
                        return Err(TooLong);
                    }
                }
                _ => i += 1,
            }
        }
        out.push_str(config.get(done..).unwrap_or_default());
        if out.len() > MAX_LENGTH {
            return Err(TooLong);
        }
        Ok(out)
    }

    /// The value of a reference; `None` leaves the reference unchanged.
    fn resolve(
        &self,
        scope: usize,
        reference: &Reference<'_>,
        depth: u32,
    ) -> Result<Option<String>, TooLong> {
        if !reference.braced {
            return match self.value(scope, reference.body) {
                Some(value) => Ok(Some(self.expand_at(scope, value, depth + 1)?)),
                None => Ok(None),
            };
        }
        // ${name}, ${name[index]}, ${name-default}; inner variables are expanded first.
        let body = self.expand_at(scope, reference.body, depth + 1)?;
        let body = body.trim_start();
        let length = body.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (name, rest) = body.split_at(length);
        let (index, rest) = word_index(rest.trim_start());
        if let Some(value) = self.value(scope, name) {
            let value = self.expand_at(scope, value, depth + 1)?;
            return Ok(Some(match index {
                Some(index) => split_words(&value)
                    .into_iter()
                    .nth(index)
                    .map(|word| word.text)
                    .unwrap_or_default(),
                None => value,
            }));
        }
        match rest.strip_prefix('-') {
            Some(default) => Ok(Some(self.expand_at(scope, default, depth + 1)?)),
            None => Ok(None),
        }
    }
}

/// Reads `[3]`.
fn word_index(text: &str) -> (Option<usize>, &str) {
    let read = || {
        let inner = text.strip_prefix('[')?.trim_start();
        let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = inner.split_at(digits);
        let rest = rest.strip_prefix(']')?.trim_start();
        Some((number.parse().ok()?, rest))
    };
    match read() {
        Some((index, rest)) => (Some(index), rest),
        None => (None, text),
    }
}

/// `$name` or `${...}`, found in a string.
struct Reference<'a> {
    body: &'a str,
    braced: bool,
    end: usize,
}

impl<'a> Reference<'a> {
    fn read(config: &'a str, dollar: usize) -> Option<Reference<'a>> {
        let rest = config.get(dollar + 1..)?;
        if let Some(inner) = rest.strip_prefix('{') {
            let length = inner.find('}')?;
            return Some(Reference {
                body: inner.get(..length)?,
                braced: true,
                end: dollar + 2 + length + 1,
            });
        }
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        (length > 0).then_some(Reference {
            body: rest.get(..length)?,
            braced: false,
            end: dollar + 1 + length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitution() {
        let mut all = Environments::new();
        for (name, value) in [("a", "1"), ("b", "x y z"), ("n", "2"), ("q", "a\"b"), ("r", "<$a>")]
        {
            all.define(0, name, value.to_owned());
        }
        let table = [
            ("plain", "plain"),
            ("$a", "1"),
            ("A($a, $b)", "A(1, x y z)"),
            ("${a}b", "1b"),
            ("$ab", "$ab"),
            ("${b[1]}", "y"),
            ("${b[$n]}", "z"),
            ("${b[9]}", ""),
            ("${zz-dflt}", "dflt"),
            ("${zz-$a}", "1"),
            ("${a-dflt}", "1"),
            ("'$a' $a", "'$a' 1"),
            ("\"$a\"", "\"1\""),
            ("\"$q\"", "\"a\\\"b\""),
            ("\"\\$a\"", "\"\\$a\""),
            ("/* $a */ $a", "/* $a */ 1"),
            ("// $a\n$a", "// $a\n1"),
            ("$r", "<1>"),
            ("$", "$"),
            ("${", "${"),
            ("$unknown ${unknown}", "$unknown ${unknown}"),
            ("ä$aä", "ä1ä"),
        ];
        for (from, to) in table {
            assert_eq!(all.expand(0, from).as_deref(), Ok(to), "{from}");
        }
    }

    #[test]
    fn recursion_is_bounded() {
        let mut all = Environments::new();
        all.define(0, "a", "$a$a$a$a".to_owned());
        assert_eq!(all.expand(0, "$a"), Err(TooLong));
    }

    #[test]
    fn scopes_are_lexical() {
        let mut all = Environments::new();
        all.define(0, "x", "file".to_owned());
        let foo = all.enter(0, 1);
        all.define(foo, "x", "foo".to_owned());
        // A class that the file defines sees the file's variables, even if it is used inside foo.
        let bar = all.enter(foo, 1);
        assert_eq!(all.expand(bar, "$x").as_deref(), Ok("file"));
        let inner = all.enter(foo, 2);
        assert_eq!(all.expand(inner, "$x").as_deref(), Ok("foo"));
    }
}
