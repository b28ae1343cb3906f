//! Rules with numbers: those of a slice's own programs.

use europa_api::filters::Rule;
use europa_switch::Batch;

use super::{FilterError, Filters, Installed, Origin, Told};

impl Filters {
    /// Adds and removes rules by number; returns the orders for the switch.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub(crate) fn change_own(
        &mut self,
        slice: &str,
        removed: &[u32],
        added: Vec<(u32, Rule)>,
    ) -> Result<Told, FilterError> {
        let was_empty = self.slice_mut(slice).is_empty();
        let (mut batch, mut come) = (Batch::default(), Vec::with_capacity(added.len()));
        for (number, rule) in added {
            match self.install(slice, Origin::Own(number), rule, &mut batch) {
                Ok(installed) => come.push(installed),
                Err(error) => {
                    self.scrap(slice, &come);
                    return Err(error);
                }
            }
        }
        for number in removed {
            let filters = self.slice_mut(slice);
            let gone = filters.own.remove(number);
            filters.own_entries -= gone.as_ref().map_or(0, |gone| gone.entries.len());
            gone.iter().for_each(|gone| self.uninstall(slice, gone, &mut batch));
        }
        for installed in come {
            if let Origin::Own(number) = installed.origin {
                let filters = self.slice_mut(slice);
                filters.own_entries += installed.entries.len();
                filters.own.insert(number, installed);
            }
        }
        Ok(self.told(slice, batch, was_empty))
    }

    /// Removes installed rules that the switch did not get.
    pub(super) fn scrap(&mut self, slice: &str, installed: &[Installed]) {
        let mut back = Batch::default();
        installed.iter().for_each(|one| self.uninstall(slice, one, &mut back));
        self.tidy();
    }

    /// The rules that have numbers.
    pub(crate) fn own(&self, slice: &str) -> impl Iterator<Item = (u32, &Installed)> {
        let own = self.slices.get(slice).into_iter().flat_map(|filters| &filters.own);
        own.map(|(number, installed)| (*number, installed))
    }

    /// One of them.
    pub(crate) fn own_rule(&self, slice: &str, number: u32) -> Option<&Installed> {
        self.slices.get(slice)?.own.get(&number)
    }

    /// The highest of their numbers.
    pub(crate) fn own_highest(&self, slice: &str) -> Option<u32> {
        self.slices.get(slice)?.own.last_key_value().map(|(number, _)| *number)
    }
}
