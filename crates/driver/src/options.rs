//! The command line of the `click` program.

/// The origin of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    #[default]
    Input,
    /// A file; `-` is standard input.
    File(String),
    /// A text.
    Expression(String),
}

/// The action.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The configuration.
    pub source: Source,
    /// Variables given as `NAME=VALUE`.
    pub defines: Vec<(String, String)>,
    /// Handlers to read at the end.
    pub handlers: Vec<String>,
    /// The handler whose value is the exit code.
    pub exit_handler: Option<String>,
    /// The destination of the flat configuration; `-` is standard output.
    pub output: Option<String>,
    /// Do not run it.
    pub quit: bool,
    /// Print how long it took.
    pub time: bool,
    /// Print warnings.
    pub warnings: bool,
    /// Arguments of control sockets.
    pub sockets: Vec<String>,
    /// Whether there is a `hotconfig` handler.
    pub reconfigure: bool,
    /// Simulated time, from this second on.
    pub simulated: Option<f64>,
    /// Search path of libraries.
    pub path: Option<String>,
    /// Whether to print each element's work and its cost at the end.
    pub profile: bool,
    /// For each port of DPDK, the interface that replaces it.
    pub ports: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            source: Source::Input,
            defines: Vec::new(),
            handlers: Vec::new(),
            exit_handler: None,
            output: None,
            quit: false,
            time: false,
            warnings: true,
            sockets: Vec::new(),
            reconfigure: false,
            simulated: None,
            path: None,
            profile: false,
            ports: Vec::new(),
        }
    }
}

/// The result of parsing a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// To run a configuration.
    Run(Box<Options>),
    /// To print this and end.
    Print(String),
    /// The command line is invalid: the text for standard error.
    Wrong(String),
}

/// Default start of simulated time, in seconds since 1970.
const SIMULATION_START: f64 = 1e9;

/// An option: its name, its letter, and whether a value follows.
struct Known {
    name: &'static str,
    letter: Option<char>,
    value: Takes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Only as `--name=value`.
    Maybe,
}

const fn known(name: &'static str, letter: Option<char>, value: Takes) -> Known {
    Known { name, letter, value }
}

const KNOWN: &[Known] = &[
    known("allow-reconfigure", Some('R'), Takes::Nothing),
    known("affinity", Some('a'), Takes::Maybe),
    known("clickpath", Some('C'), Takes::Value),
    known("cpu", None, Takes::Maybe),
    known("exit-handler", Some('x'), Takes::Value),
    known("expression", Some('e'), Takes::Value),
    known("file", Some('f'), Takes::Value),
    known("handler", Some('h'), Takes::Value),
    known("help", None, Takes::Nothing),
    known("no-allow-reconfigure", None, Takes::Nothing),
    known("no-affinity", None, Takes::Nothing),
    known("no-warnings", Some('w'), Takes::Nothing),
    known("output", Some('o'), Takes::Value),
    known("port", Some('p'), Takes::Value),
    known("port-map", None, Takes::Value),
    known("profile", None, Takes::Nothing),
    known("quit", Some('q'), Takes::Nothing),
    known("simtime", None, Takes::Maybe),
    known("simulation-time", None, Takes::Maybe),
    known("socket", None, Takes::Value),
    known("threads", Some('j'), Takes::Value),
    known("time", Some('t'), Takes::Nothing),
    known("unix-socket", Some('u'), Takes::Value),
    known("version", Some('v'), Takes::Nothing),
    known("warnings", None, Takes::Nothing),
];

/// Reads the arguments that follow `europa click`.
pub fn parse(arguments: &[String]) -> Parsed {
    let mut reader = Reader { options: Options::default(), source: false };
    let mut rest = arguments.iter();
    let mut only_files = false;
    while let Some(argument) = rest.next() {
        let mut next = || rest.next().cloned();
        let step = if only_files || argument == "-" || !argument.starts_with('-') {
            reader.positional(argument)
        } else if argument == "--" {
            only_files = true;
            Ok(None)
        } else if let Some(long) = argument.strip_prefix("--") {
            reader.long(long, &mut next)
        } else {
            reader.short(argument, &mut next)
        };
        match step {
            Ok(None) => {}
            Ok(Some(text)) => return Parsed::Print(text),
            Err(message) => {
                let usage = "Usage: europa click [OPTION]... [ROUTERFILE]\n\
                    Try 'europa click --help' for more information.\n";
                return Parsed::Wrong(format!("{message}\n{usage}"));
            }
        }
    }
    Parsed::Run(Box::new(reader.options))
}

