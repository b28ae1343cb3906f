//! A witness of effects outside this process: the contract test. It gets a record before and after
//! each effect, and the node continues when it answers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use europa_control::witness::{Record, Witness};

/// The environment variable with the path of the witness's socket.
const VARIABLE: &str = "EUROPA_WITNESS";

/// One at a socket: a line of JSON for each record, answered by a line.
struct Outside(Option<BufReader<UnixStream>>);

/// The witness of the environment, if there is one.
pub(crate) fn from_environment() -> Option<Box<dyn Witness>> {
    let path = std::env::var_os(VARIABLE)?;
    match UnixStream::connect(&path) {
        Ok(stream) => Some(Box::new(Outside(Some(BufReader::new(stream))))),
        Err(error) => {
            tracing::warn!("{VARIABLE}={}: {error}", path.display());
            None
        }
    }
}

impl Outside {
    fn tell(&mut self, record: &Record) -> std::io::Result<()> {
        let Some(stream) = &mut self.0 else { return Ok(()) };
        let line = serde_json::to_string(record)? + "\n";
        stream.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        match stream.read_line(&mut answer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl Witness for Outside {
    fn hear(&mut self, record: Record) {
        if let Err(error) = self.tell(&record) {
            tracing::warn!("the witness of effects has gone: {error}");
            self.0 = None;
        }
    }
}
