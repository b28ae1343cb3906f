//! A client of a node's REST interface, for the command line and for tests.
//!
//! A call waits for its answer. Each has a connection of its own: they are local, and an
//! answer that takes long holds up nobody else.
//!
//! ```no_run
//! use europa_api::stats::NodeStats;
//!
//! let client = europa_client::Client::new("/run/europa/default/node.sock");
//! let stats: NodeStats = client.get("/v1/stats")?;
//! # Ok::<(), europa_client::ClientError>(())
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use europa_api::rest::ProblemDetails;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// Why there is no answer, or not the wanted one.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("nobody listens at {}", .0.display())]
    Absent(PathBuf),
    /// We may not ask.
    #[error("no permission to ask the node at {}: are you root?", .0.display())]
    Forbidden(PathBuf),
    /// The connection.
    #[error("talking to the node: {0}")]
    Connection(String),
    /// The node says no.
    #[error("{0}")]
    Problem(Box<ProblemDetails>),
    /// An answer that is none of ours.
    #[error("the node answered something else: {0}")]
    Answer(String),
}

impl ClientError {
    /// HTTP's status, if the node answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }
}

/// Talks to the node behind one socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

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
        Client { socket: socket.as_ref().to_owned() }
    }

    /// Whether a node listens. One that was just killed may accept and not answer: it is
    /// asked again until its socket has gone.
    pub fn is_there(&self) -> bool {
        for _ in 0..40 {
            match self.get::<serde_json::Value>("/v1/node") {
                Err(ClientError::Absent(_)) => return false,
                Err(ClientError::Connection(_)) => std::thread::sleep(Duration::from_millis(50)),
                _ => break,
            }
        }
        true
    }

    /// Asks for something.
    ///
    /// # Errors
    /// No node, or what it says.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(&Method::GET, path, Body::None)
    }

    /// Sends something to be done.
    ///
    /// # Errors
    /// No node, or what it says.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call(&Method::POST, path, json(body)?)
    }

    /// Makes something be as given.
    ///
    /// # Errors
    /// No node, or what it says.
    pub fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call(&Method::PUT, path, json(body)?)
    }

    /// Sends a text of another type.
    ///
    /// # Errors
    /// No node, or what it says.
    pub fn post_text<T: DeserializeOwned>(
        &self,
        path: &str,
        content_type: &'static str,
        text: &str,
    ) -> Result<T, ClientError> {
        self.call(&Method::POST, path, Body::Text(content_type, text.to_owned()))
    }

    /// Removes something.
    ///
    /// # Errors
    /// No node, or what it says.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(&Method::DELETE, path, Body::None)
    }

    /// Asks for something that need not be JSON.
    ///
    /// # Errors
    /// No node, or what it says.
    pub fn get_bytes(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        self.stream(path, |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(all)
    }

    /// Asks for something that comes bit by bit, perhaps for ever. Ends when the node ends
    /// it, or when `take` has an error, which a pipe that closed is.
    ///
    /// # Errors
    /// No node, what it says, or what `take` says.
    pub fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ClientError> {
        runtime()?.block_on(async {
            let response = self.send(&Method::GET, path, Body::None).await?;
            let status = response.status();
            let mut body = response.into_body();
            if !status.is_success() {
                let bytes = body.collect().await.map_err(lost)?.to_bytes();
                return Err(problem(status, &bytes));
            }
            while let Some(frame) = body.frame().await {
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
        runtime()?.block_on(async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            let bytes = response.into_body().collect().await.map_err(lost)?.to_bytes();
            if !status.is_success() {
                return Err(problem(status, &bytes));
            }
            serde_json::from_slice(&bytes).map_err(|error| ClientError::Answer(error.to_string()))
        })
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Body,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    ClientError::Absent(self.socket.clone())
                }
                io::ErrorKind::PermissionDenied => ClientError::Forbidden(self.socket.clone()),
                _ => ClientError::Connection(error.to_string()),
            })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(header::HOST, "europa");
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

/// One segment or value of a URL: everything but letters, digits and `-._~` is escaped.
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

/// Waits a little longer each time until `client`'s node listens or `patience` is over.
pub fn await_node(client: &Client, patience: Duration, mut gone: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
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
}
