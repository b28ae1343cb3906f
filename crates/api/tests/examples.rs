//! Every example is valid, has the intended meaning, and is equal after conversion to JSON and
//! back.

use std::fs;
use std::path::{Path, PathBuf};

use europa_api::{Choice, Document, Source, load, parse};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the examples' folder")
        .map(|entry| entry.expect("an example").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn examples_are_right() {
    for path in examples() {
        if let Err(problems) = load(&[&path]) {
            panic!("{}", problems.render(false));
        }
    }
}

#[test]
fn examples_survive_json() {
    for path in examples() {
        let source = |text: String| Source { path: path.clone(), text };
        let read = parse(&[source(fs::read_to_string(&path).expect("an example"))]).expect("right");
        let written: Vec<String> = read
            .iter()
            .map(|document: Document| serde_json::to_string(&document).expect("JSON"))
            .collect();
        let again = parse(&[source(written.join("\n---\n"))])
            .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        assert_eq!(read, again, "{}", path.display());
    }
}

#[test]
fn two_slices_say_what_they_seem_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-slices.yaml");
    let documents = load(&[path]).expect("right");
    let [red, blue] = documents.routers.as_slice() else { panic!("two routers") };
    assert_eq!(red.full_name(), "red/r1");
    let Some(Choice::Ipv4 { routes, neighbours }) = red.fast_path.choice() else { panic!("ipv4") };
    assert_eq!((routes.len(), neighbours.len()), (2, 4));
    assert_eq!(red.route_interface(&routes[0]), Some(1));
    let Some(Choice::Click(click)) = blue.fast_path.choice() else { panic!("click") };
    assert!(click.text.contains("FromDevice(in)"));
    assert_eq!(click.first_line, 1);
    for (name, interface) in &blue.interfaces.0 {
        let mac = blue.mac(name, interface).to_string();
        assert!(click.text.contains(&mac), "blue.click does not know {mac}");
    }
}

/// The first configurations on the pages for beginners are valid. Later ones change them; the tests
/// of pages apply those.
#[test]
fn configurations_in_the_guide_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (page, least) in [("README.md", 1), ("docs/getting-started.md", 1)] {
        let text = fs::read_to_string(root.join(page)).expect("a page");
        let blocks: Vec<&str> =
            text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(blocks.len() >= least, "{page}");
        for block in blocks.iter().take(least) {
            let source = Source { path: page.into(), text: (*block).to_owned() };
            if let Err(problems) = parse(&[source]) {
                panic!("{}", problems.render(false));
            }
        }
    }
}
