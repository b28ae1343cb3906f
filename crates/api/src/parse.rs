//! Turns texts into documents: reads them, and checks them together.

use crate::check;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::problem::Problems;
use crate::source::Source;

/// Reads and checks texts that belong together. On success every reference names an existing
/// object.
///
/// # Errors
/// Every mistake that was found.
pub fn parse(sources: &[Source]) -> Result<Documents, Problems> {
    let (draft, mut problems) = Draft::of(sources);
    check::documents(&draft, &mut problems);
    if problems.is_empty() { Ok(draft.documents) } else { Err(Problems::new(problems, sources)) }
}
