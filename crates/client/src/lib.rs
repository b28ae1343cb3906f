//! A client of a node's REST interface, for the command line and for tests.
//!
//! Each call opens a connection and waits for its answer. It does not wait forever for a stopped
//! process: see [`Deadlines`].
//!
//! ```no_run
//! use europa_api::stats::NodeStats;
//!
//! let client = europa_client::Client::new("/run/europa/default/node.sock");
//! let stats: NodeStats = client.get("/v1/stats")?;
//! # Ok::<(), europa_client::ClientError>(())
//! ```

mod remote;

pub use remote::Remote;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use europa_api::rest::ProblemDetails;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// The reason why a request has no answer, or an unexpected one.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens at this socket.
    #[error("no node listens at {}", .0.display())]
    Absent(PathBuf),
    /// The caller may not use this socket.
    #[error("no permission to ask the node at {}: only root may", .0.display())]
    Forbidden(PathBuf),
    /// The connection failed.
    #[error("talking to the node: {0}")]
    Connection(String),
    /// The node's process does not answer at all.
    #[error(
        "the node at {} has not answered for {} s: its process seems to be stopped. `ps -C \
         europa-node -o pid,stat,args` shows it (state T is stopped, `kill -CONT PID` lets it go \
         on; D waits for a disk); for a node of systemd, `systemctl status europa@NAME` and `systemctl restart \
         europa@NAME`",
        socket.display(), waited.as_secs()
    )]
    Silent {
        /// Where the node listens.
        socket: PathBuf,
        /// Time that this client waited.
        waited: Duration,
    },
    /// The node's process runs, but did not complete the request in time.
    #[error(
        "the node at {} runs, but has not finished this request within {} s; it may still do so: \
         `europa events` and `europa logs node` say what it does",
        socket.display(), waited.as_secs()
    )]
    Busy {
        /// Where the node listens.
        socket: PathBuf,
        /// Time that this client waited.
        waited: Duration,
    },
    /// A node on another machine is unreachable, or is not the expected node.
    #[error("the node at {url} cannot be reached: {why}")]
    Unreachable {
        /// Its URL.
        url: String,
        /// The cause of the failure.
        why: String,
    },
    /// An address, a token or an authority that cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The node refused the request.
    #[error("{0}")]
    Problem(Box<ProblemDetails>),
    /// The answer has an unexpected form.
    #[error("the node's answer is not understood: {0}")]
    Answer(String),
}

impl ClientError {
    /// The HTTP status, if the node answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }
}

/// Time limits of a [`Client`].
///
/// If a request has no answer after `silence`, the client sends a probe. The node's REST thread
/// answers a probe even while the node is busy. Without an answer to the probe, the call ends with
/// [`ClientError::Silent`]. With an answer, the call continues until `reading` or `changing` is
/// over.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Time without an answer before a probe is sent.
    pub silence: Duration,
    /// Time for the answer to a probe.
    pub probe: Duration,
    /// Time for requests that read.
    pub reading: Duration,
    /// Time limit for requests that change state.
    pub changing: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(7),
            probe: Duration::from_secs(3),
            reading: Duration::from_secs(150),
            changing: Duration::from_secs(900),
        }
    }
}

/// A path that does not exist: every REST thread answers it at once.
const PROBE: &str = "/v1";

/// Talks to one node.
#[derive(Clone, Debug)]
pub struct Client {
    place: Place,
    deadlines: Deadlines,
}

/// Where a node takes requests.
#[derive(Clone, Debug)]
enum Place {
    /// At a socket of this machine.
    Socket(PathBuf),
    /// On another machine.
    Remote(Box<Remote>),
}

/// A connection to a node.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A body that is sent.
#[derive(Clone, Debug)]
enum Body {
    None,
    Json(Vec<u8>),
    Text(&'static str, String),
}

impl Client {
    /// A client of the node that listens at `socket`. Nothing is connected yet.
    pub fn new(socket: impl AsRef<Path>) -> Client {
        let place = Place::Socket(socket.as_ref().to_owned());
        Client { place, deadlines: Deadlines::default() }
    }

    /// A client of a node on another machine. Nothing is connected yet.
    pub fn remote(remote: Remote) -> Client {
        Client { place: Place::Remote(Box::new(remote)), deadlines: Deadlines::default() }
    }

    /// The socket or URL, for messages.
    fn shown(&self) -> PathBuf {
        match &self.place {
            Place::Socket(socket) => socket.clone(),
            Place::Remote(remote) => remote.url().into(),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, ClientError> {
        let socket = match &self.place {
            Place::Socket(socket) => socket,
            Place::Remote(remote) => return Ok(Box::new(remote.connect().await?)),
        };
        let stream = UnixStream::connect(socket).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::Absent(socket.clone())
            }
            io::ErrorKind::PermissionDenied => ClientError::Forbidden(socket.clone()),
            _ => ClientError::Connection(error.to_string()),
        })?;
        Ok(Box::new(stream))
    }

