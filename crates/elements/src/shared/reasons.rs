//! Reasons why packets were given to Linux: texts by number, each with a count of packets.

/// The number of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reason(usize);

/// Most reasons with separate counts; further ones share the last count.
const MOST: usize = 64;
const FURTHER: &str = "further reasons";

/// Counts by reason. A reason keeps its number even when no policy names it any more.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    all: Vec<(String, u64)>,
}

impl Reasons {
    /// The number of a reason; `None` for an empty text.
    pub(crate) fn number(&mut self, text: &str) -> Option<Reason> {
        if text.is_empty() {
            return None;
        }
        if let Some(found) = self.all.iter().position(|(known, _)| known == text) {
            return Some(Reason(found));
        }
        if self.all.len() < MOST {
            let text = if self.all.len() + 1 == MOST { FURTHER } else { text };
            self.all.push((text.to_owned(), 0));
        }
        Some(Reason(self.all.len() - 1))
    }

    /// One more packet.
    #[inline(always)]
    pub(crate) fn count(&mut self, reason: Reason) {
        if let Some((_, count)) = self.all.get_mut(reason.0) {
            *count += 1;
        }
    }

    /// A line of count and reason for each reason with packets.
    pub(crate) fn show(&self) -> String {
        let some = self.all.iter().filter(|(_, count)| *count > 0);
        some.map(|(text, count)| format!("{count} {text}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_reasons_share_a_place() {
        let mut reasons = Reasons::default();
        let first = reasons.number("first").unwrap();
        for number in 0..100 {
            let reason = reasons.number(&format!("reason {number}")).unwrap();
            reasons.count(reason);
        }
        reasons.count(first);
        assert_eq!(reasons.number("first"), Some(first));
        assert_eq!(reasons.number(""), None);
        let told = reasons.show();
        assert!(told.starts_with("1 first\n1 reason 0\n"), "{told}");
        assert!(told.ends_with("38 further reasons\n"), "{told}");
    }
}
