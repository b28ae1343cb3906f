//! The element reference in `docs/elements` is generated from the comments at the top of
//! the elements' files, and `docs/cli.md` from the help of the commands. `make docs` writes them;
//! otherwise this test says when they are old.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use europa_tests::europa;

/// Sections of every page, in this order.
const SECTIONS: [&str; 6] =
    ["Synopsis", "Ports", "Description", "Arguments", "Handlers", "See also"];
const INTRODUCTION: &str = "# Elements\n\n\
    The elements of Click configurations. `FromDevice` and `ToDevice` take the names of the \
    router's interfaces.\n\n\
    | element | |\n|---|---|\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All sources of a folder and of its subfolders.
fn sources(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).expect("the elements").flatten().map(|entry| entry.path());
    paths
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(ending) if ending == "rs" => vec![fs::read_to_string(path).expect("an element")],
            _ => Vec::new(),
        })
        .collect()
}

/// Manual pages by element name, from the sources.
fn pages() -> BTreeMap<String, String> {
    let folders = ["crates/elements/src", "crates/driver/src"];
    let sources: Vec<String> = folders.iter().flat_map(|at| sources(&root().join(at))).collect();
    sources.iter().filter_map(|source| page(source)).collect()
}

/// The page at the beginning of a source, if it is an element's page.
fn page(source: &str) -> Option<(String, String)> {
    let comment: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let name = comment.first()?.strip_prefix("# ")?;
    Some((name.to_owned(), comment.join("\n") + "\n"))
}

/// A page's section.
fn section<'a>(page: &'a str, title: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("\n## {title}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim())
}

/// The table of a class's arguments, from the class itself.
fn arguments(registry: &europa_engine::Registry, class: &str) -> String {
    let arguments = registry.arguments(class);
    if arguments.is_empty() {
        return String::new();
    }
    let line = |argument: &&europa_engine::Argument| {
        let names: Vec<&str> = [argument.name].iter().chain(argument.also).copied().collect();
        let value = if argument.list { "list, each: " } else { "" }.to_owned() + argument.wanted;
        // A bar would end the table's cell.
        let (value, without) = (value.replace('|', "\\|"), argument.without().replace('|', "\\|"));
        format!("| {} | {} | {value} | {without} |\n", names.join(", "), argument.by())
    };
    let lines: String = arguments.iter().map(line).collect();
    format!("\n| argument | by | value | without it |\n|---|---|---|---|\n{lines}")
}

/// A page with the table of arguments.
fn with_arguments(registry: &europa_engine::Registry, class: &str, page: &str) -> String {
    let (before, behind) = page.split_once("\n## Handlers\n").expect("a section of handlers");
    format!("{before}{}\n## Handlers\n{behind}", arguments(registry, class))
}

/// The first sentence of what an element does.
fn summary(page: &str) -> String {
    let text = section(page, "Description").unwrap_or("").replace('\n', " ");
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    // A bar would end the table's cell.
    text[..end].replace('|', "\\|")
}

/// Every file of the reference, by name.
fn reference() -> BTreeMap<String, String> {
    let (registry, pages) = (europa_driver::registry(), pages());
    let mut categories: BTreeMap<&str, String> = BTreeMap::new();
    for (name, page) in &pages {
        let category = registry.info(name).expect("a class for each page").category;
        assert!(!category.is_empty(), "{name} has no category");
        *categories.entry(category).or_default() +=
            &format!("| [{name}]({name}.md) | {} |\n", summary(page));
    }
    let table = |(category, lines): (&&str, &String)| {
        format!("\n## {category}\n\n| element | |\n|---|---|\n{lines}")
    };
    let index = INTRODUCTION.to_owned() + &categories.iter().map(table).collect::<String>();
    let files = pages.into_iter().map(|(name, page)| {
        let page = with_arguments(&registry, &name, &page);
        (format!("{name}.md"), page)
    });
    files.chain([("README.md".to_owned(), index)]).collect()
}

/// The files of the folder.
fn written(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).expect("a page");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect()
}