    /// The same client with other deadlines.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Client {
        Client { deadlines, ..self }
    }

    /// Whether a node listens, even one that does not answer.
    pub fn is_there(&self) -> bool {
        self.look().unwrap_or(true)
    }

    /// Whether a node listens. A node that was just killed may accept a connection and not answer,
    /// so the check repeats until its socket no longer exists.
    ///
    /// # Errors
    /// A node listens but does not answer.
    pub fn look(&self) -> Result<bool, ClientError> {
        for _ in 0..40 {
            match self.get::<serde_json::Value>("/v1/node") {
                Err(ClientError::Absent(_)) => return Ok(false),
                Err(ClientError::Connection(_)) => std::thread::sleep(Duration::from_millis(50)),
                Err(
                    error @ (ClientError::Silent { .. }
                    | ClientError::Unreachable { .. }
                    | ClientError::Setting(_)),
                ) => return Err(error),
                _ => break,
            }
        }
        Ok(true)
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// No node runs, it does not answer, or it refuses.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(&Method::GET, path, Body::None)
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// No node runs, it does not answer, or it refuses.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call(&Method::POST, path, json(body)?)
    }

    /// Sends a PUT request with `body`.
    ///
    /// # Errors
    /// No node runs, it does not answer, or it refuses.
    pub fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call(&Method::PUT, path, json(body)?)
    }

    /// Sends a text that is not JSON.
    ///
    /// # Errors
    /// No node runs, it does not answer, or it refuses.
    pub fn post_text<T: DeserializeOwned>(
        &self,
        path: &str,
        content_type: &'static str,
        text: &str,
    ) -> Result<T, ClientError> {
        self.call(&Method::POST, path, Body::Text(content_type, text.to_owned()))
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// No node runs, it does not answer, or it refuses.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(&Method::DELETE, path, Body::None)
    }

    /// Sends a GET request for contents of any type.
    ///
    /// # Errors
    /// No node runs, it does not answer, or it refuses.
    pub fn get_bytes(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        self.stream(path, |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(all)
    }

    /// Reads an answer piece by piece; it may be endless. Returns when the node ends the answer, or
    /// when `take` fails, for example for a closed pipe. The deadline applies to the first piece.
    /// If the node stops later, that is detected too, even if the answer has long pauses.
    ///
    /// # Errors
    /// No node runs, it does not answer, it refuses, or `take` fails.
    pub fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ClientError> {
        runtime()?.block_on(async {
            let request = self.send(&Method::GET, path, Body::None);
            let response = self.in_time(request, self.deadlines.reading).await?;
            let status = response.status();
            let mut body = response.into_body();
            if !status.is_success() {
                let bytes = body.collect().await.map_err(lost)?.to_bytes();
                return Err(problem(status, &bytes));
            }
            let mut next = async || Ok(body.frame().await);
            while let Some(frame) = self.in_time(next(), Duration::MAX).await? {
                if let Some(bytes) = frame.map_err(lost)?.data_ref() {
                    take(bytes).map_err(|error| ClientError::Connection(error.to_string()))?;
                }
            }
            Ok(())
        })
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Body,
    ) -> Result<T, ClientError> {
        let most = match *method {
            Method::GET => self.deadlines.reading,
            _ => self.deadlines.changing,
        };
        let whole = async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            let bytes = response.into_body().collect().await.map_err(lost)?.to_bytes();
            Ok((status, bytes))
        };
        runtime()?.block_on(async {
            let (status, bytes) = self.in_time(whole, most).await?;
            if !status.is_success() {
                return Err(problem(status, &bytes));
            }
            serde_json::from_slice(&bytes).map_err(|error| ClientError::Answer(error.to_string()))
        })
    }

    /// Waits for `request` until its deadline, or until the node's process does not answer.
    async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, ClientError>>,
        most: Duration,
    ) -> Result<T, ClientError> {
        let start = Instant::now();
        let mut request = std::pin::pin!(request);
        loop {
            let left = most.saturating_sub(start.elapsed()).min(self.deadlines.silence);
            if let Ok(answer) = timeout(left, &mut request).await {
                return answer;
            }
            let socket = || self.shown();
            if start.elapsed() >= most {
                return Err(ClientError::Busy { socket: socket(), waited: start.elapsed() });
            }
            let probe = self.send(&Method::GET, PROBE, Body::None);
            let silent = tokio::select! {
                answer = &mut request => return answer,
                probe = timeout(self.deadlines.probe, probe) => probe.is_err(),
            };
            if silent {
                return Err(ClientError::Silent { socket: socket(), waited: start.elapsed() });
            }
        }
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Body,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        tokio::spawn(connection);
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, "europa");
        if let Place::Remote(remote) = &self.place {
            request = request.header(header::AUTHORIZATION, remote.authorization());
        }
        let request = match body {
            Body::None => request.body(Full::new(Bytes::new())),
            Body::Json(bytes) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(bytes.into())),
            Body::Text(kind, text) => {
                request.header(header::CONTENT_TYPE, kind).body(Full::new(text.into()))
            }
        };
        let request = request.map_err(|error| ClientError::Connection(error.to_string()))?;
        sender.send_request(request).await.map_err(lost)
    }
}

