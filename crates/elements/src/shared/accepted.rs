//! Keywords that configurations of other programs have and that change nothing here.

use europa_engine::{Arguments, ConfigError};

/// Takes these keywords, with any values.
///
/// # Errors
/// If a value is no text, as with an open quote.
pub(crate) fn accept(
    arguments: &mut Arguments<'_>,
    keywords: &[&'static str],
) -> Result<(), ConfigError> {
    for keyword in keywords {
        arguments.keyword::<String>(keyword)?;
    }
    Ok(())
}
