//! Names in rules: interfaces and ways, with their numbers.

use std::collections::BTreeSet;

use europa_api::filters::InterfaceOf;
use europa_api::{Documents, Mac};
use europa_filter::MOST_INTERFACES;

use super::numbers::Numbers;
use super::{FilterError, Filters, SliceFilters, WAYS_OF_A_SLICE, WayTo};

impl SliceFilters {
    pub(super) fn number_of_entry(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

impl Filters {
    /// The number of an interface that a rule names.
    pub(super) fn take_interface(
        &mut self,
        slice: &str,
        of: Option<&InterfaceOf>,
    ) -> Result<Option<u16>, FilterError> {
        let named = self.numbers.interfaces.entry(slice.to_owned());
        let named = named.or_insert_with(|| Numbers::new(1, MOST_INTERFACES));
        let Some(of) = of else { return Ok(None) };
        let taken = named.take(of, &mut self.renamed);
        taken.map(Some).ok_or_else(|| FilterError::Interfaces(slice.to_owned()))
    }

    /// The number of a rule's way. Each slice has a share of the numbers.
    pub(super) fn take_way(
        &mut self,
        slice: &str,
        of: Option<&InterfaceOf>,
        destination: Option<Mac>,
        mirror: bool,
    ) -> Result<Option<u16>, FilterError> {
        let Some(InterfaceOf { router, interface }) = of else { return Ok(None) };
        let router = format!("{slice}/{router}");
        let (interface, destination) = (interface.to_string(), destination.map(|mac| mac.0));
        let way = WayTo { router, interface, destination, mirror };
        let refused = || FilterError::Ways { slice: slice.to_owned(), limit: WAYS_OF_A_SLICE };
        let used = self.ways_of.entry(slice.to_owned()).or_default();
        if !used.contains_key(&way) && used.len() >= WAYS_OF_A_SLICE {
            return Err(refused());
        }
        let mut is_new = false;
        let number = self.numbers.ways.take(&way, &mut is_new).ok_or_else(refused)?;
        if is_new {
            self.renamed = true;
            self.fresh.push(number);
        }
        *used.entry(way).or_insert(0) += 1;
        Ok(Some(number))
    }

    /// Releases the numbers of a rule's names.
    pub(super) fn release(&mut self, slice: &str, interface: Option<u16>, ways: [Option<u16>; 2]) {
        if let (Some(number), Some(named)) = (interface, self.numbers.interfaces.get_mut(slice)) {
            named.give(number);
        }
        for number in ways.into_iter().flatten() {
            if let (Some(way), Some(used)) =
                (self.numbers.ways.name(number), self.ways_of.get_mut(slice))
                && let Some(uses) = used.get_mut(way)
            {
                *uses -= 1;
                if *uses == 0 {
                    used.remove(way);
                }
            }
            self.numbers.ways.give(number);
        }
    }

    /// Slices that have rules, or will have some.
    pub(crate) fn names(&self, documents: &Documents) -> BTreeSet<String> {
        let wanted = documents.filters.iter().map(|filters| filters.slice.to_string());
        self.slices.keys().cloned().chain(wanted).collect()
    }
}
