//! The lines in which two texts differ.

/// If more lines than this differ, texts are compared line by line, and moved lines are not
/// recognised. The table of the exact method has as many entries as the product of both numbers of
/// lines.
const MOST_LINES: usize = 2000;

/// The removed lines with `-` and the added lines with `+`, in order.
pub(crate) fn difference<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // The common parts at both ends are most of a file.
    let begin = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = (old.get(begin..).unwrap_or_default(), new.get(begin..).unwrap_or_default());
    let same = rest.0.iter().rev().zip(rest.1.iter().rev());
    let end = same.take_while(|(old, new)| old == new).count();
    let old = rest.0.get(..rest.0.len() - end).unwrap_or_default();
    let new = rest.1.get(..rest.1.len() - end).unwrap_or_default();
    if old.len() > MOST_LINES || new.len() > MOST_LINES {
        let gone = old.iter().filter(|line| !new.contains(line)).map(|line| ('-', *line));
        return gone
            .chain(new.iter().filter(|line| !old.contains(line)).map(|line| ('+', *line)))
            .collect();
    }
    exact(old, new)
}

/// Compares by the longest common sequence of lines.
fn exact<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = new.len() + 1;
    // The length of the longest common sequence from each pair of positions to the end.
    let mut lengths = vec![0_u16; (old.len() + 1) * width];
    let at = |lengths: &[u16], row: usize, column: usize| {
        lengths.get(row * width + column).copied().unwrap_or(0)
    };
    for (row, gone) in old.iter().enumerate().rev() {
        for (column, come) in new.iter().enumerate().rev() {
            let length = if gone == come {
                at(&lengths, row + 1, column + 1) + 1
            } else {
                at(&lengths, row + 1, column).max(at(&lengths, row, column + 1))
            };
            if let Some(place) = lengths.get_mut(row * width + column) {
                *place = length;
            }
        }
    }
    let (mut row, mut column, mut found) = (0, 0, Vec::new());
    loop {
        match (old.get(row), new.get(column)) {
            (Some(gone), Some(come)) if gone == come => (row, column) = (row + 1, column + 1),
            (Some(gone), come)
                if come.is_none()
                    || at(&lengths, row + 1, column) >= at(&lengths, row, column + 1) =>
            {
                found.push(('-', *gone));
                row += 1;
            }
            (_, Some(come)) => {
                found.push(('+', *come));
                column += 1;
            }
            (_, None) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ() {
        for (old, new, wanted) in [
            ("a\nb\nc", "a\nb\nc\n", ""),
            ("a\nb\nc", "a\nx\nc", "-b +x"),
            ("a\nb", "a\nb\nc", "+c"),
            ("a\nb\nc", "c", "-a -b"),
            ("", "a", "+a"),
            // A line that occurs elsewhere too.
            (
                "if a\n cost 10\nif b\n cost 20",
                "if a\n cost 20\nif b\n cost 20",
                "- cost 10 + cost 20",
            ),
            ("a\nb", "b\na", "-a +a"),
            ("a\na\na", "a", "-a -a"),
        ] {
            let found: Vec<String> = difference(old, new)
                .into_iter()
                .map(|(mark, line)| format!("{mark}{line}"))
                .collect();
            assert_eq!(found.join(" "), wanted, "{old:?} {new:?}");
        }
    }

    #[test]
    fn long_texts_are_compared_too() {
        let text = |from: usize| (from..from + 5000).map(|n| format!("{n}\n")).collect::<String>();
        let (old, new) = (text(0), text(3).replace("4000\n", "x\n"));
        let found = difference(&old, &new);
        assert_eq!(found.len(), 3 + 3 + 2, "{found:?}");
    }
}
