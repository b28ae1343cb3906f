//! A running capture: reads its rings and sorts their records.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use europa_channel::{Channel, ChannelError};
use europa_substrate::tap::{Direction, Lost, MemoryRing, ProgramRing, Record, Way};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::ask::{self, Answer, Question};
use crate::scene::Scene;
use crate::target::Named;

/// The two rings are written by different processes. A record waits this long for an older record
/// from the other ring.
const PATIENCE_NS: u64 = 20_000_000;
/// After this time without an answer, a node counts as stopped.
const DEADLINE: Duration = Duration::from_secs(15);

/// The reason why a capture is not possible.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No reader listens.
    #[error("the node `{0}` does not run; start it with `europa up FILE`")]
    NoNode(String),
    /// The caller may not use the capture socket.
    #[error("only root may look at packets")]
    NotRoot,
    /// The node refuses.
    #[error("{0}")]
    Refused(String),
    /// The node does not answer.
    #[error(
        "the node has not answered for {} s: its process seems to be stopped; `ps -C europa-node \
         -o pid,stat,args` shows it (state T is stopped, `kill -CONT PID` lets it go on)",
        DEADLINE.as_secs()
    )]
    Silent,
    /// The node has ended, or sent an invalid message.
    #[error("the node: {0}")]
    Channel(#[from] ChannelError),
    /// The kernel.
    #[error("mapping a capture's ring: {0}")]
    System(#[from] Errno),
}

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Index in [`Session::interfaces`].
    pub interface: usize,
    /// Bytes of the frame.
    pub length: u32,
    /// Its direction, seen from its router.
    pub direction: Direction,
    /// How it was sent.
    pub way: Way,
    /// Why it was dropped, if it was.
    pub drop: Option<&'static str>,
    /// A number that all records of one frame share, for a kernel router's program; otherwise 0.
    pub frame: u64,
    /// Its first bytes.
    pub data: Vec<u8>,
}

type Conversation = Channel<Question, Answer>;

fn open(directory: &Path) -> Result<Conversation, CaptureError> {
    let path = ask::socket(directory);
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    let address = UnixAddr::new(&path)?;
    match connect(std::os::fd::AsRawFd::as_raw_fd(&client), &address) {
        Ok(()) => Ok(Channel::new(client)),
        Err(Errno::EACCES) => Err(CaptureError::NotRoot),
        Err(_) => {
            let name = directory.file_name().unwrap_or_default();
            Err(CaptureError::NoNode(name.to_string_lossy().into_owned()))
        }
    }
}

fn ask(
    node: &mut Conversation,
    question: &Question,
) -> Result<(Answer, Vec<OwnedFd>), CaptureError> {
    node.send(question, &[])?;
    let start = Instant::now();
    // A signal ends a wait early.
    while start.elapsed() < DEADLINE {
        match node.receive_within(DEADLINE.saturating_sub(start.elapsed()))? {
            Some((Answer::Refused(why), _)) => return Err(CaptureError::Refused(why)),
            Some(other) => return Ok(other),
            None => {}
        }
    }
    Err(CaptureError::Silent)
}

fn babble() -> CaptureError {
    CaptureError::Refused("the node answered something else".into())
}

/// The objects of the node with this run directory.
///
/// # Errors
/// No node.
pub fn describe(directory: &Path) -> Result<Scene, CaptureError> {
    match ask(&mut open(directory)?, &Question::Describe)? {
        (Answer::Scene(scene), _) => Ok(scene),
        _ => Err(babble()),
    }
}

/// A running capture. It ends when this is dropped, and also if the process is killed.
pub struct Session {
    node: Conversation,
    /// The captured interfaces.
    pub interfaces: Vec<Named>,
    places: BTreeMap<u32, usize>,
    programs: ProgramRing,
    memory: MemoryRing,
    /// Packets ordered by time and arrival.
    waiting: BTreeMap<(u64, u64), Packet>,
    arrived: u64,
    /// The difference between the clock of records and nanoseconds since 1970.
    offset_ns: u64,
}

impl Session {
    /// Begins to capture `target` on the node that has this run directory.
    ///
    /// # Errors
    /// No node, or it refuses.
    pub fn begin(
        directory: &Path,
        target: &str,
        snaplen: u32,
        rate: u32,
    ) -> Result<Session, CaptureError> {
        let mut node = open(directory)?;
        let question = Question::Begin { target: target.to_owned(), snaplen, rate };
        let (Answer::Ready { tap, interfaces }, descriptors) = ask(&mut node, &question)? else {
            return Err(babble());
        };
        let Ok([ring, memory]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(babble());
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut session = Session {
            places: interfaces.iter().enumerate().map(|(at, one)| (one.id, at)).collect(),
            interfaces,
            programs: ProgramRing::new(ring)?,
            memory: MemoryRing::new(memory, tap)?,
            waiting: BTreeMap::new(),
            arrived: 0,
            offset_ns: (since_1970.as_nanos() as u64).wrapping_sub(Record::now_ns()),
            node,
        };
        match ask(&mut session.node, &Question::Go)? {
            (Answer::Going, _) => Ok(session),
            _ => Err(babble()),
        }
    }

    fn gather(&mut self) {
        let Session { places, programs, memory, waiting, arrived, offset_ns, .. } = self;
        let mut take = |record: Record, data: &[u8]| {
            let Some(&interface) = places.get(&record.interface) else { return };
            *arrived += 1;
            let packet = Packet {
                time_ns: record.time_ns.wrapping_add(*offset_ns),
                interface,
                length: record.length,
                direction: record.direction,
                way: record.way,
                drop: match record.cause {
                    0 => None,
                    cause => Some(europa_substrate::tap::cause_name(cause)),
                },
                frame: record.frame,
                data: data.to_vec(),
            };
            waiting.insert((record.time_ns, *arrived), packet);
        };
        programs.read(&mut take);
        memory.read(&mut take);
    }

    /// The packets that have arrived, in order. Those of the last moment are returned by the next
    /// call.
    pub fn poll(&mut self) -> Vec<Packet> {
        self.gather();
        let until = (Record::now_ns().saturating_sub(PATIENCE_NS), 0);
        let later = self.waiting.split_off(&until);
        std::mem::replace(&mut self.waiting, later).into_values().collect()
    }

    /// Checks that the node still runs.
    ///
    /// # Errors
    /// The node has ended, and the capture with it.
    pub fn check(&mut self) -> Result<(), CaptureError> {
        Ok(self.node.try_receive().map(|_| ())?)
    }

    /// Stops the capture. Returns the last packets, and the number of lost ones.
    ///
    /// # Errors
    /// The node has ended.
    pub fn stop(&mut self) -> Result<(Vec<Packet>, Lost), CaptureError> {
        let (answer, _) = ask(&mut self.node, &Question::Stop)?;
        // A program or the switch may still be writing its last record.
        std::thread::sleep(Duration::from_millis(2));
        self.gather();
        let last = std::mem::take(&mut self.waiting).into_values().collect();
        match answer {
            Answer::Stopped { lost_rate, lost_room } => {
                Ok((last, Lost { rate: lost_rate, room: lost_room }))
            }
            _ => Err(babble()),
        }
    }
}
