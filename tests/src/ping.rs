//! Results of `ping`.

use std::time::Duration;

use crate::command::Error;
use crate::namespace::Namespace;

/// The report of `ping`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ping {
    /// Requests sent.
    pub sent: u32,
    /// Answers received.
    pub received: u32,
    /// Repeated answers.
    pub duplicates: u32,
    /// Answers with other bytes than the request's.
    pub corrupted: u32,
    /// Round-trip times, in the order of arrival.
    pub times: Vec<Duration>,
    /// TTL or hop limit of the last answer.
    pub ttl: Option<u8>,
    /// Answers of other nodes, like `Time to live exceeded`, with the line.
    pub errors: Vec<String>,
}

impl Ping {
    /// Parses the output of Debian's `ping`, for the first `count` requests only.
    pub fn parse(text: &str, count: u32) -> Ping {
        let mut ping = Ping::default();
        for line in text.lines() {
            let number = |name: &str| -> Option<&str> {
                let rest = &line[line.find(name)? + name.len()..];
                Some(rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or(""))
            };
            if let (Some(time), true) = (number("time="), line.contains("bytes from")) {
                let sequence = number("icmp_seq=").and_then(|text| text.parse().ok());
                if sequence.is_none_or(|sequence: u32| sequence > count) {
                    continue;
                }
                ping.received += u32::from(!line.contains("(DUP!)"));
                let milliseconds: f64 = time.parse().unwrap_or(0.0);
                ping.times.push(Duration::from_secs_f64(milliseconds / 1000.0));
                ping.ttl = number("ttl=").and_then(|ttl| ttl.parse().ok());
                ping.duplicates += u32::from(line.contains("(DUP!)"));
            } else if line.contains("wrong data byte") {
                ping.corrupted += 1;
            } else if line.starts_with("From ") {
                ping.errors.push(line.to_owned());
            } else if line.contains("packets transmitted") {
                let before = |word: &str| -> Option<u32> {
                    line[..line.find(word)?].split_whitespace().next_back()?.parse().ok()
                };
                ping.sent = before(" packets transmitted").unwrap_or(0).min(count);
            }
        }
        ping
    }

    /// Adds the counts and times of later requests.
    fn add(&mut self, later: Ping) {
        self.sent += later.sent;
        self.received += later.received;
        self.duplicates += later.duplicates;
        self.corrupted += later.corrupted;
        self.times.extend(later.times);
        self.ttl = later.ttl.or(self.ttl);
        self.errors.extend(later.errors);
    }

    /// The median round-trip time; `None` without an answer.
    pub fn median(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied()
    }

    /// Whether every request was answered once and unchanged.
    pub fn is_perfect(&self) -> bool {
        self.sent > 0 && self.received == self.sent && self.duplicates + self.corrupted == 0
    }
}

impl Namespace {
    /// Pings `to` `count` times, every 10 ms, with `options` for `ping`. A missing answer is a
    /// result, not an error.
    ///
    /// # Errors
    /// `ping` cannot run.
    pub fn ping(&self, to: &str, count: u32, options: &[&str]) -> Result<Ping, Error> {
        let number = count.to_string();
        // Without a limit for the whole run, `ping` waits for the last answers no longer than twice
        // the time of the slowest answer. Then it sends more requests until `count` are answered.
        // This report leaves those requests out.
        let every: f64 = options
            .iter()
            .skip_while(|option| **option != "-i")
            .nth(1)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0.01);
        let limit = (f64::from(count) * every + 2.0).ceil().to_string();
        let limit: &[&str] = if count > 1 { &["-w", &limit] } else { &[] };
        let argv = [&["ping", "-n", "-c", &number, "-i", "0.01", "-W", "1"], limit, options, &[to]]
            .concat();
        let output = self.attempt(Duration::from_secs(120), &argv)?;
        let ping = Ping::parse(&output.stdout, count);
        // 0: answered, 1: not answered, 2: wrong usage or no route.
        if output.status.code() == Some(2) {
            let output = output.stdout + &output.stderr;
            return Err(Error::Unreadable {
                command: argv.join(" "),
                what: "refused".to_owned(),
                output,
            });
        }
        Ok(ping)
    }

    /// Like [`Namespace::ping`], but sends exactly `count` requests, each after the answer to the
    /// one before. It is for tests that count frames: `ping` sends more than `count` while answers
    /// are late.
    ///
    /// # Errors
    /// `ping` cannot run.
    pub fn ping_exactly(&self, to: &str, count: u32, options: &[&str]) -> Result<Ping, Error> {
        let mut all = self.ping(to, 1, options)?;
        for _ in 1..count {
            all.add(self.ping(to, 1, options)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let ping = Ping::parse(
            "PING 10.0.2.2 (10.0.2.2) 56(84) bytes of data.\n\
             64 bytes from 10.0.2.2: icmp_seq=1 ttl=63 time=0.090 ms\n\
             64 bytes from 10.0.2.2: icmp_seq=2 ttl=63 time=1.50 ms\n\
             64 bytes from 10.0.2.2: icmp_seq=2 ttl=63 time=2.50 ms (DUP!)\n\
             \n--- 10.0.2.2 ping statistics ---\n\
             3 packets transmitted, 2 received, +1 duplicates, 33.3333% packet loss, time 20ms\n\
             rtt min/avg/max/mdev = 0.090/1.363/2.500/0.989 ms\n",
            3,
        );
        assert_eq!((ping.sent, ping.received, ping.duplicates, ping.ttl), (3, 2, 1, Some(63)));
        assert_eq!(ping.median(), Some(Duration::from_micros(1500)));
        assert!(!ping.is_perfect());
    }

    #[test]
    fn errors() {
        let ping = Ping::parse(
            "PING 10.0.2.2 (10.0.2.2) 56(84) bytes of data.\n\
             From 10.0.1.1 icmp_seq=1 Time to live exceeded\n\
             \n--- 10.0.2.2 ping statistics ---\n\
             1 packets transmitted, 0 received, +1 errors, 100% packet loss, time 0ms\n",
            1,
        );
        assert_eq!(ping.errors, ["From 10.0.1.1 icmp_seq=1 Time to live exceeded"]);
        assert_eq!((ping.sent, ping.received, ping.median()), (1, 0, None));
    }

    #[test]
    fn wrong_bytes() {
        let ping = Ping::parse(
            "64 bytes from 10.0.2.2: icmp_seq=1 ttl=63 time=0.090 ms\n\
             wrong data byte #16 should be 0x10 but was 0xff\n\
             1 packets transmitted, 1 received, 0% packet loss, time 0ms\n",
            1,
        );
        assert_eq!(ping.corrupted, 1);
        assert!(!ping.is_perfect());
    }
}
