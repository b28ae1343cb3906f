//! Europa's kernel routers: the programs of the XDP references, each in its cage.

use std::path::PathBuf;

use tempfile::NamedTempFile;

use super::europa::{DOCUMENTS, Europa};
use super::xdp::OBJECT;
use super::{Arrangement, System};
use crate::error::{Context, Result};
use crate::testbed::{MAC, Testbed, format_mac};

/// One of the two programs of bpf/forward.bpf.c in a router with `run: kernel`.
pub(crate) struct Kernel {
    name: &'static str,
    program: &'static str,
    hops: u8,
    europa: Europa,
    object: Option<NamedTempFile>,
}

impl Kernel {
    /// The same as `xdp-router`: it looks up the tables of its slow path.
    pub(crate) fn router(given: Option<PathBuf>) -> Self {
        Self::with("europa-kernel-router", "route", 1, given)
    }

    /// The same as `xdp-redirect`.
    pub(crate) fn redirect(given: Option<PathBuf>) -> Self {
        Self::with("europa-kernel", "redirect", 0, given)
    }

    fn with(name: &'static str, program: &'static str, hops: u8, given: Option<PathBuf>) -> Self {
        Self { name, program, hops, europa: Europa::new(given), object: None }
    }

    fn documents(&self, object: &str) -> String {
        let hexadecimal = |macs: [[u8; 6]; 2]| -> String {
            macs.concat().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let (maps, more) = match self.hops {
            0 => (
                format!(
                    "{{ports: {{1: 2, 2: 1}}, wires: {{1: 'hex:{}', 2: 'hex:{}'}}}}",
                    hexadecimal([MAC[3], MAC[2]]),
                    hexadecimal([MAC[0], MAC[1]])
                ),
                String::new(),
            ),
            _ => ("{ports: {1: 1, 2: 2}}".to_owned(), {
                let neighbour = |address: &str, mac: usize, interface: &str| {
                    let mac = format_mac(&MAC[mac]);
                    format!(
                        "    - {{address: {address}, mac: \"{mac}\", interface: {interface}}}\n"
                    )
                };
                let (left, right) =
                    (neighbour("10.0.0.2", 0, "in"), neighbour("10.0.1.2", 3, "out"));
                format!(
                    "  routes: [{{to: 10.1.0.0/16, via: 10.0.1.2}}]\n  neighbours:\n{left}{right}\
                     slow_path: {{}}\n"
                )
            }),
        };
        let before = DOCUMENTS.split("\nfast_path:").next().unwrap_or_default();
        let before = before.replace("name: bench\n", "name: bench\nprograms: operator\n");
        format!(
            "{before}\nrun: kernel\nfast_path:\n  xdp: {{object: {object}, program: {}, maps: {maps}}}\n\
             {more}",
            self.program
        )
    }
}

impl System for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self) -> Result<(), String> {
        self.europa.available()
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        super::xdp::arrangements()
    }

    fn hops(&self) -> u8 {
        self.hops
    }

    fn sends_frames(&self) -> bool {
        true
    }

    fn setup(&mut self, _: &Testbed) -> Result<()> {
        let file = NamedTempFile::with_suffix(".o").context("making a file for europa")?;
        std::fs::write(file.path(), OBJECT).context("writing a file for europa")?;
        let documents = self.documents(&file.path().to_string_lossy());
        self.object = Some(file);
        self.europa.up_with(&documents)
    }

    fn teardown(&mut self, testbed: &Testbed) -> Result<()> {
        self.object = None;
        self.europa.teardown(testbed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_valid() {
        for system in [Kernel::router(None), Kernel::redirect(None)] {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("o.o"), OBJECT).expect("written");
            let file = folder.path().join("bench.yaml");
            std::fs::write(&file, system.documents("o.o")).expect("written");
            let documents = europa_api::load(&[file]).expect("valid documents");
            assert_eq!(documents.routers[0].run, europa_api::Run::Kernel);
        }
    }
}
