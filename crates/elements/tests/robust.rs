//! No argument of any class, and no text written to its handlers, makes it panic.

use europa_elements::registry;
use europa_engine::{Arena, Flags, Graph, NoDevices, Router};
use proptest::prelude::*;

/// Classes whose arguments name files to write, or that wait for standard input.
fn writes(class: &str) -> bool {
    let files = ["AggregateCounter", "FromDump", "FromIPSummaryDump"];
    class.starts_with("To")
        || files.contains(&class)
        || class.contains("Script")
        || class.contains("DriverManager")
}

/// A text that could be an argument.
fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,12}",
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}(/[0-9]{1,3})?( -| [0-9])?",
        "[0-9a-f]{1,4}(:[0-9a-f]{0,4}){1,7}(/[0-9]{1,3})?",
        "[0-9]{1,3}/[0-9a-f?]{1,8}(%[0-9a-f]{1,8})?( !?[0-9]{1,3}/[0-9a-f]{1,6})?",
        "(allow|deny|src|dst|host|net|tcp|udp|icmp|port|ip|proto|and|or|not|\\(|\\)|[<>=!&|]{1,2}| |[0-9.]{1,6}){1,9}",
        "(true|false|src|dst|ip|-)",
        "(LIMIT|BURST|RATE|STOP|ACTIVE|OFFSET|ANNO|TIMEOUT|CAPACITY|DATA|LENGTH) [-0-9a-z.]{0,9}",
        "(pattern|keep|drop|pass|1.2.3.4|5-6|-|#|[0-9]| ){1,8}",
        "[ -~]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_arguments_are_read_or_refused(
        class in prop::sample::select(
            registry().classes().map(|c| c.name).filter(|c| !writes(c)).collect::<Vec<_>>()
        ),
        arguments in prop::collection::vec(argument(), 0..5),
        ports in (0usize..3, 0usize..3),
        value in argument(),
    ) {
        let registry = registry();
        let arena = Arena::heap(64, 512);
        let mut graph = Graph::default();
        let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let tested = graph.add("e", class, &texts);
        for port in 0..ports.0 {
            let from = graph.add(&format!("from{port}"), "Idle", &[]);
            graph.connect(from, 0, tested, port);
        }
        for port in 0..ports.1 {
            let to = graph.add(&format!("to{port}"), "Idle", &[]);
            graph.connect(tested, port, to, 0);
        }
        let graph = graph.resolved(&registry);
        if let Ok(mut router) = Router::build(&graph, &registry, &arena, &NoDevices, 0) {
            router.set_log(Box::new(|_| {}));
            for (handler, flags) in router.handlers(tested) {
                let path = format!("e.{handler}");
                if flags.has(Flags::WRITE) {
                    let _ = router.write(&path, &value);
                }
                if flags.has(Flags::READ) {
                    let _ = router.read(&path, &value);
                }
            }
            router.run_once(1, &mut NoDevices);
        }
    }
}
