//! Reads rules from documents and from lines.

use super::rule::Rule;
use crate::decode::{Context, Decode, Fields};
use crate::problem::{Problem, Problems};
use crate::source::Source;
use crate::tree::{self, Node, Value};

impl Decode for Rule {
    fn decode(node: &Node, context: &mut Context) -> Option<Rule> {
        let before = context.problems.len();
        let mut fields = Fields::open(node, "a rule", context)?;
        let rule = Rule::take(&mut fields);
        if fields.context.problems.len() == before
            && let Err(wrong) = rule.check()
        {
            let place = fields.take(wrong.field).map(|(key, _)| fields.context.place(key));
            let place = place.unwrap_or_else(|| fields.place());
            let problem = Problem::new(place, wrong.message).label(wrong.label).help(wrong.help);
            fields.context.report(problem);
        }
        fields.close();
        (context.problems.len() == before).then_some(rule)
    }
}

impl Rule {
    /// Reads rules from YAML, one a line, with or without braces; `file` is the text's name in
    /// messages.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn parse_lines(file: &str, text: &str) -> Result<Vec<Rule>, Problems> {
        let braced = |line: &str| match line.trim_start().chars().next() {
            None | Some('#' | '{') => line.to_owned(),
            Some(_) => format!("{{{line}}}"),
        };
        let text = text.lines().map(braced).collect::<Vec<_>>().join("\n");
        let mut context = Context { source: 0, problems: Vec::new() };
        let (mut rules, mut start) = (Vec::new(), 0);
        for line in text.split('\n') {
            let range = start..start + line.len();
            start = range.end + 1;
            if matches!(line.trim_start().chars().next(), None | Some('#')) {
                continue;
            }
            match tree::parse(&text, range) {
                Ok(node) => rules.extend(Rule::decode(&node, &mut context)),
                Err(error) => {
                    let node = Node::new(Value::Null, error.span);
                    let problem = Problem::new(context.place(&node), error.message);
                    context.report(problem.label("this cannot be read").help(error.help));
                }
            }
        }
        if context.problems.is_empty() {
            return Ok(rules);
        }
        let sources = [Source { path: file.into(), text: text.clone() }];
        Err(Problems::new(context.problems, &sources))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Rule, Problems> {
        Rule::parse_lines("rule", text).map(|mut rules| rules.remove(0))
    }

    #[test]
    fn lines_have_their_numbers() {
        let text = "# web\nprotocol: tcp, action: count\n\n{action: drop}\n  action: dorp\n";
        let report = Rule::parse_lines("rules.txt", text).unwrap_err().render(false);
        assert!(report.contains("rules.txt:5:"), "{report}");
        let right = text.replace("dorp", "drop");
        assert_eq!(Rule::parse_lines("rules.txt", &right).unwrap().len(), 3);
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "{\"action\":\"drop\"}",
            "{\"priority\":7,\"source\":\"10.0.0.0/8\",\"protocol\":\"tcp\",\
             \"source_port\":\"1024-65535\",\"destination_port\":\"80\",\"tcp_flags\":\"+syn-ack\",\
             \"dscp\":\"ef\",\"interface\":\"r1.out\",\"action\":\"count\"}",
            "{\"later_fragment\":true,\"action\":{\"queue\":3,\"interface\":\"r1.b\",\
             \"destination_mac\":\"02:00:00:00:00:01\",\"dscp\":\"af21\",\"ecn\":\"ce\",\
             \"mirror\":\"r1.c\"}}",
            "{\"action\":{\"slow_path\":true,\"mirror\":\"r1.c\"}}",
            "{\"priority\":2,\"key\":\"0a00??\",\"action\":{\"back\":true,\"result\":\"0102\"}}",
        ] {
            let rule = parse(text).unwrap();
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
            assert_eq!(serde_json::from_str::<Rule>(text).unwrap(), rule);
        }
        let number: Rule = serde_json::from_str(
            "{\"protocol\":6,\"destination_port\":80,\"action\":{\"dscp\":46}}",
        )
        .unwrap();
        let text = "protocol: 6, destination_port: 80, action: {dscp: 46}";
        assert_eq!(parse(text).unwrap(), number);
    }

    #[test]
    fn what_contradicts_itself_is_shown() {
        for (text, wanted) in [
            ("action: dorp", "did you mean \"drop\"?"),
            ("acton: drop", "did you mean `action`?"),
            ("protocol: tcp", "a rule needs `action`"),
            ("destination_port: 80, action: drop", "add `protocol: tcp`"),
            ("protocol: icmp, source_port: 80, action: drop", "a protocol that has ports"),
            ("protocol: udp, tcp_flags: +syn, action: drop", "needs TCP"),
            ("source: 10.0.0.0/8, destination: \"fd00::/8\", action: drop", "a rule for each"),
            ("action: {drop: true, interface: r1.b}", "goes one way"),
            ("action: {drop: true, queue: 1}", "waits in no queue"),
            ("action: {destination_mac: 02:00:00:00:00:01}", "another interface"),
            ("interface: r1.a, action: {mirror: r2.a}", "its own router"),
            (
                "later_fragment: true, protocol: udp, source_port: 1, action: drop",
                "other than the first",
            ),
            ("source: 10.0.0.0, action: drop", "the prefix length is missing"),
            ("protocol: tcp, destination_port: 1-70000, action: drop", "at most 65535"),
            ("interface: r1, action: drop", "ROUTER.INTERFACE"),
            ("action: [", "cannot be read"),
            ("key: 0800, action: drop", "in quotes"),
            ("key: \"0g\", action: drop", "no hexadecimal digit"),
            ("key: \"00\", protocol: tcp, action: drop", "looks at nothing else"),
            ("action: {back: true}", "no `key`"),
            ("key: \"00\", action: {back: true, drop: true}", "goes one way"),
            ("key: \"00\", action: {back: true, queue: 1}", "waits in no queue"),
            ("action: {}", "`action: count`"),
            ("action: {drop: false}", "`action: count`"),
            ("source: 10.0.0.1/8, action: drop", "bits after its prefix length"),
        ] {
            let problems = parse(text).unwrap_err().render(false);
            assert!(problems.contains(wanted), "{text}: {problems}");
        }
    }
}
