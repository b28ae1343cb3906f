//! The REST interface over the network: TLS, in a separate thread.
//!
//! Any machine that reaches the port may connect. So connections without a valid token are few and
//! short. The thread's load does not affect the Unix socket. A connection ends when its token is
//! revoked or its user's document changes.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use europa_node::{Doing, Instance, Lifetime, NodeError};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tower_service::Service;

use crate::authority;
use crate::routes::routes;
use crate::settings::Listening;
use crate::state::Api;
use crate::strangers::{self, Strangers};
use crate::who::{Peer, Proved};

/// Time for the handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time in which a connection must have shown a valid token.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that have proved nothing: of one address, and in all.
const MOST_STRANGERS: (usize, usize) = (16, 256);
/// Connections of one user, and in all.
const MOST_KNOWN: (usize, usize) = (64, 512);
/// The interval at which connections are checked for permission to continue.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Longest head of a request.
const MOST_HEAD_BYTES: usize = 64 << 10;

/// A socket that listens, with its certificate.
pub(crate) struct Secure {
    listener: TcpListener,
    config: Arc<ServerConfig>,
}

impl Secure {
    /// Listens, without serving a request yet.
    pub(crate) fn open(
        instance: &Instance,
        lifetime: Lifetime,
        listening: &Listening,
    ) -> Result<Secure, NodeError> {
        let config = authority::config(&instance.tls(lifetime), instance, listening)?;
        let at = listening.at;
        let listener = TcpListener::bind(at).doing(format!("listening at {at} for requests"))?;
        listener.set_nonblocking(true).doing(format!("listening at {at} for requests"))?;
        Ok(Secure { listener, config })
    }

    /// Serves from now on, until the process ends.
    pub(crate) fn start(self, api: Api) -> Result<(), NodeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(4)
            .build()
            .doing("starting the REST interface by TLS")?;
        let serve = async move {
            match tokio::net::TcpListener::from_std(self.listener) {
                Ok(listener) => accept(listener, TlsAcceptor::from(self.config), api).await,
                Err(error) => tracing::error!("the REST interface by TLS: {error}"),
            }
        };
        thread::Builder::new()
            .name("rest-tls".into())
            .spawn(move || runtime.block_on(serve))
            .doing("starting the REST interface by TLS")?;
        Ok(())
    }
}

async fn accept(listener: tokio::net::TcpListener, tls: TlsAcceptor, api: Api) {
    let router = routes(api.clone());
    let (of_one, most) = MOST_STRANGERS;
    let (strangers, known) = (Strangers::new(of_one, most), Places::new(MOST_KNOWN));
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // No descriptor is left, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Without a place the connection is closed at once.
        let Some(place) = strangers.enter(from.ip()) else { continue };
        let connection = Connection { api: api.clone(), from, known: known.clone() };
        tokio::spawn(connection.serve(stream, place, tls.clone(), router.clone()));
    }
}

struct Connection {
    api: Api,
    from: SocketAddr,
    known: Places<String>,
}

impl Connection {
    async fn serve(
        self,
        stream: TcpStream,
        (place, mut gone): (strangers::Place, oneshot::Receiver<()>),
        tls: TlsAcceptor,
        router: Router,
    ) {
        let since = Instant::now();
        let _ = stream.set_nodelay(true);
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE, tls.accept(stream)) => shaken,
            _ = &mut gone => return,
        };
        let Ok(Ok(stream)) = shaken else { return };
        let proved = Proved::default();
        let peer = Peer::Remote { from: self.from, proved: proved.clone() };
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer.clone()));
            router.clone().call(request)
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE)
            .max_buf_size(MOST_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut served = pin!(served);
        let mut look = interval(LOOK_EVERY);
        let (mut stranger, mut guest) = (Some(place), None);
        loop {
            tokio::select! {
                _ = &mut served => return,
                _ = &mut gone, if stranger.is_some() && proved.get().is_none() => return,
                _ = look.tick() => {}
            }
            match proved.get() {
                None if since.elapsed() > PATIENCE => return,
                None => {}
                Some((id, user, generation)) => {
                    if guest.is_none() {
                        guest = self.known.enter(user.clone());
                        drop(stranger.take());
                    }
                    if guest.is_none() || !self.still(&id, &user, generation).await {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the identity that a connection has proved still holds.
    async fn still(&self, token: &str, user: &str, generation: u64) -> bool {
        let there = self.api.requests.user(user).await;
        let same = there.is_ok_and(|user| user.is_some_and(|(_, now)| now == generation));
        same && self.api.tokens.is_valid(token)
    }
}

/// Places for connections: the most of one sort, and the most in all.
struct Places<K> {
    most: (usize, usize),
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self { most: self.most, taken: Arc::clone(&self.taken) }
    }
}

impl<K: Hash + Eq + Clone> Places<K> {
    fn new(most: (usize, usize)) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a place, if one is free.
    fn enter(&self, of: K) -> Option<Place<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (most_of_one, most) = self.most;
        let own = taken.get(&of).copied().unwrap_or(0);
        if own >= most_of_one || taken.values().sum::<usize>() >= most {
            return None;
        }
        taken.insert(of.clone(), own + 1);
        Some(Place { of, taken: Arc::clone(&self.taken) })
    }
}

/// A place that is free again when this is dropped.
struct Place<K: Hash + Eq> {
    of: K,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_back() {
        let places = Places::new((2, 3));
        let first = places.enter("a");
        let _second = places.enter("a");
        assert!(first.is_some() && places.enter("a").is_none());
        let _third = places.enter("b");
        assert!(places.enter("c").is_none());
        drop(first);
        assert!(places.enter("a").is_some());
        assert_eq!(places.taken.lock().expect("a lock").get("a"), Some(&1));
    }
}
