//! The instructions of a script.

use super::words::shift_word;

/// The target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jump {
    To(usize),
    Ends(End),
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Exit,
    Stop,
    Error,
}

/// The effect of an instruction. If there are two forms, `quoted` is the one with a `q`: it removes
/// a layer of quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The start of a script that does not begin by waiting.
    Begin {
        open: bool,
    },
    Pause {
        count: u64,
        seen: u64,
    },
    Wait,
    Print {
        quoted: bool,
        newline: bool,
    },
    Read {
        quoted: bool,
    },
    Write {
        quoted: bool,
    },
    Set {
        variable: String,
        quoted: bool,
    },
    Init {
        variable: String,
        quoted: bool,
        exported: bool,
    },
    Label(String),
    Goto(Jump),
    Return {
        quoted: bool,
    },
    Error {
        quoted: bool,
    },
    Ends(End),
}

/// An instruction with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) action: Action,
    pub(crate) text: String,
}

/// Reads a script's instructions.
///
/// # Errors
/// All mistakes, each with the number of its argument.
pub(crate) fn parse(
    arguments: &[(usize, &str)],
    last: End,
    empty_waits: bool,
) -> Result<Vec<Instruction>, Vec<(usize, String)>> {
    let mut program: Vec<Instruction> = Vec::new();
    let mut errors = Vec::new();
    // For each jump: its label, and the number of its argument.
    let mut jumps = Vec::new();
    for (index, argument) in arguments {
        let mut text = argument.trim();
        let word = shift_word(&mut text);
        if word.is_empty() {
            continue;
        }
        match instruction(word, text) {
            Some((action, text)) => {
                if program.is_empty() && !matches!(action, Action::Pause { .. } | Action::Wait) {
                    program.push(plain(Action::Begin { open: false }));
                }
                let mut text = text.as_str();
                if matches!(action, Action::Goto(_)) {
                    jumps.push((program.len(), *index, shift_word(&mut text).to_owned()));
                }
                program.push(Instruction { action, text: text.to_owned() });
            }
            None => errors.push((*index, format!("syntax error at '{word}'"))),
        }
    }
    if program.is_empty() {
        let pause = Action::Pause { count: 1, seen: 0 };
        program.push(plain(if empty_waits { pause } else { Action::Begin { open: false } }));
    }
    for (at, index, label) in jumps {
        match find(&program, &label) {
            Some(jump) => {
                if let Some(instruction) = program.get_mut(at) {
                    instruction.action = Action::Goto(jump);
                }
            }
            None => errors.push((index, format!("no such label '{label}'"))),
        }
    }
    program.push(plain(Action::Ends(last)));
    if errors.is_empty() { Ok(program) } else { Err(errors) }
}

fn plain(action: Action) -> Instruction {
    Instruction { action, text: String::new() }
}

/// The instruction at a label, or the label's predefined meaning.
pub(crate) fn find(program: &[Instruction], label: &str) -> Option<Jump> {
    let at = program.iter().position(|i| matches!(&i.action, Action::Label(name) if name == label));
    at.map(Jump::To).or(match label {
        "begin" | "loop" => Some(Jump::To(0)),
        "end" => Some(Jump::Ends(End::Done)),
        "exit" => Some(Jump::Ends(End::Exit)),
        "stop" => Some(Jump::Ends(End::Stop)),
        "error" => Some(Jump::Ends(End::Error)),
        _ => None,
    })
}

/// The effect of the instruction `word` with this text, and the rest of the text.
fn instruction(word: &str, text: &str) -> Option<(Action, String)> {
    let mut rest = text;
    let alone = |action| text.is_empty().then_some(action);
    let mut variable = |needs_text: bool| {
        let name = shift_word(&mut rest);
        let fits = !(name.is_empty() || needs_text && rest.is_empty());
        fits.then(|| name.to_owned())
    };
    let action = match word {
        "wait" if text.is_empty() => Action::Pause { count: 1, seen: 0 },
        "wait" | "wait_for" | "wait_time" => Action::Wait,
        "pause" | "wait_step" | "wait_stop" => {
            let count = if text.is_empty() { 1 } else { text.trim().parse().ok()? };
            return Some((Action::Pause { count, seen: 0 }, String::new()));
        }
        "print" => Action::Print { quoted: false, newline: true },
        "printq" => Action::Print { quoted: true, newline: true },
        "printn" => Action::Print { quoted: false, newline: false },
        "printnq" => Action::Print { quoted: true, newline: false },
        // An older form of printing into a file.
        "save" | "append" => {
            let handler = shift_word(&mut rest);
            let file = if rest.is_empty() { "-" } else { rest };
            let arrow = if word == "save" { ">" } else { ">>" };
            let action = Action::Print { quoted: false, newline: true };
            return Some((action, format!("{arrow}{file} {handler}")));
        }
        "read" | "readq" => Action::Read { quoted: word == "readq" },
        "write" | "writeq" => Action::Write { quoted: word == "writeq" },
        "set" | "setq" => Action::Set { variable: variable(true)?, quoted: word == "setq" },
        "init" | "initq" => {
            Action::Init { variable: variable(false)?, quoted: word == "initq", exported: false }
        }
        "export" | "exportq" => {
            Action::Init { variable: variable(false)?, quoted: word == "exportq", exported: true }
        }
        "label" => {
            let name = shift_word(&mut rest);
            let fits = !name.is_empty() && rest.is_empty();
            return fits.then(|| (Action::Label(name.to_owned()), String::new()));
        }
        "goto" => Action::Goto(Jump::To(0)),
        "loop" => return Some((alone(Action::Goto(Jump::To(0)))?, "loop".to_owned())),
        "return" | "returnq" => Action::Return { quoted: word == "returnq" },
        "error" | "errorq" => Action::Error { quoted: word == "errorq" },
        "end" => alone(Action::Ends(End::Done))?,
        "exit" => alone(Action::Ends(End::Exit))?,
        "stop" => alone(Action::Ends(End::Stop))?,
        _ => return None,
    };
    Some((action, rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[&str]) -> Result<Vec<Instruction>, Vec<(usize, String)>> {
        let arguments: Vec<(usize, &str)> = text.iter().copied().enumerate().collect();
        parse(&arguments, End::Done, false)
    }

    #[test]
    fn jumps_find_their_labels() {
        let program = read(&["label a", "goto b $(x)", "loop", "label b", "goto stop"]).unwrap();
        let jumps: Vec<_> = program
            .iter()
            .filter_map(|i| match i.action {
                Action::Goto(jump) => Some((jump, i.text.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(jumps, [(Jump::To(4), "$(x)"), (Jump::To(0), ""), (Jump::Ends(End::Stop), "")]);
    }

    #[test]
    fn mistakes_are_found() {
        for (text, error) in [
            ("fly", "syntax error at 'fly'"),
            ("goto nowhere", "no such label 'nowhere'"),
            ("set x", "syntax error at 'set'"),
            ("end now", "syntax error at 'end'"),
            ("label", "syntax error at 'label'"),
            ("pause x", "syntax error at 'pause'"),
        ] {
            assert_eq!(read(&["print 1", text]), Err(vec![(1, error.to_owned())]), "{text}");
        }
    }
}
