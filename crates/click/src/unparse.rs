//! Prints a graph as flat Click text, in the layout of the `click` program.

use std::collections::HashMap;
use std::fmt;

use crate::graph::{Connection, Graph};
use crate::quote::quote;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.requirements.is_empty() {
            let list: Vec<String> = self
                .requirements
                .iter()
                .map(|r| match r.value.as_str() {
                    "" => r.kind.clone(),
                    value => format!("{} {}", r.kind, quote(value.as_bytes())),
                })
                .collect();
            write!(f, "require({});\n\n", list.join(", "))?;
        }
        for element in &self.elements {
            write!(f, "{element}")?;
            if !element.config.is_empty() {
                write!(f, "({})", element.config)?;
            }
            writeln!(f, ";")?;
        }
        if !self.elements.is_empty() {
            writeln!(f)?;
        }
        self.write_chains(f)
    }
}

impl Graph {
    /// A chain continues if input 0 of an element is connected and its output 0 too, as in a
    /// handwritten configuration.
    fn write_chains(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.connections.len();
        let mut outgoing: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, connection) in self.connections.iter().enumerate() {
            if connection.from_port == 0 {
                outgoing.entry(connection.from.0).or_default().push(index);
            }
        }
        let mut next = vec![None; count];
        let mut starts = vec![true; count];
        for (index, connection) in self.connections.iter().enumerate() {
            if connection.to_port != 0 {
                continue;
            }
            let followers = outgoing.get(&connection.to.0).map_or(&[][..], Vec::as_slice);
            let others = || followers.iter().copied().filter(|&d| d != index);
            let plain = others().find(|&d| self.connections.get(d).is_some_and(|c| c.to_port == 0));
            let follower = plain.or_else(|| others().next_back());
            if let (Some(follower), Some(slot)) = (follower, next.get_mut(index)) {
                *slot = Some(follower);
                if let Some(start) = starts.get_mut(follower) {
                    *start = false;
                }
            }
        }
        let mut used = vec![false; count];
        // First the chains with a beginning, then the cycles.
        for cycles in [false, true] {
            for index in 0..count {
                let begins = cycles || starts.get(index) == Some(&true);
                if begins && used.get(index) == Some(&false) {
                    self.write_chain(f, index, &next, &mut used)?;
                }
            }
        }
        Ok(())
    }

    fn write_chain(
        &self,
        f: &mut fmt::Formatter<'_>,
        first: usize,
        next: &[Option<usize>],
        used: &mut [bool],
    ) -> fmt::Result {
        let mut current = Some(first);
        while let Some(index) = current {
            let (Some(connection), Some(done)) = (self.connections.get(index), used.get_mut(index))
            else {
                break;
            };
            if std::mem::replace(done, true) {
                break;
            }
            self.write_link(f, connection, index == first)?;
            current = next.get(index).copied().flatten();
        }
        writeln!(f, ";")
    }

    fn write_link(&self, f: &mut fmt::Formatter<'_>, c: &Connection, first: bool) -> fmt::Result {
        let name = |id| self.element(id).map_or("", |e| e.name.as_str());
        if first {
            f.write_str(name(c.from))?;
            if c.from_port != 0 {
                write!(f, " [{}]", c.from_port)?;
            }
            f.write_str(" -> ")?;
        } else {
            f.write_str("\n    -> ")?;
        }
        if c.to_port != 0 {
            write!(f, "[{}] ", c.to_port)?;
        }
        f.write_str(name(c.to))
    }
}
