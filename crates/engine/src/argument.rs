//! The table of the arguments that a class takes.

/// Given by position or keyword; mandatory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Given by position or keyword; mandatory.
    Mandatory,
    /// Given by position or keyword; optional.
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
    /// The accepted values, phrased to follow "expected".
    pub wanted: &'static str,
    /// Text of the value that an element has without the argument; `None` if there is no such
    /// value.
    pub default: Option<fn() -> String>,
    /// Whether the value of the argument has no effect.
    pub ignored: bool,
    /// Whether it takes any number of such values with spaces between them.
    pub list: bool,
    /// The arguments of a set, if this entry stands for a set.
    pub set: &'static [Argument],
}

impl Argument {
    const fn new(name: &'static str, given: Given, wanted: &'static str) -> Argument {
        let (also, set): (&[&str], &[Argument]) = (&[], &[]);
        Argument { name, also, given, wanted, default: None, ignored: false, list: false, set }
    }

    /// A mandatory argument, by position or keyword.
    pub const fn mandatory(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Mandatory, wanted)
    }

    /// An optional argument, by position or keyword.
    pub const fn positional(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Positional, wanted)
    }

    /// An optional argument, by keyword.
    pub const fn keyword(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::Keyword, wanted)
    }

    /// A mandatory argument, by keyword.
    pub const fn mandatory_keyword(name: &'static str, wanted: &'static str) -> Argument {
        Argument::new(name, Given::MandatoryKeyword, wanted)
    }

    /// A mandatory list of words, by position or keyword.
    pub const fn mandatory_list(name: &'static str, wanted: &'static str) -> Argument {
        Argument { list: true, ..Argument::new(name, Given::Mandatory, wanted) }
    }

    /// An optional list of words, by position or keyword.
    pub const fn positional_list(name: &'static str, wanted: &'static str) -> Argument {
        Argument { list: true, ..Argument::new(name, Given::Positional, wanted) }
    }

    /// An optional list of words, by keyword.
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

    /// The same argument with a value for elements that do not get it.
    #[must_use]
    pub const fn default(self, text: fn() -> String) -> Argument {
        Argument { default: Some(text), ..self }
    }

    /// The same argument, but its value has no effect.
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

    /// The value of an element without this argument, in words.
    pub fn without(&self) -> String {
        match (self.given, self.default) {
            (Given::Mandatory | Given::MandatoryKeyword, _) => "required".to_owned(),
            _ if self.ignored => "no effect".to_owned(),
            (_, Some(default)) => default(),
            (_, None) => String::new(),
        }
    }

    /// All arguments of a table; those of a set stand in the place of the set.
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
