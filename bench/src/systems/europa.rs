//! Europa: an isolated router with `builtin: ipv4`.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::sink::Hook;
use crate::systems::{Arrangement, Placement, System};
use crate::testbed::Testbed;

/// `europa up FILE` in the router's namespace.
pub(crate) struct Europa {
    program: Option<PathBuf>,
}

impl Europa {
    /// The program given, or the one that was built beside this one.
    pub(crate) fn new(given: Option<PathBuf>) -> Self {
        let beside = || {
            let path = std::env::current_exe().ok()?.with_file_name("europa");
            path.is_file().then_some(path)
        };
        Self { program: given.or_else(beside) }
    }
}

impl System for Europa {
    fn name(&self) -> &'static str {
        "europa"
    }

    fn available(&self) -> Result<(), String> {
        match &self.program {
            None => Err("no `europa` beside this program; build it or say --europa".into()),
            Some(_) => Err("this benchmark does not know how to start it yet".into()),
        }
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        vec![Arrangement { placement: Placement::Own, sink: Hook::Xdp }]
    }

    fn routes(&self) -> bool {
        true
    }

    fn sends_frames(&self) -> bool {
        true
    }

    fn setup(&mut self, _: &Testbed) -> Result<()> {
        Err(Error::System { system: "europa", message: "cannot be started yet".into() })
    }

    fn teardown(&mut self, _: &Testbed) -> Result<()> {
        Ok(())
    }
}
