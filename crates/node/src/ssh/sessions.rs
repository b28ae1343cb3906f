//! Sessions: begun at requests of `europa session`, ended when their user loses the right.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use europa_api::Documents;
use europa_channel::{Channel, pair};
use europa_sandbox::{Child, SpawnSpec, spawn_within};
use nix::sys::signal::Signal;

use super::admit::admit;
use super::line::{SSHD, Target, shown, split};
use super::wire::{Begin, Order, Outcome, SessionRequest, What};
use crate::Instance;
use crate::control::Control;
use crate::events::{By, Events};
use crate::node::logins::Admitted;

/// Time limit for a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the loop may take to answer about a login, and about all sessions.
const ANSWER: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);
/// Sessions of one user, and in all.
const MOST: (usize, usize) = (64, 256);
/// Time in which a session must end before its process is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Number of characters of a command in its event.
const MOST_SHOWN: usize = 200;

/// All sessions of a node; clones share them.
#[derive(Clone)]
pub(super) struct Sessions {
    instance: Instance,
    control: Control,
    events: Events,
    all: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    all: HashMap<u64, Session>,
    /// Sessions that are being started, by user.
    coming: HashMap<String, usize>,
    /// No more sessions start.
    ended: bool,
}

/// A session that runs.
struct Session {
    user: String,
    key: String,
    by: By,
    /// SLICE/ROUTER.
    router: String,
    attendant: Channel<Order, Outcome>,
    child: Child,
    since: Instant,
    /// The time of the order to end.
    told: Option<Instant>,
    outcome: Option<Outcome>,
}

/// The place of a session that is being started.
struct Place<'a> {
    sessions: &'a Sessions,
    user: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = self.sessions.lock();
        if let Some(count) = inside.coming.get_mut(self.user) {
            *count -= 1;
            if *count == 0 {
                inside.coming.remove(self.user);
            }
        }
    }
}

/// The user and its address, as events have them.
fn by(request: &SessionRequest) -> By {
    let mut words = request.from.split(' ');
    let ip = words.next().and_then(|word| word.parse().ok());
    let port = words.next().and_then(|word| word.parse().ok());
    let from = ip.zip(port).map(|(ip, port)| std::net::SocketAddr::new(ip, port).to_string());
    By { who: request.user.clone(), from: from.unwrap_or_else(|| "ssh".to_owned()) }
}

