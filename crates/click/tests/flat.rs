//! Text in, flat text out.

mod common;

use europa_click::{Options, compile, compile_with};

/// Reads declarations, an empty line, connections; blanks at line starts are ignored.
fn flat(source: &str) -> String {
    match compile(source, "config", &common::classes()) {
        Ok(graph) => graph.to_string().replace("\n    -> ", " -> "),
        Err(errors) => format!("ERRORS\n{}", errors.plain()),
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect()
}

#[test]
fn flat_text() {
    let table: &[(&str, &str, &str)] = &[
        ("nothing", "", ""),
        (
            "anonymous elements are numbered by place",
            "TimedSource -> q :: Queue(7) -> TimedSink",
            "TimedSource@1 :: TimedSource;
             q :: Queue(7);
             TimedSink@3 :: TimedSink;
             TimedSource@1 -> q -> TimedSink@3;",
        ),
        (
            "a generated name gives way to the user's",
            "Idle -> Idle@2 :: Idle; Idle -> Idle@2; Idle@2 -> Discard",
            "Idle@1 :: Idle;
             Idle@2 :: Idle;
             Idle@3 :: Idle;
             Discard@4 :: Discard;
             Idle@1 -> Idle@2 -> Discard@4;
             Idle@3 -> Idle@2;",
        ),
        (
            "declarations of several names",
            "a, b, c :: Idle(x); a -> b; b->c",
            "a :: Idle(x);
             b :: Idle(x);
             c :: Idle(x);
             a -> b -> c;",
        ),
        (
            "a declaration in a list of a chain is for one name",
            "a :: Tee; TimedSource -> a => b :: Discard, c :: Discard(1)",
            "a :: Tee;
             TimedSource@2 :: TimedSource;
             b :: Discard;
             c :: Discard(1);
             TimedSource@2 -> a -> b;
             a [1] -> c;",
        ),
        (
            "ports",
            "a, b :: Idle; a[1] -> [2]b[3]->[0x1]a; a->b; Idle => [0,1] b => [0] a; b[1,2] => [2-] a",
            "a :: Idle;
             b :: Idle;
             Idle@3 :: Idle;
             b [3] -> [1] a;
             b [1] -> [2] a;
             b [2] -> [3] a;
             Idle@3 -> b -> a -> b;
             Idle@3 [1] -> [1] b;
             a [1] -> [2] b;",
        ),
        (
            "many to many",
            "a, b, c :: Idle; a => b, c, [0,1] a;",
            "a :: Idle;
             b :: Idle;
             c :: Idle;
             a [2] -> a -> b;
             a [3] -> [1] a;
             a [1] -> c;",
        ),
        (
            "port ranges and expandable ports",
            "a, b, c :: Idle; a[1-2] => b, c; a[0,3-] => [] b; b[5] -> c",
            "ERRORS
             config:1: at most one expandable port allowed per connection",
        ),
        (
            "an expandable port takes the rest",
            "a, b :: Idle; a[0-] => [0,1,2] b",
            "a :: Idle;
             b :: Idle;
             a -> b;
             a [1] -> [1] b;
             a [2] -> [2] b;",
        ),
        (
            "commas in connections",
            "a, b, c :: Idle; p, q :: PullNull;
             a, a[1] -> b -> p, q;
             p -> [0]c, [1]c; q -> [2]c;",
            "a :: Idle;
             b :: Idle;
             c :: Idle;
             p :: PullNull;
             q :: PullNull;
             a -> b -> p -> c;
             a [1] -> b;
             p -> [1] c;
             b -> q -> [2] c;",
        ),
        (
            "a repeated connection is one",
            "a :: TimedSource; d :: Discard; a -> d; a -> d",
            "a :: TimedSource;
             d :: Discard;
             a -> d;",
        ),
        (
            "groups leave nothing behind",
            "a, b :: Idle; a -> (->) -> b; a -> ( [0]->[0]; [1]->[1] ) => ( [0]->[0]; [1]->[1] ) -> b;
             a -> ( input -> output ) -> b",
            "a :: Idle;
             b :: Idle;
             a -> b;",
        ),
        (
            "groups",
            "x, y :: Idle; c :: Classifier(00/01, -);
             x -> c => ( input [0] -> output; input [1] -> Paint(1) -> output ) -> y;",
            "x :: Idle;
             y :: Idle;
             c :: Classifier(00/01, -);
             Paint@7 :: Paint(1);
             x -> c -> y;
             c [1] -> Paint@7 -> y;",
        ),
        (
            "groups in lists",
            "a, d :: Idle; a => (-> c :: Idle), (-> b :: Idle), d;",
            "a :: Idle;
             d :: Idle;
             c :: Idle;
             b :: Idle;
             a [2] -> d;
             a -> c;
             a [1] -> b;",
        ),
        (
            "groups inside a compound",
            "analyzer, x1, x2 :: Idle;
             x1 -> analyzer -> x2;
             c :: Idle => [1] analyzer [1],
                 foo :: { -> c2 :: Idle => (->), Paint(1) -> }
             -> post :: Idle;",
            "analyzer :: Idle;
             x1 :: Idle;
             x2 :: Idle;
             c :: Idle;
             post :: Idle;
             foo/c2 :: Idle;
             foo/Paint@5 :: Paint(1);
             x1 -> analyzer -> x2;
             c -> [1] analyzer;
             analyzer [1] -> post;
             c [1] -> foo/c2 -> post;
             foo/c2 [1] -> foo/Paint@5 -> post;",
        ),
        (
            "an anonymous compound",
            "a, b :: Idle; a -> { -> } -> b; a [1] -> { [0] -> Null -> [0] } -> [1] b;",
            "a :: Idle;
             b :: Idle;
             @4/Null@1 :: Null;
             a -> b;
             a [1] -> @4/Null@1 -> [1] b;",
        ),
        (
            "a class of the user's hides Click's, but not in its own body",
            "elementclass Queue { input -> Queue(5) -> Shaper(1000) -> output }
             TimedSource -> q :: Queue -> TimedSink",
            "TimedSource@1 :: TimedSource;
             TimedSink@3 :: TimedSink;
             q/Queue@1 :: Queue(5);
             q/Shaper@2 :: Shaper(1000);
             TimedSource@1 -> q/Queue@1 -> q/Shaper@2 -> TimedSink@3;",
        ),
        (
            "a synonym",
            "elementclass Q Queue; q :: Q(3); TimedSource -> q -> TimedSink",
            "q :: Queue(3);
             TimedSource@2 :: TimedSource;
             TimedSink@3 :: TimedSink;
             TimedSource@2 -> q -> TimedSink@3;",
        ),
        (
            "parameters",
            "elementclass P { $a, COUNT $count, __REST__ $rest |
                input -> Print($a, $count, ${rest}) -> output }
             Idle -> P(1, 2, COUNT 3, FOO 4) -> Discard",
            "Idle@1 :: Idle;
             Discard@3 :: Discard;
             P@2/Print@1 :: Print(1, 3, 2, FOO 4);
             Idle@1 -> P@2/Print@1 -> Discard@3;",
        ),
        (
            "keyword parameters and the rest",
            "elementclass P { $a, COUNT $count, __REST__ $rest |
                input -> Print($a, $count, ${rest}) -> output }
             Idle -> P(1, COUNT 3, FOO 4, BAR) -> Discard",
            "Idle@1 :: Idle;
             Discard@3 :: Discard;
             P@2/Print@1 :: Print(1, 3, FOO 4, BAR);
             Idle@1 -> P@2/Print@1 -> Discard@3;",
        ),
        (
            "overloading and extension",
            "elementclass Foo {
               $a, $b | input -> Print(1) -> output
             || $a, __REST__ $b | input -> Print(2) -> output
             || $a, TWO $b, __REST__ $c | input -> Print(3) -> output
             }
             InfiniteSource(DATA \"\", LIMIT 1, STOP true)
               -> Foo(A)
               -> f::Foo(A, TWO B)
             elementclass Foo {
               $a, $b | input -> Print(4) -> output
             || ...
             }
             f -> Foo(A, B) -> Foo(A, B, C) -> Discard",
            "InfiniteSource@1 :: InfiniteSource(DATA \"\", LIMIT 1, STOP true);
             Discard@6 :: Discard;
             Foo@2/Print@1 :: Print(2);
             f/Print@1 :: Print(1);
             Foo@4/Print@1 :: Print(4);
             Foo@5/Print@1 :: Print(2);
             InfiniteSource@1 -> Foo@2/Print@1 -> f/Print@1 -> Foo@4/Print@1 -> Foo@5/Print@1 -> Discard@6;",
        ),
        (
            "overloading by ports",
            "elementclass Two { input -> output; input[1] -> [1]output || input -> Print(one) -> output }
             a, b :: Idle; a -> Two -> b; a[1,2] => t :: Two => [1,2]b",
            "a :: Idle;
             b :: Idle;
             Two@3/Print@1 :: Print(one);
             a [1] -> [1] b;
             a [2] -> [2] b;
             a -> Two@3/Print@1 -> b;",
        ),
        (
            "an extension of one of Click's own",
            "elementclass Queue { $cap, $rate | input -> Queue($cap) -> Shaper($rate) -> output || ... }
             TimedSource -> Queue(1, 2) -> TimedSink; TimedSource -> Queue(3) -> TimedSink",
            "TimedSource@1 :: TimedSource;
             TimedSink@3 :: TimedSink;
             TimedSource@4 :: TimedSource;
             Queue@5 :: Queue(3);
             TimedSink@6 :: TimedSink;
             Queue@2/Queue@1 :: Queue(1);
             Queue@2/Shaper@2 :: Shaper(2);
             TimedSource@4 -> Queue@5 -> TimedSink@6;
             TimedSource@1 -> Queue@2/Queue@1 -> Queue@2/Shaper@2 -> TimedSink@3;",
        ),
        (
            "lexical scope of parameters",
            "elementclass Foo { $a |
                elementclass Bar { $b | DriverManager($a); }
                elementclass Baz { $a | Idle; Bar($a); }
                Baz(other);
             }
             Foo(stop);",
            "Foo@1/Baz@1/Idle@1 :: Idle;
             Foo@1/Baz@1/Bar@2/DriverManager@1 :: DriverManager(stop);",
        ),
        (
            "indexed variables",
            "elementclass Bar { $a, $n | Message(\"${a[$n]}\") }
             elementclass Baz { $a | Bar(${a[1]} ${a[0]}, ${a[2]}) }
             Bar(D E F, 2); Baz(G H 1)",
            "Bar@1/Message@1 :: Message(\"F\");
             Baz@2/Bar@1/Message@1 :: Message(\"G\");",
        ),
        (
            "define counts everywhere in its scope",
            "Message($a, $zz); define($a 2 3, $b $a); Message(\"$b\", '$b')",
            "Message@1 :: Message(2 3, $zz);
             Message@2 :: Message(\"2 3\", '$b');",
        ),
        (
            "define in a compound is not seen outside",
            "elementclass X { define($v in) Message($v) } define($v out) X; Message($v)",
            "Message@2 :: Message(out);
             X@1/Message@1 :: Message(in);",
        ),
        (
            "requirements",
            "require(foo, package \"b c\", compact_config); Idle",
            "require(package \"foo\", package \"b c\", compact_config);
             Idle@1 :: Idle;",
        ),
        (
            "comments and quotes in configuration strings",
            "Message(a /* ) */ b, \")\", '(', \\<28 29>, (x) // )\n)",
            "Message@1 :: Message(a /* ) */ b, \")\", '(', \\<28 29>, (x) // )\n);",
        ),
        (
            "carriage returns, comments between tokens",
            "a// x\r::/* y */Idle\r\n;\r\na/*->*/->b :: Idle",
            "a :: Idle;
             b :: Idle;
             a -> b;",
        ),
        (
            "a comma may end a list",
            "a, b :: Idle; a => b, ;",
            "a :: Idle;
             b :: Idle;
             a -> b;",
        ),
    ];
    let mut failures = String::new();
    for (what, source, want) in table {
        let got = flat(source);
        if lines(&got) != lines(want) {
            failures += &format!("{what}:\n{got}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn flat_text_is_a_fixed_point() {
    for source in [
        include_str!("configs/iprouter.click"),
        include_str!("configs/nat.click"),
        include_str!("configs/compounds.click"),
    ] {
        let once = compile(source, "config", &common::classes());
        let once = once.unwrap_or_else(|e| panic!("{}", e.plain())).to_string();
        let twice = compile(&once, "flat", &common::classes()).unwrap().to_string();
        assert_eq!(once, twice);
    }
}

#[test]
fn command_line_and_libraries() {
    let load = |name: &str| {
        let text = "elementclass Lib { $x | Message($x) }";
        (name == "lib.click").then(|| ("conf/lib.click".to_owned(), text.to_owned()))
    };
    let options =
        Options { defines: vec![("v".to_owned(), "command".to_owned())], library: Some(&load) };
    let source = "require(library lib.click, library lib.click); define($v file); Lib($v)";
    let graph = compile_with(source, "config", &common::classes(), &options).unwrap();
    assert_eq!(graph.to_string().trim(), "Lib@1/Message@1 :: Message(command);");
    let errors = compile_with("require(library no)", "c", &common::classes(), &options);
    assert_eq!(
        errors.unwrap_err().plain().to_string(),
        "c:1: library 'no' not found in CLICKPATH/conf\n"
    );
}

#[test]
fn the_graph_tells_what_the_text_said() {
    let source = "TimedSource -> c :: Counter -> q :: Queue(10) -> n :: Null -> TimedSink(\n1.5, X y);\nelementclass A { input -> c :: Counter -> output } ; Idle -> a :: A -> Discard";
    let graph = compile(source, "f.click", &common::classes()).unwrap();
    let element = |name: &str| graph.element(graph.find(name, "").unwrap()).unwrap();
    let ports = |name: &str| {
        let e = element(name);
        let show = |p: &europa_click::Port| {
            format!("{}{}", p.processing.name(), if p.agnostic { "~" } else { "" })
        };
        let ins: Vec<String> = e.inputs.iter().map(show).collect();
        let outs: Vec<String> = e.outputs.iter().map(show).collect();
        format!("{}/{}", ins.join(","), outs.join(","))
    };
    assert_eq!(ports("c"), "push~/push~");
    assert_eq!(ports("n"), "pull~/pull~");
    assert_eq!(ports("q"), "push/pull");
    assert_eq!(ports("a/c"), "push~/push~");
    let sink = element("TimedSink@5");
    assert_eq!(sink.arguments.len(), 2);
    assert_eq!((sink.at.to_string().as_str(), sink.at.column()), ("f.click:1", 63));
    // The second argument is on the second line, where it is underlined.
    let place = sink.config_span(sink.arguments[1].span);
    assert_eq!(place.to_string(), "f.click:2");
    assert_eq!(&source[place.span.start..place.span.end], "X y");
    // Inside the compound, the inner counter is found first.
    assert_eq!(graph.find("c", element("a/c").scope()), graph.find("a/c", ""));
    assert_eq!(graph.find("q", "a/"), graph.find("q", ""));
    assert_eq!(graph.find("none", "a/"), None);
}
