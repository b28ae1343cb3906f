//! The table of the arguments that a class takes.

/// How an argument is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// By position or keyword; it must be there.
    Mandatory,
    /// By position or keyword; it may be left out.
    Positional,
    /// By keyword; it may be left out.
    Keyword,
    /// By keyword; it must be there.
    MandatoryKeyword,
    /// All other arguments: each is one value.
    Rest,
}

/// An argument that a class takes, as [`arguments!`](macro@crate::arguments) lists it.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its keyword.
    pub name: &'static str,
    /// Other keywords for it.
    pub also: &'static [&'static str],
    /// How it is given.
    pub given: Given,
    /// The accepted values, to be read after "expected".
    pub wanted: &'static str,
    /// Writes the value of an element that does not get the argument; `None` if there is no such
    /// value.
    pub default: Option<fn() -> String>,
    /// Whether its value changes nothing.
    pub ignored: bool,
    /// Whether it is any number of such values with spaces between them.
    pub list: bool,
    /// The arguments that this entry stands for, if it stands for a set of them.
    pub set: &'static [Argument],
}

impl Argument {
    const fn new(name: &'static str, given: Given, wanted: &'static str) -> Argument {
        let (also, set): (&[&str], &[Argument]) = (&[], &[]);
        Argument { name, also, given, wanted, default: None, ignored: false, list: false, set }
    }

    /// One that must be there, by position or keyword.
    pub const fn mandatory(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Mandatory, wanted)
    }

    /// One that may be left out, by position or keyword.
    pub const fn positional(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Positional, wanted)
    }

    /// One that may be left out, by keyword.
    pub const fn keyword(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Keyword, wanted)
    }

    /// One that must be there, by keyword.
    pub const fn mandatory_keyword(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::MandatoryKeyword, wanted)
    }

    /// A list of words, which must be there, by position or keyword.
    pub const fn mandatory_list(name: &'static str, wanted: &'static str) -> Argument {
        Argument { list: true, ..Argument::new(name, Given::Mandatory, wanted) }
    }

    /// A list of words, which may be left out, by position or keyword.
    pub const fn positional_list(name: &'static str, wanted: &'static str) -> Argument {
        Argument { list: true, ..Argument::new(name, Given::Positional, wanted) }
    }

    /// A list of words, which may be left out, by keyword.
    pub const fn keyword_list(name: &'static str, wanted: &'static str) -> Argument {
        Argument { list: true, ..Argument::new(name, Given::Keyword, wanted) }
    }

    /// All other arguments, each a value of this type.
    pub const fn each(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Rest, wanted)
    }

    /// All other arguments, which the element reads itself.
    pub const fn rest(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Rest, wanted)
    }

    /// The arguments of a set: see [`ArgumentSet`].
    pub const fn of(set: &'static [Argument]) -> Argument {
        Argument { set, ..Argument::new("", Given::Keyword, "") }
    }

    /// The same with other keywords.
    #[must_use]
    pub const fn also(self, also: &'static [&'static str]) -> Argument {
        Argument { also, ..self }
    }

    /// The same with a value for elements that do not get it.
    #[must_use]
    pub const fn default(self, text: fn() -> String) -> Argument {
        Argument { default: Some(text), ..self }
    }

    /// The same, whose value changes nothing.
    #[must_use]
    pub const fn ignored(self) -> Argument {
        Argument { ignored: true, ..self }
    }

    /// How it is given, in words.
    pub const fn by(&self) -> &'static str {
        match self.given {
            Given::Mandatory | Given::Positional => "position or keyword",
            Given::Keyword | Given::MandatoryKeyword => "keyword",
            Given::Rest => "position, any number",
        }
    }

    /// The value of an element that does not get it, in words.
    pub fn without(&self) -> String {
        match (self.given, self.default) {
            (Given::Mandatory | Given::MandatoryKeyword, _) => "required".to_owned(),
            _ if self.ignored => "no effect".to_owned(),
            (_, Some(default)) => default(),
            (_, None) => String::new(),
        }
    }

    /// All arguments of a table, those of sets in their places.
    pub fn all(table: &'static [Argument]) -> Vec<&'static Argument> {
        let own = |argument: &'static Argument| match argument.set {
            [] => vec![argument],
            set => Argument::all(set),
        };
        table.iter().flat_map(own).collect()
    }

    /// Whether a table has this keyword.
    pub(crate) fn is_keyword(table: &[Argument], word: &str) -> bool {
        table.iter().any(|argument| {
            let by_keyword = argument.given != Given::Rest;
            by_keyword && (argument.name == word || argument.also.contains(&word))
                || Argument::is_keyword(argument.set, word)
        })
    }
}

/// Arguments that several classes have in common. [`arguments!`](macro@crate::arguments) writes it with
/// `set` in front; a table names it in a line `set TYPE => PLACE;`.
pub trait ArgumentSet {
    /// The table.
    const ARGUMENTS: &'static [Argument];

    /// Reads them.
    ///
    /// # Errors
    /// The argument and its mistake.
    fn read_arguments(
        &mut self,
        given: &mut crate::Arguments<'_>,
    ) -> Result<(), crate::ConfigError>;
}
