//! Substitution of `$variable`, `${variable}` and `$(handler)`.

use super::words::quoted;

/// Nesting limit for handlers in arguments of handlers.
const MAX_DEPTH: u32 = 50;

/// How values are inserted into the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Unchanged; quoted only inside double quotes.
    Plain,
    /// Quoted so that removing one layer of quotes restores them.
    Quoted,
}

/// A reference to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A variable's name.
    Variable(String),
    /// A handler with its arguments, after substitution.
    Handler(String),
}

/// Replaces references in `text` by the result of `value`; unknown ones stay. Single quotes hide
/// references.
pub(crate) fn expand(
    text: &str,
    form: Form,
    value: &mut dyn FnMut(Reference) -> Option<String>,
) -> String {
    expand_at(text, form, value, 0)
}

fn expand_at(
    text: &str,
    form: Form,
    value: &mut dyn FnMut(Reference) -> Option<String>,
    depth: u32,
) -> String {
    if !text.contains('$') || depth > MAX_DEPTH {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut done, mut at, mut quote) = (0, 0, None);
    while let Some(byte) = bytes.get(at) {
        match (*byte, quote) {
            (b'\\', Some(b'"')) => at += 1,
            (b'"' | b'\'', None) => quote = Some(*byte),
            (b'"' | b'\'', Some(open)) if *byte == open => quote = None,
            (b'$', None | Some(b'"')) => {
                if let Some((body, kind, end)) = find(text, at) {
                    let reference = match kind {
                        b'(' => Reference::Handler(expand_at(body, Form::Plain, value, depth + 1)),
                        _ => Reference::Variable(body.to_owned()),
                    };
                    if let Some(found) = value(reference) {
                        out.push_str(text.get(done..at).unwrap_or_default());
                        match quote {
                            Some(_) => {
                                let inner = quoted(&found);
                                out.push_str(inner.get(1..inner.len() - 1).unwrap_or_default());
                            }
                            None if form == Form::Quoted => out.push_str(&quoted(&found)),
                            None => out.push_str(&found),
                        }
                        done = end;
                    }
                    at = end;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// The reference that starts with the dollar sign at `at`: its text, its kind, its end.
fn find(text: &str, at: usize) -> Option<(&str, u8, usize)> {
    let bytes = text.as_bytes();
    let open = *bytes.get(at + 1)?;
    match open {
        b'(' => {
            let end = closing(bytes, at + 2)?;
            Some((text.get(at + 2..end)?, b'(', end + 1))
        }
        b'{' => {
            let end = at + 2 + text.get(at + 2..)?.find('}')?;
            Some((text.get(at + 2..end)?, b'{', end + 1))
        }
        b'?' | b'#' | b'$' => Some((text.get(at + 1..at + 2)?, b' ', at + 2)),
        _ => {
            let word = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
            let length = bytes.get(at + 1..)?.iter().take_while(word).count();
            let end = at + 1 + length;
            (length > 0).then_some((text.get(at + 1..end)?, b' ', end))
        }
    }
}

/// The parenthesis that closes the one before `at`.
fn closing(bytes: &[u8], mut at: usize) -> Option<usize> {
    let (mut depth, mut quote) = (0u32, None);
    loop {
        let byte = *bytes.get(at)?;
        match (byte, quote) {
            (b'\\', Some(b'"')) => at += 1,
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'"' | b'\'', Some(open)) if byte == open => quote = None,
            (b'(', None) => depth += 1,
            (b')', None) if depth == 0 => return Some(at),
            (b')', None) => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(reference: Reference) -> Option<String> {
        match reference {
            Reference::Variable(name) if name == "x" => Some("1 \"2\"".into()),
            Reference::Variable(_) => None,
            Reference::Handler(call) => Some(format!("<{call}>")),
        }
    }

    #[test]
    fn references_are_replaced() {
        for (text, form, expected) in [
            ("a", Form::Plain, "a"),
            ("$x", Form::Plain, "1 \"2\""),
            ("$x", Form::Quoted, r#""1 \"2\"""#),
            (r#""$x""#, Form::Plain, r#""1 \"2\"""#),
            ("'$x'", Form::Plain, "'$x'"),
            ("${x}y $y $", Form::Plain, "1 \"2\"y $y $"),
            ("$(add $(f a) 1)", Form::Plain, "<add <f a> 1>"),
            ("$(f ')')", Form::Plain, "<f ')'>"),
            ("$(open", Form::Plain, "$(open"),
        ] {
            assert_eq!(expand(text, form, &mut value), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_expands(text in "[ a$x(){}'\"\\\\é]{0,40}") {
            expand(&text, Form::Plain, &mut value);
            expand(&text, Form::Quoted, &mut value);
        }
    }
}
