//! The kernel's side: the pinned maps and the eBPF programs.
//!
//! | file   | concern                                              |
//! |--------|------------------------------------------------------|
//! | `load` | programs, loaded by threads                          |

mod load;

use europa_control::Stop;
use europa_substrate::Substrate;

use self::load::Loading;
use crate::NodeError;
use crate::beside::{Purpose, Work};
use crate::context::Context;
use crate::routers::watch_receivers;
use crate::switch::Switching;

/// See the file.
#[derive(Default)]
pub(crate) struct Kernel {
    /// None before it is needed for the first time.
    substrate: Option<Substrate>,
    opening: Work<Substrate>,
    loading: Loading,
}

impl Kernel {
    /// The maps and programs, if they are open.
    pub(crate) fn substrate(&self) -> Option<&Substrate> {
        self.substrate.as_ref()
    }

    /// The same, for changes.
    pub(crate) fn substrate_mut(&mut self) -> Option<&mut Substrate> {
        self.substrate.as_mut()
    }

    /// The maps and programs.
    ///
    /// # Errors
    /// They are not open yet.
    pub(crate) fn up(&self) -> Result<&Substrate, NodeError> {
        self.substrate.as_ref().ok_or_else(not_up)
    }

    /// The maps and programs, opened if this is the first time.
    pub(crate) fn opened(
        &mut self,
        context: &Context,
        switch: &mut Switching,
    ) -> Result<&mut Substrate, NodeError> {
        if self.substrate.is_none() {
            self.begin_with(context, switch, Substrate::open(&context.instance.pins())?)?;
        }
        self.substrate.as_mut().ok_or_else(not_up)
    }

    /// Has a thread open the maps when they are needed for the first time.
    pub(crate) fn open(
        &mut self,
        context: &Context,
        switch: &mut Switching,
        purpose: Purpose,
    ) -> Result<(), Stop> {
        if self.substrate.is_some() {
            return Ok(());
        }
        match self.opening.result(&purpose, drop)? {
            Some(substrate) => Ok(self.begin_with(context, switch, substrate)?),
            None => {
                let pins = context.instance.pins();
                let work = move || Ok(Substrate::open(&pins)?);
                Err(self.opening.begin(context, purpose, |node| &mut node.kernel.opening, work))
            }
        }
    }

    /// Works with this substrate from now on.
    pub(crate) fn begin_with(
        &mut self,
        context: &Context,
        switch: &mut Switching,
        substrate: Substrate,
    ) -> Result<(), NodeError> {
        switch.have_lasting(context)?;
        watch_receivers(substrate.receivers()?, context.cores.clone(), context.control.clone())?;
        self.substrate = Some(substrate);
        Ok(())
    }

    /// Waits until no thread opens it any more.
    pub(crate) fn wait(&mut self) {
        self.opening.wait();
    }

    /// Lets the maps and programs go.
    pub(crate) fn close(&mut self) {
        self.substrate = None;
    }
}

fn not_up() -> NodeError {
    NodeError::Refused("this node is not up".into())
}
