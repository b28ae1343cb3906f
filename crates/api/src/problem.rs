//! Mistakes in a user's file: what, where, and what might help.

use std::fmt;
use std::sync::Arc;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};

use crate::source::{Place, Source};

/// Most mistakes of a configuration that are told one by one: who has more has another
/// trouble than each of them.
pub const MOST_PROBLEMS: usize = 50;

/// One mistake.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub place: Place,
    /// What stands under the underlined text.
    pub label: String,
    /// Further places and what is there.
    pub also: Vec<(Place, String)>,
    /// What might help.
    pub help: Option<String>,
    file: Option<Arc<NamedSource<String>>>,
}

impl Problem {
    /// A mistake at `place`.
    pub fn new(place: Place, message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            place,
            label: "here".to_owned(),
            also: Vec::new(),
            help: None,
            file: None,
        }
    }

    /// Says what stands under the underlined text.
    pub fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = label.into();
        self
    }

    /// Adds what might help.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Shows another place.
    pub fn also(mut self, place: Place, label: impl Into<String>) -> Problem {
        self.also.push((place, label.into()));
        self
    }

    /// The name of the file it is in.
    pub fn file(&self) -> &str {
        self.file.as_ref().map_or("", |file| file.name())
    }

    /// Line and column, counted from 1.
    pub fn line_column(&self) -> (usize, usize) {
        let text = self.file.as_ref().map_or("", |file| file.inner().as_str());
        let before = text.get(..self.place.start as usize).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.file.as_deref().map(|file| file as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = |place: Place| (place.start as usize, (place.end - place.start) as usize);
        let main = LabeledSpan::new_primary_with_span(Some(self.label.clone()), span(self.place));
        let also = self
            .also
            .iter()
            // A report shows one file; what is in another one is said in the help.
            .filter(|(place, _)| place.source == self.place.source)
            .map(move |(place, label)| {
                LabeledSpan::new_with_span(Some(label.clone()), span(*place))
            });
        Some(Box::new(std::iter::once(main).chain(also)))
    }
}

/// Every mistake that was found, in the order of the files.
#[derive(Debug)]
pub struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    /// These mistakes in these texts.
    pub fn new(mut list: Vec<Problem>, sources: &[Source]) -> Problems {
        let files: Vec<Arc<NamedSource<String>>> = sources
            .iter()
            .map(|s| Arc::new(NamedSource::new(s.path.display().to_string(), s.text.clone())))
            .collect();
        list.sort_by_key(|problem| problem.place);
        let more = list.len().saturating_sub(MOST_PROBLEMS);
        if more > 1 {
            list.truncate(MOST_PROBLEMS + 1);
            if let Some(last) = list.pop() {
                let message = format!("{more} more mistakes, which are not shown");
                let help = "mend those above first";
                list.push(Problem::new(last.place, message).label("the next one").help(help));
            }
        }
        for problem in &mut list {
            problem.file = files.get(problem.place.source as usize).cloned();
            let elsewhere: Vec<String> = problem
                .also
                .iter()
                .filter(|(place, _)| place.source != problem.place.source)
                .filter_map(|(place, label)| {
                    let file = files.get(place.source as usize)?;
                    let line = file.inner().get(..place.start as usize)?.matches('\n').count() + 1;
                    Some(format!("{}:{line}: {label}", file.name()))
                })
                .collect();
            if !elsewhere.is_empty() {
                let help = problem.help.take().into_iter().chain(elsewhere);
                problem.help = Some(help.collect::<Vec<_>>().join("\n"));
            }
        }
        Problems { list }
    }

    /// The mistakes, in the order of the files.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// All mistakes with file, line, underlined text and hint.
    pub fn render(&self, colour: bool) -> String {
        let theme =
            if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        // What is to be typed must stay in one piece: no break after a hyphen, nor in a path.
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_word_splitter(textwrap::WordSplitter::NoHyphenation)
            .with_break_words(false);
        let mut out = String::new();
        for problem in &self.list {
            if handler.render_report(&mut out, problem).is_err() {
                out.push_str(&problem.message);
            }
            out.push('\n');
        }
        out
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.as_slice() {
            [only] => write!(f, "{}:{}: {only}", only.file(), only.line_column().0),
            many => write!(f, "{} mistakes in the configuration", many.len()),
        }
    }
}

impl std::error::Error for Problems {}

impl Diagnostic for Problems {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}
