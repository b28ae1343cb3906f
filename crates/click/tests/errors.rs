//! Wrong text in, error text out.

mod common;

use europa_click::compile;

fn errors(source: &str) -> String {
    match compile(source, "f", &common::classes()) {
        Ok(graph) => format!("NO ERROR\n{graph}"),
        Err(errors) => errors.plain().to_string(),
    }
}

#[test]
fn error_text() {
    let table: &[(&str, &str)] = &[
        // Names.
        ("a :: Quueue;", "f:1: unknown element class 'Quueue'"),
        ("Nonsense(1) -> Discard", "f:1: undeclared element 'Nonsense'"),
        ("Idle -> x;\nx -> Discard", "f:1: undeclared element 'x'"),
        (
            "a :: Idle;\na :: Discard;",
            "f:2: redeclaration of element 'a'\nf:1: element 'a' previously declared here",
        ),
        ("Idle :: Idle;", "f:1: class 'Idle' used as element name"),
        ("1/x :: Idle", "f:1: element name '1/x' has all-digit component"),
        ("a :: Idle; a(3) -> Discard", "f:1: configuration string ignored on element reference"),
        ("elementclass A { x :: A }", "f:1: unknown element class 'A'"),
        // Syntax.
        ("->Null;", "f:1: syntax error near '->'"),
        ("a :: ;", "f:1: missing element type in declaration"),
        ("Idle(", "f:1: expected ')'"),
        // The error shows the place of the opening, not the end of the file.
        ("Idle;\nIdle(x -> Discard;\nIdle -> Discard;\n", "f:2: expected ')'"),
        ("x :: { Idle", "f:1: expected '}'"),
        ("Idle -> ( -> Idle", "f:1: expected ')'"),
        ("Idle [x] -> Discard", "f:1: syntax error: port number should be integer"),
        ("Idle [-1] -> Discard", "f:1: syntax error: expected port number"),
        ("Idle [99999] -> Discard", "f:1: port number out of range, bound 65535"),
        ("Idle }", "f:1: syntax error near '}'"),
        ("Idle; $x", "f:1: syntax error near 'x'"),
        ("elementclass { }", "f:1: expected element type name"),
        ("elementclass X;", "f:1: syntax error near ';'"),
        ("define x", "f:1: expected '('\nf:1: undeclared element 'x'"),
        ("define(x 1)", "f:1: bad 'define' declaration: not a variable"),
        ("define($x 1, $x 2)", "f:1: parameter '$x' multiply defined"),
        ("require(package)", "f:1: syntax error at requirement"),
        ("#include <x>\nIdle", "f:1: unknown preprocessor directive"),
        ("Idle -> ;", "f:1: syntax error near ';'"),
        ("[0] Idle", "f:1: input ports ignored at start of chain"),
        ("Idle [0]", "f:1: output ports ignored at end of chain"),
        // All errors, in order, with line numbers from the file's directives.
        (
            "a :: X;\n# 10 \"other\"\nb :: Y;\nIdle -> ->;\n#line 5\n// z\nc :: Z",
            "f:1: unknown element class 'X'\nother:10: unknown element class 'Y'\n\
             other:11: syntax error near '->'\nother:6: unknown element class 'Z'",
        ),
        // Connections.
        (
            "a, b :: Idle;\na [0,1] => [0,1,2] b;",
            "f:2: connection mismatch: 2 outputs connected to 3 inputs",
        ),
        (
            "a, b :: Idle;\na [0,1] -> [0,1,2] b;",
            "f:2: syntax error: many-to-many connections require '=>'\n\
             f:2: connection mismatch: 2 outputs connected to 3 inputs",
        ),
        ("a, b :: Idle;\na [] => [] b;", "f:2: at most one expandable port allowed per connection"),
        // Ports.
        (
            "i::InfiniteSource -> Print -> d::Discard;\ni -> Print -> d;",
            "f:1: illegal reuse of 'i :: InfiniteSource' push output 0",
        ),
        (
            "i::InfiniteSource -> Print -> d::Discard;\nInfiniteSource -> p::Print;",
            "f:2: 'p :: Print' output 0 unused",
        ),
        (
            "TimedSource -> q :: Queue -> s :: TimedSink; TimedSource -> r :: Queue; r -> s",
            "f:1: illegal reuse of 's :: TimedSink' pull input 0",
        ),
        ("Idle -> [1] d :: Discard", "f:1: 'd :: Discard' has no input 1"),
        (
            "Counter",
            "f:1: 'Counter@1 :: Counter' input 0 unused\nf:1: 'Counter@1 :: Counter' output 0 unused",
        ),
        // Push and pull.
        (
            "t :: TimedSource -> s :: TimedSink",
            "f:1: 't :: TimedSource' push output 0 connected to 's :: TimedSink' pull input 0",
        ),
        (
            "t :: TimedSource -> c :: Counter -> s :: TimedSink",
            "f:1: agnostic 'c :: Counter' in mixed context: push input 0, pull output 0",
        ),
        (
            "q :: Queue -> Counter -> d :: Tee -> Discard; TimedSource -> q",
            "f:1: agnostic 'Counter@2 :: Counter' in mixed context: pull input 0, push output 0",
        ),
        // Compounds.
        ("x :: { input [1] -> Discard }; Idle -> [1] x", "f:1: '<anonymous>' input 0 missing"),
        (
            "elementclass X { Idle -> input; input -> Discard } Idle -> X",
            "f:1: 'X' pseudoelement 'input' may only be used as output",
        ),
        ("elementclass X { input -> output } Idle -> x :: X", "f:1: 'x' output 0 unused"),
        (
            "elementclass X { input -> Discard } Idle -> x :: X -> Discard",
            "f:1: 'x' has no output 0",
        ),
        (
            "elementclass X { $a | Message($a) || $a, $b | Message($b) }\nX(1, 2, 3)",
            "f:2: no match for 'X[3 arguments, 0 inputs, 0 outputs]'\n\
             f:1: candidate: X(<arg>)[0 inputs, 0 outputs]\n\
             f:1: candidate: X(<arg>, <arg>)[0 inputs, 0 outputs]",
        ),
        (
            "elementclass T { $a | Idle }\nt :: T(1, 2);\nelementclass T { $a, $b | Idle || ... }",
            "f:2: no match for 'T[2 arguments, 0 inputs, 0 outputs]'\n\
             f:1: candidate: T(<arg>)[0 inputs, 0 outputs]",
        ),
        ("elementclass T { Idle || ... }", "f:1: cannot extend unknown element class 'T'"),
        (
            "elementclass T { ... }",
            "f:1: '...' should occur last, after one or more compounds\n\
             f:1: cannot extend unknown element class 'T'",
        ),
        ("elementclass T { K $a, $b | Idle }", "f:1: compound element parameters out of order"),
        ("elementclass T { $a, $a | Idle }", "f:1: parameter '$a' multiply defined"),
        (
            "elementclass T { K $a, K $b | Idle }",
            "f:1: repeated keyword parameter 'K' in compound element",
        ),
        (
            "x/y :: Idle; x :: { y :: Idle }",
            "f:1: redeclaration of element 'x/y'\nf:1: element 'x/y' previously declared here",
        ),
        (
            "Idle => ( [0]->[0]; [2]->[1] ) => Idle",
            "f:1: '<anonymous group>' input 1 missing\nf:1: '@2' has no input 1",
        ),
        (
            "elementclass C { require(library x) }",
            "f:1: 'require library' must be used at file scope",
        ),
    ];
    let mut failures = String::new();
    for (source, want) in table {
        let got = errors(source);
        if got.trim_end() != *want {
            failures += &format!("{source}\nwanted:\n{want}\ngot:\n{got}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn hostile_sizes_are_refused() {
    let mut doubling = String::from("elementclass A0 { Idle }\n");
    for i in 1..64 {
        doubling += &format!("elementclass A{i} {{ A{p}; A{p} }}\n", p = i - 1);
    }
    doubling += "A63";
    let mut deep = String::from("elementclass A0 { Idle }\n");
    for i in 1..5000 {
        deep += &format!("elementclass A{i} {{ A{} }}\n", i - 1);
    }
    deep += "A4999";
    let mut variables = String::from("define($v0 xxxxxxxxxxxxxxxx");
    for i in 1..10 {
        variables += &format!(", $v{i} {}", format!("$v{}", i - 1).repeat(30));
    }
    variables += ") Message($v9)";
    let table = [
        ("{".repeat(100_000), "maximum compound element nesting depth exceeded"),
        ("Idle->(".repeat(100_000), "maximum compound element nesting depth exceeded"),
        (deep, "maximum compound element nesting depth exceeded"),
        (doubling, "too many elements"),
        (variables, "too long after variable substitution"),
        ("Idle [0-65535] => [0-65535] Idle;".repeat(20), "too many ports listed"),
    ];
    for (source, want) in table {
        let got = errors(&source);
        assert!(got.contains(want), "{want}: {}", &got[..got.len().min(500)]);
    }
}

#[test]
fn errors_are_drawn_with_the_text_underlined() {
    let source = "q :: Queue(5);\nTimedSource -> qq -> TimedSink;\n";
    let errors = compile(source, "router.click", &common::classes()).unwrap_err();
    let mut drawn = String::new();
    miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        .render_report(&mut drawn, &errors)
        .unwrap();
    for want in [
        "undeclared element 'qq'",
        "router.click:2:16",
        "TimedSource -> qq -> TimedSink;",
        "──",
        "did you mean the element 'q'?",
    ] {
        assert!(drawn.contains(want), "{want} is not in\n{drawn}");
    }
}

#[test]
fn what_was_meant_is_asked() {
    for (source, wanted) in [
        ("TimedSorce -> Discard", "did you mean 'TimedSource'?"),
        ("timedsource -> TimedSink", "did you mean 'TimedSource'?"),
        ("a :: Disscard; Idle -> a", "did you mean 'Discard'?"),
        ("Idle -> Discrad", "did you mean 'Discard'?"),
        ("Idle -> IPLookup", "did you mean 'RadixIPLookup'?"),
        ("Idle -> EtherEncapsulate -> Discard", "did you mean 'EtherEncap'?"),
        ("Nonsense -> Discard", "declare it first: `Nonsense :: CLASS`"),
        ("my_queue :: Queue; TimedSource -> myqueue -> TimedSink", "the element 'my_queue'?"),
        ("Idle(1 -> Discard;\nIdle -> Discard;", "this parenthesis is never closed"),
    ] {
        let errors = compile(source, "f", &common::classes()).unwrap_err();
        let helps: Vec<&str> = errors.iter().filter_map(|e| e.help.as_deref()).collect();
        assert!(helps.iter().any(|help| help.contains(wanted)), "{source}: {helps:?}");
    }
}

/// A quadratic algorithm would take minutes for these texts.
#[test]
fn long_texts_take_linear_time() {
    let many = |from: usize, write: fn(usize) -> String| -> String {
        (from..from + 20_000).map(write).collect()
    };
    let begin = std::time::Instant::now();
    for source in [
        many(0, |i| format!("name{i}; ")),
        many(0, |i| format!("define($v{i} {i})\n")),
        many(20_001, |i| format!("Message@{i}::Message;")) + &"Message;".repeat(20_000),
        many(0, |i| format!("elementclass C{i} {{ Message }} ")),
        format!("elementclass C {{ {} Message }}", many(0, |i| format!("K{i} $v{i}, "))),
        "(->)".repeat(20_000),
        "Idle->".repeat(20_000) + "Idle",
        format!("Message({}", "(".repeat(100_000)),
        "/*".repeat(100_000),
    ] {
        let start = std::time::Instant::now();
        let _ = errors(&source);
        let head: String = source.chars().take(20).collect();
        println!("{head} {:?}", start.elapsed());
    }
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

/// A configuration in one line, as programs write them.
#[test]
fn an_error_far_to_the_right_is_drawn() {
    let text = "Idle -> Discard;\t".repeat(6000) + "Idle -> -> Discard;";
    let errors = europa_click::parse(&text, "long.click").expect_err("two arrows");
    let mut drawn = String::new();
    miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        .render_report(&mut drawn, &errors)
        .expect("a report");
    assert!(drawn.contains("it is in a long line, long.click:1"), "{drawn}");
    assert!(drawn.len() < 5000, "{} bytes", drawn.len());
}