struct Reader {
    options: Options,
    /// Whether the configuration has already been named.
    source: bool,
}

/// The result of an option: nothing, a text to print, or an error.
type Step = Result<Option<String>, String>;

impl Reader {
    fn set_source(&mut self, source: Source) -> Step {
        if std::mem::replace(&mut self.source, true) {
            return Err("router configuration specified twice".to_owned());
        }
        self.options.source = source;
        Ok(None)
    }

    /// A file, or a variable's value.
    fn positional(&mut self, argument: &str) -> Step {
        if let Some((name, value)) = argument.split_once('=')
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            let defines = &mut self.options.defines;
            if defines.iter().any(|(own, _)| own == name) {
                return Err(format!("parameter '{name}' multiply defined"));
            }
            defines.push((name.to_owned(), value.to_owned()));
            return Ok(None);
        }
        self.set_source(Source::File(argument.to_owned()))
    }

    fn long(&mut self, text: &str, next: &mut dyn FnMut() -> Option<String>) -> Step {
        let (name, given) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let exact = KNOWN.iter().find(|known| known.name == name);
        let mut like = KNOWN.iter().filter(|known| known.name.starts_with(name));
        let option = match (exact, like.next(), like.next()) {
            (Some(option), ..) | (None, Some(option), None) => option,
            (None, Some(_), Some(_)) => return Err(format!("option '--{name}' is ambiguous")),
            (None, None, _) => return Err(format!("unrecognized option '--{name}'")),
        };
        let value = match (option.value, given) {
            (Takes::Nothing, Some(_)) => {
                return Err(format!("option '--{}' takes no value", option.name));
            }
            (Takes::Value, None) => {
                let missing = || format!("option '--{}' needs a value", option.name);
                Some(next().ok_or_else(missing)?)
            }
            (_, given) => given,
        };
        self.apply(option, value)
    }

    /// `-qh handler`, `-hhandler`.
    fn short(&mut self, argument: &str, next: &mut dyn FnMut() -> Option<String>) -> Step {
        for (at, letter) in argument.char_indices().skip(1) {
            let option = KNOWN.iter().find(|known| known.letter == Some(letter));
            let option = option.ok_or_else(|| format!("unrecognized option '-{letter}'"))?;
            let after = argument.get(at + letter.len_utf8()..).unwrap_or_default();
            if option.value == Takes::Value {
                let given = if after.is_empty() { next() } else { Some(after.to_owned()) };
                let given = given.ok_or_else(|| format!("option '-{letter}' needs a value"))?;
                return self.apply(option, Some(given));
            }
            if let Some(text) = self.apply(option, None)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    fn apply(&mut self, option: &Known, value: Option<String>) -> Step {
        let options = &mut self.options;
        let value = value.unwrap_or_default();
        match option.name {
            "expression" => return self.set_source(Source::Expression(value)),
            "file" => return self.set_source(Source::File(value)),
            "help" => return Ok(Some(HELP.to_owned())),
            "version" => {
                let version = env!("CARGO_PKG_VERSION");
                return Ok(Some(format!("click (Europa) {version}\n")));
            }
            "allow-reconfigure" => options.reconfigure = true,
            "no-allow-reconfigure" => options.reconfigure = false,
            "clickpath" => options.path = Some(value),
            "handler" => options.handlers.push(value),
            "exit-handler" if options.exit_handler.is_some() => {
                return Err("--exit-handler specified twice".to_owned());
            }
            "exit-handler" => options.exit_handler = Some(value),
            "output" if options.output.is_some() => {
                return Err("output file specified twice".to_owned());
            }
            "output" => options.output = Some(value),
            "profile" => options.profile = true,
            "quit" => options.quit = true,
            "time" => options.time = true,
            "warnings" => options.warnings = true,
            "no-warnings" => options.warnings = false,
            "port" => {
                let number = value.strip_suffix('+').unwrap_or(&value);
                if !number.parse::<u16>().is_ok_and(|port| port > 0) {
                    return Err(format!("'--port' expects a TCP port number, not '{value}'"));
                }
                options.sockets.push(format!("TCP, {value}"));
            }
            "port-map" => {
                for pair in value.split(',') {
                    let pair = pair.split_once('=').filter(|(a, b)| !a.is_empty() && !b.is_empty());
                    let wrong = || format!("'--port-map' expects PORT=INTERFACE, not '{value}'");
                    let (port, interface) = pair.ok_or_else(wrong)?;
                    options.ports.push((port.trim().to_owned(), interface.trim().to_owned()));
                }
            }
            "unix-socket" => options.sockets.push(format!("UNIX, {value}")),
            "socket" => {
                value.parse::<i32>().map_err(|_| "'--socket' expects a descriptor's number")?;
                options.sockets.push(format!("SOCKET, {value}"));
            }
            "simtime" | "simulation-time" => {
                let start = if value.is_empty() { Ok(SIMULATION_START) } else { value.parse() };
                let start = start.ok().filter(|start: &f64| (0.0..1e10).contains(start));
                let wrong = || format!("'--simtime' expects seconds, not '{value}'");
                options.simulated = Some(start.ok_or_else(wrong)?);
            }
            "threads" => {
                value.parse::<i32>().map_err(|_| "'--threads' expects a number")?;
            }
            // One thread runs where it may.
            _ => {}
        }
        Ok(None)
    }
}

const HELP: &str = "\
Runs a Click configuration in this process, without isolation, as the program 'click' does.

Usage: europa click [OPTION]... [ROUTERFILE] [NAME=VALUE]...
       europa click check|graph|flatten [OPTION]... [ROUTERFILE]
       europa click --list

  -f, --file FILE               Read the configuration from FILE.
  -e, --expression TEXT         The configuration is TEXT.
  -h, --handler ELEMENT.HANDLER Print what the handler answers at the end.
  -x, --exit-handler ELEMENT.HANDLER
                                The handler's value is the exit code.
  -o, --output FILE             Write the flat configuration to FILE.
  -q, --quit                    Check everything, but do not run it.
  -R, --allow-reconfigure       Let the handler 'hotconfig' replace the configuration.
  -p, --port PORT               Answer control connections on a TCP port; 'PORT+' takes the next
                                that is free.
      --port-map PORT=INTERFACE Take INTERFACE for PORT of DPDK; several with commas.
  -u, --unix-socket FILE        Answer control connections on a Unix socket.
      --socket FD               Answer the control connection that is open as descriptor FD.
  -t, --time                    Print how long it took.
  -w, --no-warnings             Print no warnings.
  -C, --clickpath PATH          Look for libraries in PATH.
      --simtime[=SECONDS]       Time is simulated: nothing waits.
      --profile                 Print at the end what each element did and what it cost.
  -j, --threads N               Accepted; one thread does the work.
  -a, --affinity[=N]            Accepted.
      --help                    Print this.
  -v, --version                 Print the version.
";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Parsed {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_as_click_reads_them() {
        let options = |text| match read(text) {
            Parsed::Run(options) => *options,
            other => panic!("{text}: {other:?}"),
        };
        let short = options("-qhc.program -e Idle A=1 --simtime -p 99+");
        assert!(short.quit);
        assert_eq!(short.handlers, ["c.program"]);
        assert_eq!(short.source, Source::Expression("Idle".into()));
        assert_eq!(short.defines, [("A".into(), "1".into())]);
        assert_eq!((short.simulated, short.sockets), (Some(1e9), vec!["TCP, 99+".into()]));
        let long = options("--hand=a.b --simtime=5 --no-warn -R file");
        assert_eq!((long.handlers, long.simulated), (vec!["a.b".into()], Some(5.0)));
        assert!(!long.warnings && long.reconfigure);
        let mapped = options("--port-map 0=eth1,1=eth2").ports;
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(mapped, [pair("0", "eth1"), pair("1", "eth2")]);
        assert_eq!(long.source, Source::File("file".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("a b", "router configuration specified twice"),
            ("-Z", "unrecognized option '-Z'"),
            ("--so", "option '--socket' needs a value"),
            ("--s", "option '--s' is ambiguous"),
            ("--quit=1", "option '--quit' takes no value"),
            ("-p x", "'--port' expects a TCP port number, not 'x'"),
            ("--port-map 0", "'--port-map' expects PORT=INTERFACE, not '0'"),
            ("A=1 A=2", "parameter 'A' multiply defined"),
        ] {
            match read(text) {
                Parsed::Wrong(found) => assert_eq!(found.lines().next(), Some(message), "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_read(
            arguments in prop::collection::vec("(-{0,2}[a-zRC]{0,4}|--[a-z]{0,9}=?[0-9.]{0,3}|[a-z=]{0,4})", 0..5)
        ) {
            let _ = parse(&arguments);
        }
    }
}