impl Sessions {
    pub(super) fn new(instance: &Instance, control: Control, events: Events) -> Sessions {
        Sessions { instance: instance.clone(), control, events, all: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request.
    pub(super) fn serve(&self, socket: OwnedFd) {
        let mut peer: Channel<Outcome, SessionRequest> = Channel::new(socket);
        let Ok(Some((request, descriptors))) = peer.receive_within(PATIENCE) else { return };
        if let Err(why) = self.begin(&request, descriptors, &peer) {
            let by = by(&request);
            self.events.refused(
                by,
                ("user", &request.user),
                "LoginRefused",
                shown(&why, MOST_SHOWN),
            );
            // The peer may have closed.
            let _ = peer.send(&Outcome::Refused(why), &[]);
        }
    }

    /// A place for another session of a user.
    fn enter<'a>(&'a self, user: &'a str) -> Result<Place<'a>, String> {
        let mut inside = self.lock();
        let own = inside.all.values().filter(|one| one.user == user).count();
        let own = own + inside.coming.get(user).copied().unwrap_or(0);
        let whole = inside.all.len() + inside.coming.values().sum::<usize>();
        match (own >= MOST.0, whole >= MOST.1 || inside.ended) {
            (true, _) => Err(format!("user {user} has {} sessions, the most", MOST.0)),
            (_, true) => Err("this node takes no more sessions at present".to_owned()),
            _ => {
                *inside.coming.entry(user.to_owned()).or_default() += 1;
                drop(inside);
                Ok(Place { sessions: self, user })
            }
        }
    }

    /// Begins a session, or returns the reason of a refusal.
    fn begin(
        &self,
        request: &SessionRequest,
        descriptors: Vec<OwnedFd>,
        peer: &Channel<Outcome, SessionRequest>,
    ) -> Result<(), String> {
        let standard: [OwnedFd; 3] =
            descriptors.try_into().map_err(|_| "three descriptors are needed".to_owned())?;
        let (target, command) = split(request.line.as_deref(), request.router.as_deref())?;
        let _place = self.enter(&request.user)?;
        let (user, key, wanted) = (request.user.clone(), request.key.clone(), target);
        let admitted = self.control.wait(ANSWER, move |node| node.admit(&user, &key, &wanted));
        let admitted = admitted.map_err(|problem| problem.detail)??;
        let terminal = standard.iter().all(|one| one.is_terminal());
        let what = match command {
            None => What::Shell,
            Some(command) if command == SSHD => What::Sshd(own_keys(&admitted.documents, request)),
            Some(command) => What::Command(command),
        };
        let said = match &what {
            What::Shell => "a shell".to_owned(),
            What::Command(command) => format!("`{}`", shown(command, MOST_SHOWN)),
            What::Sshd(_) => "an sshd inside".to_owned(),
        };
        let (router, term) = (admitted.router.clone(), request.term.clone());
        let begin = Begin { router, terminal, term, what };
        let mut session = self.start(request, &admitted, &standard, peer)?;
        let failed = |error| format!("starting the session: {error}");
        session.attendant.send(&Order::Begin(begin), &[]).map_err(failed)?;
        let message = format!("{said}, by SSH with the key {}", request.key);
        self.events.asked(by(request), ("router", &admitted.router), "LoggedIn", message);
        let mut inside = self.lock();
        if inside.ended {
            return Err("the node goes down".to_owned());
        }
        // From here on the process ends with the session.
        session.child.commit();
        let number = inside.next;
        inside.next += 1;
        inside.all.insert(number, session);
        Ok(())
    }

    /// Starts the process that attends to a session, in the router's control group and pid namespace.
    fn start(
        &self,
        request: &SessionRequest,
        admitted: &Admitted,
        standard: &[OwnedFd; 3],
        peer: &Channel<Outcome, SessionRequest>,
    ) -> Result<Session, String> {
        let failed = |error: &dyn std::fmt::Display| format!("starting the session: {error}");
        let log = self.instance.log("node");
        let log = OpenOptions::new().create(true).append(true).open(log).map_err(|e| failed(&e))?;
        let (group, numbers) = admitted.base.ready().map_err(|error| failed(&error))?;
        let (attendant, theirs) = pair().map_err(|error| failed(&error))?;
        let arguments =
            ["europa", "--instance", self.instance.name(), "ssh-attend", &admitted.router];
        let mut handed = vec![peer.as_fd(), theirs.as_fd()];
        handed.extend(standard.iter().map(AsFd::as_fd));
        let spec = SpawnSpec {
            arguments: arguments.map(|word| word.as_ref()).to_vec(),
            environment: Vec::new(),
            descriptors: handed,
            log: log.as_fd(),
            group: group.as_ref(),
            pid_namespace: false,
        };
        let child = spawn_within(numbers.as_fd(), &spec).map_err(|error| failed(&error))?;
        Ok(Session {
            user: request.user.clone(),
            key: request.key.clone(),
            by: by(request),
            router: admitted.router.clone(),
            attendant,
            child,
            since: Instant::now(),
            told: None,
            outcome: None,
        })
    }

    /// Removes sessions that have ended, and ends those whose user has lost the right.
    pub(super) fn look(&self) {
        self.forget_ended();
        if self.lock().all.is_empty() {
            return;
        }
        // A loop that is busy is asked again soon.
        let Ok(documents) =
            self.control.wait(LOOK, |node| node.change.accepted().documents.clone())
        else {
            return;
        };
        for session in self.lock().all.values_mut() {
            if session.told.is_none()
                && let Err(why) = session.may_stay(&documents)
            {
                session.tell(why);
            }
            session.kill_late();
        }
    }

    fn forget_ended(&self) {
        let mut inside = self.lock();
        let ended = |session: &mut Session| session.is_over();
        let over: Vec<u64> =
            inside.all.iter_mut().filter_map(|(id, one)| ended(one).then_some(*id)).collect();
        let over: Vec<Session> = over.iter().filter_map(|id| inside.all.remove(id)).collect();
        drop(inside);
        for session in over {
            let lasted = session.since.elapsed().as_secs();
            let how = match session.outcome {
                Some(Outcome::Ended(code)) => format!("code {code}"),
                Some(Outcome::Refused(why)) => why,
                None => "the router has ended it".to_owned(),
            };
            let message = format!("after {lasted} s: {}", shown(&how, MOST_SHOWN));
            self.events.asked(session.by, ("router", &session.router), "LoggedOut", message);
        }
    }

    /// Ends all, and takes no more.
    pub(super) fn end(&self) {
        let since = Instant::now();
        self.lock().ended = true;
        loop {
            self.forget_ended();
            let mut inside = self.lock();
            if inside.all.is_empty() {
                return;
            }
            for session in inside.all.values_mut() {
                if session.told.is_none() {
                    session.tell("the node goes down".to_owned());
                }
                session.kill_late();
            }
            drop(inside);
            if since.elapsed() > 2 * GRACE {
                return tracing::warn!("sessions of SSH logins do not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The lines of a user's keys.
fn own_keys(documents: &Documents, request: &SessionRequest) -> Vec<String> {
    let user = documents.users.iter().find(|one| **one.name == *request.user);
    let keys = user.into_iter().flat_map(|user| &user.ssh_keys);
    keys.map(|key| format!("{} {}", key.kind(), key.key())).collect()
}

impl Session {
    /// Whether the documents still permit it.
    fn may_stay(&self, documents: &Documents) -> Result<(), String> {
        let target: Target = self.router.parse()?;
        admit(documents, &self.user, &self.key, &target).map(drop)
    }

    /// Orders it to end.
    fn tell(&mut self, why: String) {
        self.told = Some(Instant::now());
        // A process that does not react is killed later.
        let _ = self.attendant.try_send(&Order::End(why));
    }

    /// Kills a session that does not end on the order.
    fn kill_late(&self) {
        if self.told.is_some_and(|told| told.elapsed() > GRACE)
            && let Err(error) = self.child.kill(Signal::SIGKILL)
        {
            tracing::warn!("a session in {}: {error}", self.router);
        }
    }

    /// Whether its process has ended. It is reaped then.
    fn is_over(&mut self) -> bool {
        if let Ok(Some((outcome, _))) = self.attendant.try_receive() {
            self.outcome = Some(outcome);
        }
        self.child.try_wait().is_ok_and(|exit| exit.is_some())
    }
}
