//! Handlers: named values of elements that can be read and written while the router runs.

/// The abilities of a handler, and how to show it. Values are Click's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// The handler can be read.
    pub const READ: Flags = Flags(0x0001);
    /// The handler can be written.
    pub const WRITE: Flags = Flags(0x0002);
    /// Reading takes a parameter.
    pub const PARAMETER: Flags = Flags(0x0004);
    /// Control sockets do not show it.
    pub const PRIVATE: Flags = Flags(0x0020);
    /// No newline is added to the value.
    pub const RAW: Flags = Flags(0x0040);
    /// User interfaces should not show it by default.
    pub const UNCOMMON: Flags = Flags(0x0400);
    /// Its value rarely changes.
    pub const CALM: Flags = Flags(0x0800);
    /// Reading it costs a lot.
    pub const EXPENSIVE: Flags = Flags(0x1000);
    /// Writing ignores the value.
    pub const BUTTON: Flags = Flags(0x2000);
    /// Its value is true or false.
    pub const CHECKBOX: Flags = Flags(0x4000);

    /// Both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A handler of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Name, without the element's.
    pub name: &'static str,
    /// Its abilities.
    pub flags: Flags,
    /// The argument that a write changes, by keyword and position. The element is configured again
    /// with it ([`crate::Element::reconfigure`]).
    pub argument: Option<(&'static str, Option<usize>)>,
}

impl Handler {
    /// A value to read.
    pub const fn read(name: &'static str) -> Handler {
        Handler { name, flags: Flags::READ, argument: None }
    }

    /// A value to write.
    pub const fn write(name: &'static str) -> Handler {
        Handler { name, flags: Flags::WRITE, argument: None }
    }

    /// A value to read and write.
    pub const fn both(name: &'static str) -> Handler {
        Handler { name, flags: Flags::READ.with(Flags::WRITE), argument: None }
    }

    /// An action; the written value is ignored.
    pub const fn button(name: &'static str) -> Handler {
        Handler { name, flags: Flags::WRITE.with(Flags::BUTTON), argument: None }
    }

    /// The same handler, but a write configures the element with this argument changed: by keyword,
    /// and by position if possible.
    #[must_use]
    pub const fn argument(self, keyword: &'static str, position: Option<usize>) -> Handler {
        Handler { argument: Some((keyword, position)), ..self }
    }

    /// The same with these flags too.
    #[must_use]
    pub const fn with(self, flags: Flags) -> Handler {
        Handler { flags: self.flags.with(flags), ..self }
    }
}

/// Handlers that every element has.
pub(crate) const COMMON: &[Handler] = &[
    Handler::read("class").with(Flags::CALM),
    Handler::read("name").with(Flags::CALM),
    Handler::read("config").with(Flags::CALM),
    Handler::read("ports").with(Flags::CALM),
    Handler::read("handlers").with(Flags::CALM),
    Handler::read("packets"),
    Handler::read("batches").with(Flags::UNCOMMON),
];

/// Handlers of every element with a task.
pub(crate) const TASK: &[Handler] = &[
    Handler::read("scheduled"),
    Handler::both("tickets").with(Flags::CALM),
    Handler::read("home_thread").with(Flags::CALM),
];

/// Handlers of the router itself.
pub(crate) const GLOBAL: &[Handler] = &[
    Handler::read("version").with(Flags::CALM),
    Handler::read("list").with(Flags::CALM),
    Handler::read("handlers").with(Flags::CALM),
    Handler::read("graph").with(Flags::UNCOMMON),
    Handler::read("super_packets").with(Flags::UNCOMMON),
    Handler::both("trace").with(Flags::UNCOMMON),
    Handler::write("stop").with(Flags::BUTTON),
];

/// The letters with which Click's `handlers` handler shows a handler's abilities.
pub(crate) fn letters(flags: Flags) -> String {
    let letters = [
        (Flags::READ, 'r'),
        (Flags::WRITE, 'w'),
        (Flags::PARAMETER, '+'),
        (Flags::RAW, '%'),
        (Flags::CALM, '.'),
        (Flags::EXPENSIVE, '$'),
        (Flags::UNCOMMON, 'U'),
        (Flags::BUTTON, 'b'),
        (Flags::CHECKBOX, 'c'),
    ];
    letters.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, letter)| *letter).collect()
}

/// The reason why a handler could not be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// There is no such element.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// There is no such handler.
    #[error("no '{0}' handler")]
    NotFound(String),
    /// The element is running just now.
    #[error("element '{0}' waits for this call and cannot answer")]
    Busy(String),
    /// The handler can only be written.
    #[error("'{0}' is a write handler")]
    WriteOnly(String),
    /// The handler can only be read.
    #[error("'{0}' is a read handler")]
    ReadOnly(String),
    /// The value is invalid.
    #[error("{handler}: expected {wanted}, found '{found}'")]
    Value {
        /// Name of the handler.
        handler: String,
        /// The written value.
        found: String,
        /// The accepted values.
        wanted: &'static str,
    },
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

impl HandlerError {
    /// The value written to `handler` is not `wanted`.
    pub fn value(handler: &str, found: &str, wanted: &'static str) -> HandlerError {
        HandlerError::Value { handler: handler.to_owned(), found: found.to_owned(), wanted }
    }
}
