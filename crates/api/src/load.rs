//! Reads files, and the files that they name.

use std::path::Path;

use crate::bundle::read;
use crate::documents::Documents;
use crate::problem::Problems;

/// Reads YAML files that belong together, and the Click files that they name.
///
/// # Errors
/// Every mistake that was found, including unreadable files.
pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Documents, Problems> {
    let mut documents = read(paths)?.documents()?;
    documents.complete();
    Ok(documents)
}
