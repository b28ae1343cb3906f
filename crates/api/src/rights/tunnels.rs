//! Tunnels of links, which name an address of the node.

use std::collections::HashSet;

use super::Rights;
use super::problems::not_allowed;
use crate::allow::{self, Allow};
use crate::bundle::Key;
use crate::documents::Documents;
use crate::problem::Problem;

impl Rights<'_> {
    /// Whether the user may remove a stored link, as far as its tunnel is concerned.
    pub(super) fn may_cut(&self, link: &str) -> bool {
        let stored = self.stored.links.iter().find(|stored| **stored.name == *link);
        stored.is_none_or(|link| link.tunnel.is_none()) || self.any_allows(Allow::Tunnel)
    }

    /// A problem for each tunnel that differs from the stored one, if no owned slice allows that.
    pub(super) fn tunnels_refused(
        &self,
        new: &Documents,
        changed: &HashSet<Key>,
        refused: &mut Vec<Problem>,
    ) {
        if self.any_allows(Allow::Tunnel) {
            return;
        }
        for link in &new.links {
            let stored = self.stored.links.iter().find(|stored| stored.name == link.name);
            let before = stored.and_then(|stored| stored.tunnel.as_ref());
            let is_changed = changed.contains(&Key::new("link", link.name.to_string()));
            if is_changed && before != link.tunnel.as_ref() {
                let written = allow::of_link(link).first().map(|(_, place)| *place);
                let place = written.unwrap_or(link.name.place);
                refused.push(not_allowed(Allow::Tunnel, place, "link"));
            }
        }
    }
}
