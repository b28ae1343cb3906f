//! `define` and `require`.

use super::Resolver;
use crate::graph::Requirement;
use crate::lexer::Config;
use crate::parser::parse_source;
use crate::quote::unquote_text;
use crate::source::{Landmark, Source};
use crate::text::{split_arguments, split_words};

/// Most libraries that one configuration may require.
const MAX_LIBRARIES: usize = 256;

impl Resolver<'_> {
    pub(super) fn define(&mut self, config: &Config) {
        for argument in split_arguments(&config.text) {
            let Some(word) = split_words(&argument.text).into_iter().next() else {
                continue;
            };
            let name = word.text.strip_prefix('$').unwrap_or_default();
            let valid =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !valid {
                let message = "bad 'define' declaration: not a variable";
                self.errors.error(&config.at, message);
                continue;
            }
            let value = argument.text.get(word.span.end..).unwrap_or_default();
            let definition = self.open.last_mut().unwrap_or(&mut self.program.file);
            if !definition.variable_names.insert(name.to_owned()) {
                let message = format!("parameter '${name}' multiply defined");
                self.errors.error(&config.at, message);
            } else {
                let pair = (name.to_owned(), value.trim().to_owned());
                definition.variables.push(pair);
            }
        }
    }

    pub(super) fn require(&mut self, config: &Config) {
        for argument in split_arguments(&config.text) {
            let words = split_words(&argument.text);
            let text = |i: usize| words.get(i).and_then(|word| unquote_text(&word.text));
            let Some(first) = text(0) else { continue };
            let (kind, value) = match (first.as_str(), words.len(), text(1)) {
                ("compact_config", 1, _) => (first, String::new()),
                ("package", 2, Some(value)) => (first, value),
                ("library", 2, Some(value)) => {
                    self.require_library(&value, &config.at);
                    continue;
                }
                ("compact_config" | "package" | "library", _, _) => {
                    self.errors.error(&config.at, "syntax error at requirement");
                    continue;
                }
                // A lone name is a package.
                (_, 1, _) => ("package".to_owned(), first),
                _ => {
                    self.errors.error(&config.at, "syntax error at requirement");
                    continue;
                }
            };
            self.program.requirements.push(Requirement { kind, value });
        }
    }

    fn require_library(&mut self, name: &str, at: &Landmark) {
        if !self.open.is_empty() {
            let message = "'require library' must be used at file scope";
            self.errors.error(at, message);
            return;
        }
        let Some((file, text)) = self.library.and_then(|load| load(name)) else {
            let message = format!("library '{name}' not found in CLICKPATH/conf");
            self.errors.error(at, message);
            return;
        };
        if self.libraries.contains(&file) {
            return;
        }
        if self.libraries.len() >= MAX_LIBRARIES {
            self.errors.error(at, "too many libraries");
            return;
        }
        self.libraries.push(file.clone());
        let (ast, errors) = parse_source(&Source::new(&file, &text));
        self.errors.append(errors);
        self.program.warnings.append(ast.warnings.clone());
        self.statements(&ast.statements);
    }
}
