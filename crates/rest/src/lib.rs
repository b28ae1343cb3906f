//! The REST interface: a Unix socket, served by a thread of its own.
//!
//! Handlers have no state. They send requests to the node's loop by [`europa_node::Requests`] and
//! wait. Files are read, configurations parsed and streams fed here, so that the loop never waits
//! for a client. A new resource is a file with a `routes()` of its own, its line in `routes`, and
//! its functions in the list in `openapi`.
//!
//! | file       | resources                                     |
//! |------------|-----------------------------------------------|
//! | `apply`    | `/v1/apply`, `PUT` and `DELETE` of objects     |
//! | `elsewhere` | documents of clusters, which are refused     |
//! | `objects`  | `/v1/{ports,slices,links,routers}`, `/v1/node` |
//! | `filters`  | rules of slices                               |
//! | `door`     | the same from inside, for a slice's own       |
//! | `lsps`     | `/v1/lsps`: flows and their paths              |
//! | `handlers` | handlers of a router's elements, restart      |
//! | `streams`  | `/v1/events`, `/v1/logs`                      |
//! | `metrics`  | `/metrics`                                    |
//! | `captures` | `/v1/captures`: packets of routers            |
//! | `tokens`   | `/v1/users/USER/tokens`                       |
//! | `noted`    | changes as events                             |
//! | `who`      | callers, and the rights that requests need    |
//! | `owners`   | what users see and change                     |
//! | `secure`   | the same over the network, by TLS             |
//! | `authority`| certificates                                  |
//! | `strangers`| connections that have proved nothing yet      |
//! | `openapi`  | `/v1/openapi.json`, `/v1/schema.json`         |
//! | `routes`   | the paths of all of these                     |
//! | `openmetrics` | counters as Prometheus reads them          |
//! | `problem`  | answers to requests that fail                 |
//! | `settings`, `state` | where it listens; what handlers share |

mod apply;
mod authority;
mod captures;
mod door;
mod elsewhere;
mod filters;
mod handlers;
mod lsps;
mod metrics;
mod noted;
mod objects;
mod openapi;
mod openmetrics;
mod owners;
mod problem;
mod routes;
mod secure;
mod settings;
mod state;
mod strangers;
mod streams;
mod tokens;
mod who;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Extension;
use europa_node::{Behind, Doing, NodeError};
use tokio::sync::oneshot;

pub use self::openapi::openapi;
use self::routes::routes;
use self::secure::Secure;
pub use self::settings::{Listening, Settings};
use self::state::Api;
use self::tokens::Tokens;
use self::who::{Peer, Who};

/// Time for connections to end when the node ends.
const FAREWELL: Duration = Duration::from_millis(300);

/// The thread that serves, until [`Rest::end`].
pub struct Rest {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Rest {
    /// Starts to listen and serve.
    ///
    /// # Errors
    /// An address is not available, or a certificate is invalid.
    pub fn start(settings: Settings, behind: Behind) -> Result<Rest, NodeError> {
        let Behind { requests, events, instance, lifetime, tokens, doors } = behind;
        let scraped = settings.metrics_at.map(listen).transpose()?;
        let listening = settings.listening.as_ref();
        let secure = listening.map(|at| Secure::open(&instance, lifetime, at)).transpose()?;
        let path = instance.socket();
        let what = || format!("listening at {}", path.display());
        let listener = UnixListener::bind(&path).doing(what())?;
        // Root only, for any umask.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).doing(what())?;
        listener.set_nonblocking(true).doing(what())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(4)
            .build()
            .doing("starting the REST interface")?;
        let api = Api {
            requests,
            events,
            instance,
            settings: settings.into(),
            turn: Arc::default(),
            tokens: Tokens::new(tokens),
        };
        if let Some(secure) = secure {
            secure.start(api.clone())?;
        }
        door::start(api.clone(), doors)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = async move {
            let listener = match tokio::net::UnixListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!("the REST interface: {error}"),
            };
            if let Some(scraped) = scraped {
                let routes =
                    metrics::routes().layer(Extension(Who::root())).with_state(api.clone());
                match tokio::net::TcpListener::from_std(scraped) {
                    // It ends with the runtime.
                    Ok(listener) => drop(tokio::spawn(axum::serve(listener, routes).into_future())),
                    Err(error) => tracing::error!("metrics: {error}"),
                }
            }
            let (end, ended) = oneshot::channel::<()>();
            let routes = routes(api).into_make_service_with_connect_info::<Peer>();
            let served = axum::serve(listener, routes).with_graceful_shutdown(async {
                let _ = ended.await;
            });
            let mut served = tokio::spawn(served.into_future());
            tokio::select! {
                _ = stopped => {}
                result = &mut served => {
                    return tracing::error!("the REST interface ended: {result:?}");
                }
            }
            let _ = end.send(());
            // Clients that follow events would stay forever.
            let _ = tokio::time::timeout(FAREWELL, served).await;
        };
        let thread = thread::Builder::new()
            .name("rest".into())
            .spawn(move || runtime.block_on(serve))
            .doing("starting the REST interface")?;
        Ok(Rest { stop, thread })
    }

    /// Ends it after pending answers have been sent.
    pub fn end(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Listens at the address for Prometheus.
fn listen(at: SocketAddr) -> Result<TcpListener, NodeError> {
    let listener = TcpListener::bind(at).doing(format!("listening at {at} for metrics"))?;
    listener.set_nonblocking(true).doing(format!("listening at {at} for metrics"))?;
    Ok(listener)
}
