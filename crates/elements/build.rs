//! Lists the classes of the library. A source file that begins with an element's page holds that
//! element's class. The first line of a folder's `mod.rs` is the category of the classes in it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// All sources of a folder, in order.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, into)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

/// The heading in the first line of a source.
fn heading(path: &Path, mark: &str) -> io::Result<Option<String>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().next().and_then(|line| line.strip_prefix(mark)).map(str::to_owned))
}

/// The line that adds a source's class to the registry.
fn line(root: &Path, source: &Path) -> io::Result<Option<String>> {
    let Some(class) = heading(source, "//! # ")? else { return Ok(None) };
    let within = source.strip_prefix(root).map_err(io::Error::other)?.with_extension("");
    let names: Vec<_> = within.iter().map(|name| name.to_string_lossy()).collect();
    let folder = names.first().map_or_else(PathBuf::new, |first| root.join(&**first));
    let category = heading(&folder.join("mod.rs"), "//! ")?.unwrap_or_default();
    let (module, category) = (names.join("::"), category.trim_end_matches('.'));
    Ok(Some(format!("    registry.add_to::<crate::{module}::{class}>({category:?});\n")))
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let root = Path::new("src");
    let mut found = Vec::new();
    sources(root, &mut found)?;
    let mut text = "fn add_all(registry: &mut europa_engine::Registry) {\n".to_owned();
    for source in found {
        text.extend(line(root, &source)?);
    }
    text += "}\n";
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    fs::write(Path::new(&out).join("registry.rs"), text)
}
