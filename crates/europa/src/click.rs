//! `click`: runs, checks and draws Click configurations without a node.

use std::io::Write as _;
use std::process::ExitCode;

use europa_click::{Graph, Processing};
use europa_draw::{dot, layout, svg};
use europa_driver::{Cost, Options, Parsed, Source, load, parse, registry, run, run_with};
use europa_engine::{ConnectionView, GraphElementView, GraphView};

use crate::graph::elements;

/// Runs `europa click` with these arguments.
pub(crate) fn click(arguments: &[String]) -> ExitCode {
    let (first, rest) = match arguments.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", &[][..]),
    };
    match first {
        "--list" => {
            let classes = registry();
            let names: String =
                classes.classes().map(|class| format!("{}\n", class.name)).collect();
            print(&names);
            ExitCode::SUCCESS
        }
        "check" => with_graph(rest, true, |graph, _| describe(graph)),
        "flatten" => {
            // `click-flatten` can also write archives; here the option has no effect.
            let rest: Vec<String> =
                rest.iter().filter(|argument| *argument != "--config").cloned().collect();
            with_graph(&rest, false, |graph, _| graph.to_string())
        }
        "graph" => {
            let (own, rest): (Vec<String>, Vec<String>) =
                rest.iter().cloned().partition(|argument| argument == "--dot");
            let as_dot = !own.is_empty();
            // Costs are available only after a run.
            match parse(&rest) {
                Parsed::Run(options) if options.profile => draw_measured(*options, as_dot),
                _ => with_graph(&rest, false, |graph, title| draw(graph, title, &[], as_dot)),
            }
        }
        _ => match parse(arguments) {
            Parsed::Run(options) => ExitCode::from(run(*options)),
            Parsed::Print(text) => {
                print(&text);
                ExitCode::SUCCESS
            }
            Parsed::Wrong(text) => {
                eprint!("{text}");
                ExitCode::FAILURE
            }
        },
    }
}

fn print(text: &str) {
    // An error is ignored: the reader of the pipe may have ended.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Checks a configuration and, with `arguments_too`, the arguments of its elements. Writes the
/// result of `answer`.
fn with_graph(
    arguments: &[String],
    arguments_too: bool,
    answer: impl FnOnce(&Graph, &str) -> String,
) -> ExitCode {
    let options = match parse(arguments) {
        Parsed::Run(options) => options,
        Parsed::Print(text) => {
            print(&text);
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(text) => {
            eprint!("{text}");
            return ExitCode::FAILURE;
        }
    };
    let Options { source, defines, path, output, warnings, .. } = *options;
    let checked = load::read(&source).map_err(|error| error + "\n").and_then(|text| {
        let graph = load::check(&text, &registry(), &defines, path.as_deref())?;
        let notes = match arguments_too {
            true => load::check_arguments(&graph, &registry(), warnings)?,
            false => String::new(),
        };
        Ok((graph, text.file, notes))
    });
    let (graph, file, notes) = match checked {
        Ok(checked) => checked,
        Err(errors) => {
            eprint!("{errors}");
            return ExitCode::FAILURE;
        }
    };
    if warnings {
        eprint!("{}", load::warnings(&graph.warnings));
    }
    eprint!("{notes}");
    let text = answer(&graph, &file);
    match output.filter(|file| file != "-") {
        None => print(&text),
        Some(file) => {
            if let Err(error) = std::fs::write(&file, text) {
                eprintln!("{file}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// One line for each element with the kinds of its ports, and one for each connection.
fn describe(graph: &Graph) -> String {
    let kind = |processing| match processing {
        Processing::Pull => "pull",
        _ => "push",
    };
    let ports = |ports: &[europa_click::Port]| -> String {
        let kinds: Vec<&str> = ports.iter().map(|port| kind(port.processing)).collect();
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(" ") }
    };
    let mut text = String::new();
    for element in &graph.elements {
        text += &format!(
            "{element}: inputs {}, outputs {}\n",
            ports(&element.inputs),
            ports(&element.outputs)
        );
        for connection in graph.connections.iter().filter(|c| c.from.index() < graph.elements.len())
        {
            let from = graph.element(connection.from).map(|from| &from.name);
            if from != Some(&element.name) {
                continue;
            }
            let to = graph.element(connection.to).map_or("", |to| to.name.as_str());
            text += &format!("  [{}] -> [{}] {to}\n", connection.from_port, connection.to_port);
        }
    }
    text + &format!(
        "{} elements, {} connections, no mistakes\n",
        graph.elements.len(),
        graph.connections.len()
    )
}

/// Runs a configuration and draws it with each element's work and cost.
fn draw_measured(mut options: Options, as_dot: bool) -> ExitCode {
    // Without this, the run itself would write text to the output.
    let output = options.output.take().filter(|file| file != "-");
    let mut text = None;
    let path = options.path.clone();
    let read = load::read(&options.source);
    let checked = read
        .as_ref()
        .map_err(|error| error.clone() + "\n")
        .and_then(|text| load::check(text, &registry(), &options.defines, path.as_deref()));
    let graph = match checked {
        Ok(graph) => graph,
        Err(errors) => {
            eprint!("{errors}");
            return ExitCode::FAILURE;
        }
    };
    // Standard input can be read only once.
    if let Ok(read) = &read {
        options.source = Source::Expression(read.text.clone());
    }
    let title = read.map_or_else(|_| String::new(), |read| read.file);
    let code = run_with(options, registry(), |costs| {
        text = Some(draw(&graph, &title, costs, as_dot));
    });
    match (text, output) {
        (None, _) => {}
        (Some(text), None) => print(&text),
        (Some(text), Some(file)) => {
            if let Err(error) = std::fs::write(&file, text) {
                eprintln!("{file}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::from(code)
}

fn draw(graph: &Graph, title: &str, costs: &[Cost], as_dot: bool) -> String {
    let cost = |name: &str| costs.iter().find(|cost| cost.name == name);
    let view = GraphView {
        elements: graph
            .elements
            .iter()
            .map(|element| GraphElementView {
                name: element.name.clone(),
                class: element.class.clone(),
                config: element.config.clone(),
                packets: cost(&element.name).map_or(0, |cost| cost.packets),
            })
            .collect(),
        connections: graph
            .connections
            .iter()
            .map(|connection| {
                let to = graph.element(connection.to);
                let port = to.and_then(|to| to.inputs.get(connection.to_port as usize));
                ConnectionView {
                    from: connection.from.index(),
                    output: connection.from_port as usize,
                    to: connection.to.index(),
                    input: connection.to_port as usize,
                    pull: port.is_some_and(|port| port.processing == Processing::Pull),
                }
            })
            .collect(),
    };
    let mut diagram = elements(title, &view);
    for (shown, element) in diagram.boxes.iter_mut().zip(&graph.elements) {
        if let Some(cost) = cost(&element.name).filter(|cost| cost.spent_ns > 0) {
            let (share, each) = (100.0 * cost.share, cost.each_ns());
            shown.text.push(match cost.packets {
                0 => format!("{share:.1} %"),
                _ => format!("{share:.1} %, {each:.1} ns a packet"),
            });
        }
    }
    if as_dot { dot(&diagram) } else { svg(&diagram, &layout(&diagram)) }
}
