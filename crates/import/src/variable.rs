//! Variables of the environment in a topology: `${NAME}` and `${NAME:=default}`.

use crate::Notes;

/// Puts values in place of variables. One that is not set and has no default is left
/// empty, as containerlab does, and noted.
pub(crate) fn expand(
    text: &str,
    environment: impl Fn(&str) -> Option<String>,
    notes: &mut Notes,
) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        expanded.push_str(before);
        let Some(end) = after.find('}') else {
            rest = after;
            break;
        };
        let inside = &after[2..end];
        let (name, default) = [":=", ":-", "="]
            .into_iter()
            .find_map(|mark| inside.split_once(mark))
            .map_or((inside, None), |(name, default)| (name, Some(default)));
        match environment(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None => {
                let line = expanded.matches('\n').count() as u64 + 1;
                notes.add(line, format!("the variable {name} is not set"));
            }
        }
        rest = &after[end + 1..];
    }
    expanded.push_str(rest);
    expanded
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
            ("a: ${NONE}b", "a: b", 1),
            ("a: ${open", "a: ${open", 0),
            ("$TAG stays", "$TAG stays", 0),
        ] {
            let mut found = Notes::default();
            assert_eq!(expand(text, environment, &mut found), wanted, "{text}");
            assert_eq!(found.0.len(), notes, "{text}");
        }
    }
}
