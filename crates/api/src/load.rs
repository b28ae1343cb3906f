//! Reading files, and the files that they name.

use std::fs;
use std::path::Path;

use crate::documents::{Documents, parse};
use crate::fast_path::Configuration;
use crate::problem::{Problem, Problems};
use crate::source::{Place, Source};

/// Reads YAML files that belong together, and the Click files that they name.
///
/// # Errors
/// Every mistake that was found, unreadable files included.
pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Documents, Problems> {
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    for (path, index) in paths.iter().map(AsRef::as_ref).zip(0..) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| {
            let place = Place { source: index, start: 0, end: 0 };
            let message = format!("cannot read {}: {error}", path.display());
            problems.push(Problem::new(place, message));
            String::new()
        });
        sources.push(Source { path: path.to_owned(), text });
    }
    if !problems.is_empty() {
        return Err(Problems::new(problems, &sources));
    }
    let mut documents = parse(&sources)?;
    for router in &mut documents.routers {
        let fast_path = &mut router.fast_path.value;
        let place = match (&fast_path.click, &fast_path.click_file) {
            (Some(click), _) => click.place,
            (None, Some(file)) => file.place,
            (None, None) => continue,
        };
        let Some(source) = sources.get(place.source as usize) else { continue };
        if let Some(click) = &fast_path.click {
            let before = source.text.get(..place.start as usize).unwrap_or("");
            fast_path.configuration = Some(Configuration {
                file: source.path.display().to_string(),
                first_line: before.matches('\n').count() + 1,
                text: click.value.clone(),
            });
        } else if let Some(file) = &fast_path.click_file {
            let path = source.path.parent().unwrap_or(Path::new("")).join(&file.value);
            match fs::read_to_string(&path) {
                Ok(text) => {
                    let file = path.display().to_string();
                    fast_path.configuration = Some(Configuration { file, first_line: 1, text });
                }
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    problems.push(
                        Problem::new(place, message)
                            .label("this file")
                            .help("it is searched beside the YAML file"),
                    );
                }
            }
        }
    }
    crate::addressing::assign(&mut documents);
    if problems.is_empty() { Ok(documents) } else { Err(Problems::new(problems, &sources)) }
}
