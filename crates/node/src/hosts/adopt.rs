//! Takes over the hosts of a killed node, and removes those that are not as desired.

use std::sync::Arc;

use europa_api::Documents;

use super::run::Commands;
use super::show::{stats, text};
use super::{HOSTS, Hosts, remove};
use crate::NodeError;
use crate::context::Context;

impl Hosts {
    /// Takes over the hosts of another node that are as desired, and removes the others.
    pub(crate) fn adopt(
        &mut self,
        context: &Context,
        documents: &Documents,
    ) -> Result<(), NodeError> {
        let wanted = text(&documents.hosts);
        let found = context.kept.records::<String>(HOSTS);
        if found.iter().any(|found| found.record.as_ref() == Some(&wanted)) {
            self.stats = stats(&context.instance, documents);
            self.made = Arc::new(documents.hosts.clone());
            let commanded = documents.hosts.iter().filter(|host| !host.run.is_empty());
            self.running = commanded
                .map(|host| {
                    let commands = Commands::adopt(&context.instance, &host.name);
                    (host.name.to_string(), commands)
                })
                .collect();
            return Ok(());
        }
        context.kept.forget(HOSTS);
        remove(&context.instance)
    }
}
