//! Mistakes in a user's file: message, place and remedy.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError,
    MietteSpanContents, NamedSource, SourceCode, SourceSpan, SpanContents,
};

use crate::source::{Place, Source};

/// Most mistakes of a configuration that are listed: more of them have a common cause.
pub const MOST_PROBLEMS: usize = 50;

/// Longest line, in bytes, that is shown whole. Of a longer, generated line only a piece is shown.
/// The library that draws reports panics if a place is more than 65,535 columns from the left.
const MOST_LINE_BYTES: usize = 1000;
/// Bytes of a piece before the place, and after its beginning.
const PIECE_BYTES: (usize, usize) = (60, 120);

/// One mistake.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The mistake.
    pub message: String,
    /// Its place.
    pub place: Place,
    /// The label under the underlined text.
    pub label: String,
    /// Further places, each with a label.
    pub also: Vec<(Place, String)>,
    /// A remedy.
    pub help: Option<String>,
    file: Option<Arc<NamedSource<String>>>,
    /// The piece of a long line that is shown in place of whole lines.
    piece: Option<Box<Piece>>,
}

/// A part of one long line of a file.
#[derive(Clone, Debug)]
struct Piece {
    file: Arc<NamedSource<String>>,
    shown: Range<usize>,
}

impl SourceCode for Piece {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        // Without context lines, the report shows the place's line and column.
        if lines_before + lines_after == 0 {
            return self.file.read_span(span, 0, 0);
        }
        let (text, Range { start, end }) = (self.file.inner().as_str(), self.shown.clone());
        let shown = text.get(start..end).ok_or(MietteError::OutOfBounds)?;
        let line = text.get(..start).unwrap_or("").matches('\n').count();
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.name().to_owned(),
            shown.as_bytes(),
            (start, end - start).into(),
            line,
            0,
            1,
        )))
    }
}

/// The piece of a file around a place that is shown, if one of these places is in or near a long
/// line.
fn piece(file: &Arc<NamedSource<String>>, place: Place, all: &[Place]) -> Option<Box<Piece>> {
    let text = file.inner().as_str();
    let around = |place: &Place| {
        let (start, end) = (place.start as usize, place.end as usize);
        let before = text.get(..start)?.rmatch_indices('\n').nth(1).map_or(0, |(at, _)| at + 1);
        let rest = text.get(end..)?;
        let after = rest.match_indices('\n').nth(1).map_or(text.len(), |(at, _)| end + at);
        text.get(before..after)
    };
    let is_long = |lines: &str| lines.lines().any(|line| line.len() > MOST_LINE_BYTES);
    if !all.iter().filter_map(around).any(is_long) {
        return None;
    }
    let start = place.start as usize;
    let line_start = text.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
    let line_end = text.get(start..)?.find('\n').map_or(text.len(), |at| start + at);
    let (before, after) = PIECE_BYTES;
    let from = text.ceil_char_boundary(start.saturating_sub(before).max(line_start));
    let to = text.floor_char_boundary((start + after).min(line_end));
    Some(Box::new(Piece { file: file.clone(), shown: from..to }))
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
            piece: None,
        }
    }

    /// Sets the label under the underlined text.
    pub fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = label.into();
        self
    }

    /// Adds a remedy.
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
        match &self.piece {
            Some(piece) => Some(&**piece),
            None => self.file.as_deref().map(|file| file as &dyn SourceCode),
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = |place: Place| {
            let (start, end) = (place.start as usize, place.end as usize);
            let end = self.piece.as_ref().map_or(end, |piece| end.min(piece.shown.end));
            (start, end.saturating_sub(start))
        };
        let main = LabeledSpan::new_primary_with_span(Some(self.label.clone()), span(self.place));
        let also = self
            .also
            .iter()
            // A report shows one file, or a piece of a line; other places are listed in the help.
            .filter(|(place, _)| place.source == self.place.source && self.piece.is_none())
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
    /// Makes a list of the mistakes in these texts.
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
            let also = problem.also.iter().map(|(place, _)| *place);
            let here: Vec<Place> = std::iter::once(problem.place)
                .chain(also.filter(|place| place.source == problem.place.source))
                .collect();
            problem.piece =
                problem.file.as_ref().and_then(|file| piece(file, problem.place, &here));
            let elsewhere: Vec<String> = problem
                .also
                .iter()
                .filter(|(place, _)| {
                    place.source != problem.place.source || problem.piece.is_some()
                })
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
        // Text that users copy must stay on one line: no break after a hyphen or in a path.
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
