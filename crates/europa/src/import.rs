//! `import`: converts topologies of other tools.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use europa_import::{Images, Imported};

use crate::image_store;

/// The variable that names images: `NAME=PATH`, separated by commas. containerlab has no option for
/// them.
const IMAGES: &str = "EUROPA_IMAGES";

/// Reads the topology `text` of a file in a folder. `images` contains `NAME=PATH` for images.
pub(crate) fn read(
    file: &Path,
    text: &str,
    folder: &Path,
    images: &[String],
) -> Result<Imported, String> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut all = Images::default();
    let variable = environment(IMAGES).unwrap_or_default();
    for image in variable.split(',').filter(|one| !one.is_empty()) {
        all.add(image).map_err(|why| format!("the variable {IMAGES}: {why}"))?;
    }
    images.iter().try_for_each(|image| all.add(image))?;
    let stored = RefCell::new(HashMap::new());
    let found = |image: &str| {
        let given = all.of(image).map(Path::to_owned);
        given.or_else(|| {
            let mut stored = stored.borrow_mut();
            stored.entry(image.to_owned()).or_insert_with(|| image_store::find(image)).clone()
        })
    };
    europa_import::containerlab(text, folder, environment, found)
        .map_err(|error| format!("{}:{error}", file.display()))
}

/// Prints or writes the configuration. Notes on fields without a counterpart go to standard error.
pub(crate) fn containerlab(
    file: &Path,
    output: Option<PathBuf>,
    images: &[String],
) -> Result<ExitCode, String> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    let whole = fs::canonicalize(file).map_err(|error| format!("{shown}: {error}"))?;
    let folder = whole.parent().unwrap_or(Path::new("/"));
    let imported = read(file, &text, folder, images)?;
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
