//! TCP rates by `iperf3`.

use std::time::Duration;

use serde_json::Value;

use crate::command::{Error, Process, checked};
use crate::namespace::Namespace;

/// The report of a finished `iperf3` client.
#[derive(Clone, Debug)]
pub struct Iperf {
    /// Rate at the receiver.
    pub bits_per_second: f64,
    /// Bytes that the receiver got.
    pub bytes: u64,
    /// TCP segments sent again.
    pub retransmits: u64,
}

impl Iperf {
    /// Parses the output of `iperf3 -J`; `Err` is the error message of iperf3.
    ///
    /// # Errors
    /// The text is no JSON, or the run failed.
    pub fn parse(text: &str) -> Result<Iperf, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if let Some(error) = json["error"].as_str() {
            return Err(error.to_owned());
        }
        let end = &json["end"];
        let received = &end["sum_received"];
        let rate = received["bits_per_second"].as_f64().ok_or("no rate in the result")?;
        Ok(Iperf {
            bits_per_second: rate,
            bytes: received["bytes"].as_u64().unwrap_or(0),
            retransmits: end["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
        })
    }
}

/// A running `iperf3` server.
#[derive(Debug)]
pub struct IperfServer {
    _process: Process,
}

impl Namespace {
    /// Starts an `iperf3` server and waits until it listens.
    ///
    /// # Errors
    /// `iperf3` is missing, or its port is in use.
    pub fn iperf_server(&self) -> Result<IperfServer, Error> {
        let mut process = self.start(&["iperf3", "-s", "--forceflush"])?;
        process.wait_for("Server listening", Duration::from_secs(5))?;
        Ok(IperfServer { _process: process })
    }

    /// Runs an `iperf3` client for this many seconds with further options (`-R`, `-P 4`).
    ///
    /// # Errors
    /// The client gets no connection, or the run fails.
    pub fn iperf(&self, to: &str, seconds: u32, options: &[&str]) -> Result<Iperf, Error> {
        let duration = seconds.to_string();
        let argv =
            [&["iperf3", "-J", "--connect-timeout", "3000", "-c", to, "-t", &duration], options]
                .concat();
        let limit = Duration::from_secs(u64::from(seconds) + 20);
        let mut left = 3;
        loop {
            let output = checked(self.start(&argv)?, limit)?;
            let what = match Iperf::parse(&output.stdout) {
                Ok(result) => return Ok(result),
                Err(what) => what,
            };
            // After each test the server needs time to listen again, and refuses clients meanwhile.
            let early = ["Connection reset", "server is busy"].iter().any(|why| what.contains(why));
            if !early || left == 0 {
                let command = argv.join(" ");
                return Err(Error::Unreadable { command, what, output: output.stdout });
            }
            left -= 1;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        let tcp = r#"{"end": {"sum_sent": {"retransmits": 3}, "sum_received": {"bytes": 10, "bits_per_second": 80.5}}}"#;
        let tcp = Iperf::parse(tcp).expect("a result");
        assert_eq!((tcp.bits_per_second, tcp.bytes, tcp.retransmits), (80.5, 10, 3));
        assert_eq!(
            Iperf::parse(r#"{"error": "unable to connect"}"#).err().as_deref(),
            Some("unable to connect")
        );
        assert!(Iperf::parse("{}").is_err());
        assert!(Iperf::parse("nonsense").is_err());
    }
}
