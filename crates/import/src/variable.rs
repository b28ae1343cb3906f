//! Variables of the environment in a topology: `${NAME}` and `${NAME:=default}`.

use crate::Notes;

/// Replaces `$NAME`, `${NAME}` and `${NAME:=DEFAULT}` as containerlab does. An unset variable
/// without a default remains unchanged, because a shell may set it; `$$` is a dollar sign.
pub(crate) fn expand(
    text: &str,
    environment: impl Fn(&str) -> Option<String>,
    notes: &mut Notes,
) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        let (before, after) = rest.split_at(start);
        expanded.push_str(before);
        let after = &after[1..];
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let (length, inside) = reference(after);
        let (name, default) = [":=", ":-", "="]
            .into_iter()
            .find_map(|mark| inside.split_once(mark))
            .map_or((inside, None), |(name, default)| (name, Some(default)));
        match environment(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None => {
                if after.starts_with('{') && length > 0 {
                    let line = expanded.matches('\n').count() as u64 + 1;
                    notes.add(
                        line,
                        format!("the variable {name} is not set: it stays as it is written"),
                    );
                }
                expanded.push('$');
                expanded.push_str(&after[..length]);
            }
        }
        rest = &after[length..];
    }
    expanded.push_str(rest);
    expanded
}

/// Length and contents of the reference after a dollar sign; 0 if there is none.
fn reference(text: &str) -> (usize, &str) {
    if let Some(inside) = text.strip_prefix('{') {
        return inside.find('}').map_or((0, ""), |end| (end + 2, &inside[..end]));
    }
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let length = text.find(|c| !letter(c)).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) { (0, "") } else { (length, &text[..length]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let environment = |name: &str| (name == "TAG").then(|| "v2".to_owned());
        for (text, wanted, notes) in [
            ("image: a:${TAG}", "image: a:v2", 0),
            ("image: a:${OTHER:=latest}!", "image: a:latest!", 0),
            ("image: a:${TAG:=latest}", "image: a:v2", 0),
            ("a: ${NONE}b", "a: ${NONE}b", 1),
            ("a: ${open", "a: ${open", 0),
            ("$TAG, $TAGS and $TAG-1", "v2, $TAGS and v2-1", 0),
            (
                "for i in 1 2; do echo $i $1 $? $(id) $$TAG; done",
                "for i in 1 2; do echo $i $1 $? $(id) $TAG; done",
                0,
            ),
            ("costs 5$", "costs 5$", 0),
        ] {
            let mut found = Notes::default();
            assert_eq!(expand(text, environment, &mut found), wanted, "{text}");
            assert_eq!(found.0.len(), notes, "{text}");
        }
    }
}
