//! `import`: topologies of other tools are converted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use europa_import::Imported;

/// Reads the topology `text` of a file in a folder.
pub(crate) fn read(file: &Path, text: &str, folder: &Path) -> Result<Imported, String> {
    let environment = |name: &str| std::env::var(name).ok();
    europa_import::containerlab(text, folder, environment)
        .map_err(|error| format!("{}:{error}", file.display()))
}

/// Prints or writes the configuration. Notes on fields without an equivalent go to standard error.
pub(crate) fn containerlab(file: &Path, output: Option<PathBuf>) -> Result<ExitCode, String> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    let whole = fs::canonicalize(file).map_err(|error| format!("{shown}: {error}"))?;
    let folder = whole.parent().unwrap_or(Path::new("/"));
    let imported = read(file, &text, folder)?;
    for note in &imported.notes {
        eprintln!("{shown}:{}: {}", note.line, note.message);
    }
    match output {
        None => print!("{}", imported.yaml),
        Some(path) => fs::write(&path, &imported.yaml)
            .map_err(|error| format!("{}: {error}", path.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}
