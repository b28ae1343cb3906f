//! Programs that other threads load: the verifier takes up to some hundred milliseconds for each
//! program.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use europa_port::Namespace;

use crate::substrate::{Error, Receive, Substrate, load_drained, load_receive, load_transmit};

/// A program of a substrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// The receive programs of a network namespace, by its inode.
    Receive(u64),
    /// The transmit program of a worker.
    Transmit(u32),
    /// The program of [`Drained`](crate::Drained).
    Drained,
}

impl Program {
    /// The receive programs of ports in a namespace.
    pub fn receive(namespace: &Namespace) -> Program {
        Program::Receive(namespace.inode)
    }
}

/// Loads a program, in any thread.
pub struct Loader {
    program: Program,
    directory: PathBuf,
    counter_rows: u32,
}

/// A program that a [`Loader`] has loaded.
pub struct Loaded {
    program: Program,
    made: Made,
}

enum Made {
    Receive(Receive),
    Program(OwnedFd),
}

impl Loader {
    /// Loads it.
    ///
    /// # Errors
    /// The verifier's message.
    pub fn load(self) -> Result<Loaded, Error> {
        let Loader { program, directory, counter_rows } = self;
        let made = match program {
            Program::Receive(inode) => {
                Made::Receive(load_receive(&directory, inode, counter_rows)?)
            }
            Program::Transmit(worker) => {
                Made::Program(load_transmit(&directory, worker, counter_rows)?)
            }
            Program::Drained => Made::Program(load_drained(&directory)?),
        };
        Ok(Loaded { program, made })
    }
}

impl Substrate {
    /// The function that loads a program; `None` if the program is already loaded.
    pub fn lacks(&self, program: Program) -> Option<Loader> {
        let is_there = match program {
            Program::Receive(inode) => self.receive.contains_key(&inode),
            Program::Transmit(worker) => self.transmit.contains_key(&worker),
            Program::Drained => self.drained.get().is_some(),
        };
        (!is_there).then(|| Loader {
            program,
            directory: self.directory().to_owned(),
            counter_rows: self.counter_rows(),
        })
    }

    /// Takes a program that was loaded elsewhere.
    pub fn keep(&mut self, loaded: Loaded) {
        match (loaded.program, loaded.made) {
            (Program::Receive(inode), Made::Receive(programs)) => {
                self.receive.insert(inode, programs);
            }
            (Program::Transmit(worker), Made::Program(descriptor)) => {
                self.transmit.insert(worker, descriptor);
            }
            // An equivalent program was loaded meanwhile.
            (_, Made::Program(descriptor)) => drop(self.drained.set(descriptor)),
            (_, Made::Receive(_)) => {}
        }
    }
}
