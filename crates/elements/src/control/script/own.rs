//! The handlers that a script has itself.

use europa_engine::{Context, Flags, Handler, HandlerError};

use super::calls::words;
use super::program::{self, Jump};
use super::{By, Call, Kind, Scripted, functions, quoted, shift_word, signal, unquoted};

const fn function(name: &'static str) -> Handler {
    Handler::read(name).with(Flags::PARAMETER)
}

pub(super) const HANDLERS: &[Handler] = &[
    Handler::write("step"),
    Handler::write("goto"),
    Handler::both("run").with(Flags::PARAMETER),
    function("add"),
    function("sub"),
    function("min"),
    function("max"),
    function("mul"),
    function("div"),
    function("idiv"),
    function("mod"),
    function("rem"),
    function("neg"),
    function("abs"),
    function("eq"),
    function("ne"),
    function("gt"),
    function("ge"),
    function("lt"),
    function("le"),
    function("not"),
    function("sprintf"),
    function("first"),
    function("random"),
    function("and"),
    function("or"),
    function("nand"),
    function("nor"),
    function("if"),
    function("in"),
    Handler::read("now"),
    function("readable"),
    function("writable"),
    function("length"),
    function("unquote"),
    function("htons"),
    function("htonl"),
    function("ntohs"),
    function("ntohl"),
    function("cat").with(Flags::PRIVATE),
    function("catq").with(Flags::PRIVATE),
    function("kill").with(Flags::PRIVATE),
    function("get"),
    Handler::write("set"),
    function("shift"),
];

impl<const DRIVER: bool> Scripted<DRIVER> {
    /// Answers one of the script's own read handlers.
    pub(super) fn answer(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let other = |message: String| HandlerError::Other(message);
        if let Some(answer) = functions::call(handler, parameter) {
            return answer.map_err(other);
        }
        let mut rest = parameter.trim();
        match handler {
            "run" => {
                let arguments = parameter.to_owned();
                self.run(Call { arguments, handler: handler.to_owned(), write: false }, context)
            }
            "now" => Ok(crate::dump::print::seconds(context.wall_ns())),
            "random" => self.random(rest).map_err(|message| other(message.to_owned())),
            "readable" | "writable" => {
                let wanted = if handler == "readable" { Flags::READ } else { Flags::WRITE };
                let all = words(rest).all(|path| self.can(path, wanted, context));
                Ok(all.to_string())
            }
            "cat" | "catq" => {
                let name = unquoted(rest);
                let bytes = std::fs::read(&name).map_err(|e| other(format!("{name}: {e}")))?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Ok(if handler == "catq" { quoted(&text) } else { text })
            }
            "kill" => kill(rest).map(|()| String::new()).map_err(other),
            "get" => {
                let name = shift_word(&mut rest);
                let found = self.variable(name);
                found.ok_or_else(|| other(format!("undefined variable '{name}'")))
            }
            "shift" => self.shift(rest).map_err(other),
            _ if self.exports.iter().any(|export| export == handler) => {
                Ok(self.variable(handler).unwrap_or_default())
            }
            _ if self.kind == Kind::Proxy => {
                let call = Call {
                    arguments: parameter.to_owned(),
                    handler: handler.to_owned(),
                    write: false,
                };
                self.run(call, context)
            }
            _ => Err(HandlerError::NotFound(format!("{}.{handler}", context.name()))),
        }
    }

    /// Takes the first word off a variable.
    fn shift(&mut self, text: &str) -> Result<String, String> {
        let name = if text.is_empty() { "args" } else { text };
        let value = match self.variables.iter_mut().find(|(own, _)| own == name) {
            Some((_, value)) => value,
            None if name == "args" => &mut self.called.arguments,
            None => return Err(format!("undefined variable '{name}'")),
        };
        let mut rest = value.as_str();
        let word = shift_word(&mut rest).to_owned();
        *value = rest.to_owned();
        Ok(word)
    }

    fn random(&mut self, text: &str) -> Result<String, &'static str> {
        // Xorshift64: scripts need something irregular, not secrets.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let value = self.random >> 33;
        let numbers: Option<Vec<u64>> = words(text).map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some([]) => Ok(value.to_string()),
            Some([0]) => Err("bad N"),
            Some([n]) => Ok((value % n).to_string()),
            Some([from, to]) if from <= to => {
                Ok((from + value % (to - from).saturating_add(1)).to_string())
            }
            _ => Err("bad N"),
        }
    }

    /// Carries out one of the script's own write handlers.
    pub(super) fn order(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let text = value.trim();
        match handler {
            "step" => {
                let (steps, by) = match text {
                    "router" => (1, By::Router),
                    "" => (1, By::Handler),
                    _ => {
                        let count = text.parse::<u64>();
                        let wanted = |_| HandlerError::value(handler, text, "number of steps");
                        (count.map_err(wanted)?, By::Handler)
                    }
                };
                self.go(steps, by, context);
            }
            "goto" => match program::find(&self.program, text) {
                Some(Jump::To(to)) => {
                    self.jump(to, self.program.len());
                    self.go(0, By::Jump, context);
                }
                _ => return Err(HandlerError::Other("jump to nonexistent label".to_owned())),
            },
            "set" => {
                let mut rest = text;
                let name = shift_word(&mut rest).to_owned();
                match name.as_str() {
                    "" => return Err(HandlerError::Other("no variable".to_owned())),
                    "args" => rest.clone_into(&mut self.called.arguments),
                    _ => self.set(&name, rest.to_owned()),
                }
            }
            _ if handler == "run" || self.kind == Kind::Proxy && !self.has(handler) => {
                let call =
                    Call { arguments: value.to_owned(), handler: handler.to_owned(), write: true };
                return self.run(call, context).map(drop);
            }
            _ => return Err(HandlerError::NotFound(format!("{}.{handler}", context.name()))),
        }
        self.complete().0.map(drop)
    }
}

fn kill(text: &str) -> Result<(), String> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let mut words = words(text);
    let number = words.next().and_then(signal).ok_or("bad SIGNO")?;
    let signal = Signal::try_from(number).ok();
    for word in words {
        let process = word.parse().map_err(|_| "bad PID")?;
        kill(Pid::from_raw(process), signal)
            .map_err(|error| format!("kill({process}, {number}): {error}"))?;
    }
    Ok(())
}