#[test]
fn the_element_reference_is_current() {
    let folder = root().join("docs/elements");
    let reference = reference();
    if std::env::var_os("EUROPA_WRITE_DOCS").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("docs/elements");
        for (name, text) in &reference {
            fs::write(folder.join(name), text).expect("a page");
        }
    }
    let written = written(&folder);
    let old: Vec<&String> = reference
        .keys()
        .chain(written.keys())
        .filter(|name| reference.get(*name) != written.get(*name))
        .collect();
    assert!(old.is_empty(), "run `make docs`: not current: {old:?}");
}

#[test]
fn every_class_has_a_page_with_all_sections() {
    // Elements of the library, and those that only `europa click` has, or has in another form.
    let registry = europa_driver::registry();
    let other_names: Vec<&str> = registry.classes().flat_map(|info| info.also).copied().collect();
    let names = registry.classes().map(|info| info.name);
    let classes: Vec<&str> = names.filter(|name| !other_names.contains(name)).collect();
    let pages = pages();
    assert_eq!(pages.keys().map(String::as_str).collect::<Vec<_>>(), classes);
    for (name, page) in &pages {
        let found: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(found, SECTIONS, "{name}");
        for title in SECTIONS {
            assert!(section(page, title).is_some_and(|text| !text.is_empty()), "{name}: {title}");
        }
    }
}

const COMMANDS: &str = "# Command line\n\n\
    The help of all commands, as `europa help COMMAND` prints it (`make docs`). Manual pages have \
    the same: `man europa-COMMAND`.\n";

/// The text that `europa help` prints about a command, or about all.
fn help(command: &[&str]) -> String {
    let output = Command::new(europa())
        .arg("help")
        .args(command)
        .env("NO_COLOR", "1")
        .env_remove("EUROPA_INSTANCE")
        .output()
        .expect("europa runs");
    assert!(output.status.success(), "europa help {command:?}");
    let text = String::from_utf8(output.stdout).expect("a text");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// A help without the options and exit codes that all commands have.
fn own_part(help: &str, all: &str) -> String {
    let help = help.split("\n\nExit codes:").next().unwrap_or(help);
    let mut kept = String::new();
    let mut option = String::new();
    for line in help.lines().chain(["  -"]) {
        let starts =
            line.trim_start().starts_with('-') || !line.starts_with(' ') && !line.is_empty();
        if starts {
            let common = option.trim_start().starts_with('-') && all.contains(option.trim());
            kept += if common { "" } else { &option };
            option.clear();
        }
        option += line;
        option.push('\n');
    }
    kept.trim_end().trim_end_matches("\nOptions:").trim_end().to_owned()
}

/// The commands that a help lists, with headings between them: lines of `  NAME  TEXT`.
fn listed<'a>(help: &'a str, headings: &[&str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|line| !line.contains(' ') || inside) {
            inside = headings.is_empty() && heading != "Options" || headings.contains(&heading);
            if inside {
                groups.push((heading, Vec::new()));
            }
        } else if let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))
            && inside
            && let Some((_, commands)) = groups.last_mut()
        {
            commands.extend(name.split_whitespace().next().filter(|name| *name != "help"));
        } else if !line.is_empty() && !line.starts_with(' ') {
            inside = false;
        }
    }
    groups
}

/// The page of the command line.
fn commands() -> String {
    let all = help(&[]);
    let (options, about) = (all.find("\nOptions:\n"), all.find("\n\n").unwrap_or(0));
    let options = &all[options.expect("options")..];
    let mut page = format!("{COMMANDS}\nOptions of all commands:\n\n```text{options}\n```\n");
    assert!(about > 0, "{all}");
    for (group, names) in listed(&all, &[]) {
        page += &format!("\n## {group}\n");
        for name in names {
            let text = help(&[name]);
            let own = own_part(&text, &all);
            page += &format!("\n### europa {name}\n\n```text\n{own}\n```\n");
            for (_, inner) in listed(&text, &["Commands"]) {
                for inner in inner {
                    let text = own_part(&help(&[name, inner]), &all);
                    page += &format!("\n#### europa {name} {inner}\n\n```text\n{text}\n```\n");
                }
            }
        }
    }
    page
}

#[test]
fn the_reference_of_commands_is_current() {
    let path = root().join("docs/cli.md");
    let page = commands();
    assert!(page.matches("\n### ").count() > 30, "{page}");
    if std::env::var_os("EUROPA_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("docs/cli.md");
    }
    assert!(fs::read_to_string(&path).is_ok_and(|old| old == page), "run `make docs`: docs/cli.md");
}