fn json(body: &impl Serialize) -> Result<Body, ClientError> {
    serde_json::to_vec(body).map(Body::Json).map_err(|e| ClientError::Answer(e.to_string()))
}

fn runtime() -> Result<Runtime, ClientError> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ClientError::Connection(error.to_string()))
}

fn lost(error: hyper::Error) -> ClientError {
    ClientError::Connection(error.to_string())
}

fn problem(status: StatusCode, bytes: &[u8]) -> ClientError {
    match serde_json::from_slice::<ProblemDetails>(bytes) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) => {
            let text = String::from_utf8_lossy(bytes);
            ClientError::Answer(format!("{status} {}", text.trim()))
        }
    }
}

/// Escapes one segment or value of a URL: all characters except letters, digits and `-._~`.
pub fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// Waits until `client`'s node listens, `gone` reports its end, or `patience` is over.
pub fn await_node(client: &Client, patience: Duration, mut gone: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !client.is_there() {
        if gone() || start.elapsed() > patience {
            return client.is_there();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::{UnixListener, UnixStream as Stream};
    use std::thread;

    #[test]
    fn escapes() {
        for (text, wanted) in
            [("r1", "r1"), ("a/b", "a%2Fb"), ("route.table", "route.table"), ("é ", "%C3%A9%20")]
        {
            assert_eq!(escape(text), wanted);
        }
    }

    #[test]
    fn nobody_listens() {
        let client = Client::new("/nonexistent/node.sock");
        assert!(!client.is_there());
        let error = client.get::<serde_json::Value>("/v1/stats").unwrap_err();
        assert!(matches!(error, ClientError::Absent(_)), "{error}");
    }

    const SHORT: Deadlines = Deadlines {
        silence: Duration::from_millis(50),
        probe: Duration::from_millis(200),
        reading: Duration::from_millis(600),
        changing: Duration::from_secs(5),
    };

    /// Answers a probe at once, and other requests after `delay`.
    fn answer(stream: Stream, delay: Duration) {
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        let mut line = String::new();
        let _ = reader.read_line(&mut line);
        if !line.contains(&format!(" {PROBE} ")) {
            thread::sleep(delay);
        }
        // The client may have left.
        let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull");
    }

    fn busy_node(delay: Duration) -> (tempfile::TempDir, Client) {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("node.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer(stream, delay));
            }
        });
        (folder, Client::new(socket).with_deadlines(SHORT))
    }

    #[test]
    fn a_node_that_stops_while_it_is_followed_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("node.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let begin = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
        // The node sends a part of the first answer, and accepts no probe.
        let node = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            reader.read_line(&mut String::new()).expect("a request");
            stream.write_all(begin).expect("it is read");
            (listener, stream)
        });
        let client = Client::new(&socket).with_deadlines(SHORT);
        let mut said = Vec::new();
        let end = client.stream("/v1/events?follow=true", |bytes| {
            said.extend_from_slice(bytes);
            Ok(())
        });
        let _stopped = node.join().expect("a node");
        assert_eq!(said, b"one");
        assert!(matches!(end, Err(ClientError::Silent { .. })), "{end:?}");
    }

    #[test]
    fn a_stopped_node_is_told_from_a_busy_one() {
        // The kernel accepts connections of a stopped process.
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("node.sock");
        let _stopped = UnixListener::bind(&socket).expect("a socket");
        let client = Client::new(&socket).with_deadlines(SHORT);
        for error in [
            client.get::<serde_json::Value>("/v1/stats").unwrap_err(),
            client.post::<serde_json::Value>("/v1/apply", &()).unwrap_err(),
            client.get_bytes("/v1/events").unwrap_err(),
        ] {
            assert!(matches!(error, ClientError::Silent { .. }), "{error}");
            assert!(client.is_there() && client.look().is_err());
            assert!(error.to_string().contains("systemctl status"), "{error}");
        }

        let (_folder, client) = busy_node(Duration::from_millis(300));
        client.get::<serde_json::Value>("/v1/stats").expect("it is busy, and then answers");
        client.post::<serde_json::Value>("/v1/apply", &()).expect("it is busy, and then answers");

        let (_folder, client) = busy_node(Duration::from_secs(2));
        let error = client.get::<serde_json::Value>("/v1/stats").unwrap_err();
        assert!(matches!(error, ClientError::Busy { .. }), "{error}");
        client.post::<serde_json::Value>("/v1/apply", &()).expect("a change may take longer");
    }
}
