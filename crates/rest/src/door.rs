//! The rules of a slice from inside: an abstract Unix socket `@europa` in the network namespace of
//! each router with a slow path, at which the node answers the programs there.
//!
//! Abstract sockets belong to a network namespace: no other namespace reaches it, and a request
//! there can only concern the router's own slice. The only resource is `/v1/slices/SLICE/filters`,
//! in the same form as outside. The client may be hostile. So connections are few and end after a
//! while. Requests are short, and pauses between them leave the node time for other clients.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::middleware::{from_extractor, map_response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use europa_api::rest::{FilterChanged, FilterChanges, FilterList, ProblemDetails};
use europa_node::{Doing, NodeError, OpenedDoor};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Sleep, sleep};

use crate::filters;
use crate::problem::{self, Answer, NoOptions};
use crate::state::Api;
use crate::who::Who;

/// Connections of a router at a time. More wait.
const MOST_CONNECTIONS: usize = 4;
/// Time limit of a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest request: some hundred thousand rules as ClassBench writes them.
const MOST_BYTES: usize = 16 << 20;
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(2);

/// Serves doors in a separate thread: programs of slices with many requests delay no other request.
pub(crate) fn start(api: Api, doors: mpsc::UnboundedReceiver<OpenedDoor>) -> Result<(), NodeError> {
    let what = "starting the thread for programs of slices";
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .doing(what)?;
    thread::Builder::new()
        .name("rest-doors".into())
        .spawn(move || runtime.block_on(serve(api, doors)))
        .doing(what)?;
    Ok(())
}

/// Serves all open doors, until no node is left that could open one.
async fn serve(api: Api, mut doors: mpsc::UnboundedReceiver<OpenedDoor>) {
    while let Some(OpenedDoor { listener, slice, closed }) = doors.recv().await {
        let listener = match tokio::net::UnixListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!("slice {slice}: rules from inside: {error}");
                continue;
            }
        };
        let inside = Inside { api: api.clone(), slice: slice.into(), turn: Arc::default() };
        let listener = Few { listener, free: Arc::new(Semaphore::new(MOST_CONNECTIONS)) };
        tokio::spawn(async move {
            tokio::select! {
                _ = closed => {}
                _ = axum::serve(listener, routes(inside)).into_future() => {}
            }
        });
    }
}

/// The state of handlers here.
#[derive(Clone)]
struct Inside {
    api: Api,
    slice: Arc<str>,
    turn: Arc<Mutex<()>>,
}

fn routes(inside: Inside) -> Router {
    Router::new()
        .route("/v1/slices/{slice}/filters", get(list).post(change))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .route_layer(from_extractor::<NoOptions>())
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(map_response(problem::as_problem))
        .with_state(inside)
}

impl Inside {
    /// Waits for its turn, and delays other requests of the router a little, too.
    async fn enter(&self, slice: &str) -> Result<(), ProblemDetails> {
        let turn = self.turn.lock().await;
        sleep(PAUSE).await;
        drop(turn);
        if *slice == *self.slice {
            return Ok(());
        }
        let own = &self.slice;
        Err(ProblemDetails::not_found(format!("there is no slice {slice} here, only {own}")))
    }
}

async fn list(State(inside): State<Inside>, Path(slice): Path<String>) -> Answer<FilterList> {
    inside.enter(&slice).await?;
    filters::list(State(inside.api), Path(slice)).await
}

async fn change(
    State(inside): State<Inside>,
    Path(slice): Path<String>,
    Json(request): Json<FilterChanges>,
) -> Answer<FilterChanged> {
    inside.enter(&slice).await?;
    let who = Extension(Who::inside(&slice));
    filters::change(State(inside.api), who, Path(slice), Json(request)).await
}

/// Takes few connections at a time.
struct Few {
    listener: tokio::net::UnixListener,
    free: Arc<Semaphore>,
}

impl axum::serve::Listener for Few {
    type Io = Short;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Short, Self::Addr) {
        loop {
            let taken = Arc::clone(&self.free).acquire_owned().await;
            match (taken, self.listener.accept().await) {
                (Ok(taken), Ok((stream, from))) => {
                    let end = Box::pin(sleep(PATIENCE));
                    return (Short { stream, end, _taken: taken }, from);
                }
                // No descriptors are left, for example.
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that ends after a while.
struct Short {
    stream: UnixStream,
    end: Pin<Box<Sleep>>,
    _taken: OwnedSemaphorePermit,
}

impl Short {
    fn look(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Short {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.look(context)?;
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Short {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.look(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
