//! Arguments as a table.

use crate::argument::ArgumentSet;
use crate::arguments::Arguments;
use crate::config_error::ConfigError;

/// Writes `arguments` and `configure` of an element from a table with a line for each argument:
///
/// ```text
/// arguments! { this, given;
///     mandatory "COLOR": u8 => this.colour;
///     positional "BURST": usize = 32 => this.burst;
///     keyword "LIMIT": u64 => this.limit;
///     keyword "RATE": Bandwidth = Bandwidth(0) => Bandwidth(this.rate);
///     keyword "QUIET" | "SILENT": bool => _;
///     let prefix = positional "PREFIX": Ipv4Prefix;
///     then { (this.network, this.bits) = prefix.map_or((0, 0), |p| (p.network(), p.length)); }
/// }
/// ```
///
/// The first line names two variables: the element, and its [`Arguments`]. Each further line has
/// the kind, the keyword, the type of the value ([`Value`](crate::Value)) and the place for it:
///
/// - Kinds are the methods of [`Arguments`]: `mandatory`, `positional`, `keyword`,
///   `mandatory_keyword`. `positional_list` and similar kinds give a `Vec` of values from one
///   argument with spaces between them. `each` takes all further arguments, one value each. An
///   argument that begins with a keyword of the table is not taken by position.
/// - With a default, the place always gets a value. Without a default, an optional argument is an
///   `Option`. The default is part of the element's documentation and names no other argument.
/// - `| "WORD"` is another keyword for the same argument.
/// - The value is assigned to the place: a field, a pattern with fields, or `_` if the value has no
///   effect. `let name =` in front of the line keeps the value for later code.
/// - `, with FUNCTION` before `=>` computes the value of the place from the argument's value.
/// - `KIND "NAME": "ACCEPTED VALUES", by FUNCTION` calls a function that reads the argument, with
///   its keyword and the arguments.
/// - `let name = rest "NAME": "ACCEPTED VALUES";` gives all further arguments with their numbers to
///   the element. It is for elements whose arguments have a syntax of their own.
/// - `set TYPE => PLACE;` or `let name = set TYPE;` reads the arguments of an
///   [`ArgumentSet`](crate::ArgumentSet).
/// - `then { CODE }` checks and computes; `?` and `return Err(…)` report mistakes.
/// - `live new, context { CODE }` at the end writes `reconfigure`: `new` is another element, which
///   has read the new arguments without a mistake. The code takes over its values.
///
/// Arguments that no line names are mistakes. `arguments! { set this, given; … }` writes the items
/// of an [`ArgumentSet`](crate::ArgumentSet).
#[macro_export]
macro_rules! arguments {
    (set $this:ident, $given:ident; $($lines:tt)*) => {
        $crate::arguments!(@line set $this $given [] [] [] $($lines)*);
    };
    (@line element $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]) => {
        fn arguments(&self) -> &'static [$crate::Argument] {
            const { &[$($table)*] }
        }

        #[allow(unused_variables, reason = "not every table needs all names")]
        fn configure(
            &mut self,
            $given: &mut $crate::Arguments<'_>,
        ) -> Result<(), $crate::ConfigError> {
            $given.declare($crate::Element::arguments(self));
            let $this = self;
            $($code)*
            $given.finish()
        }

        $($live)*
    };
    (@line set $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] []) => {
        const ARGUMENTS: &'static [$crate::Argument] = &[$($table)*];

        #[allow(unused_variables, reason = "not every table needs all names")]
        fn read_arguments(
            &mut self,
            $given: &mut $crate::Arguments<'_>,
        ) -> Result<(), $crate::ConfigError> {
            let $this = self;
            $($code)*
            Ok(())
        }
    };
    // Code.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        then $block:block $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)*] [$($code)* $block] [$($live)*] $($lines)*);
    };
    // The rule for `live`: another configuration while the element runs.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] []
        live $new:ident, $context:ident $block:block $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given [$($table)*] [$($code)*] [
            #[allow(unused_variables, unused_mut, reason = "not every table needs all names")]
            fn reconfigure(
                &mut self,
                $given: &mut $crate::Arguments<'_>,
                $context: &mut $crate::Context<'_>,
            ) -> Option<Result<(), $crate::ConfigError>> {
                let mut $new = Self::default();
                let result = $crate::Element::configure(&mut $new, $given);
                if result.is_err() || $given.has_errors() {
                    return Some(result);
                }
                let $this = self;
                let mut change = || -> Result<(), $crate::ConfigError> { $block Ok(()) };
                Some(change())
            }
        ] $($lines)*);
    };
    // A set of arguments that several classes have.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        set $type:ty => $place:expr; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::Argument::of(<$type as $crate::ArgumentSet>::ARGUMENTS),]
            [$($code)* <$type as $crate::ArgumentSet>::read_arguments(&mut $place, $given)?;]
            [$($live)*] $($lines)*);
    };
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        let $value:ident = set $type:ty; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::Argument::of(<$type as $crate::ArgumentSet>::ARGUMENTS),]
            [$($code)* let $value = $given.read_set::<$type>()?;] [$($live)*] $($lines)*);
    };
    // All further arguments, unparsed.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        let $value:ident = rest $name:literal: $wanted:literal; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::Argument::rest($name, $wanted),]
            [$($code)* let $value = $given.rest();] [$($live)*] $($lines)*);
    };
    // Read by a function.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        $kind:ident $name:literal: $wanted:literal, by $by:expr => $place:expr; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::Argument::$kind($name, $wanted),]
            [$($code)* $place = $given.read_by($name, $by)?;] [$($live)*] $($lines)*);
    };
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        let $value:ident = $kind:ident $name:literal: $wanted:literal, by $by:expr;
        $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::Argument::$kind($name, $wanted),]
            [$($code)* let $value = $given.read_by($name, $by)?;] [$($live)*] $($lines)*);
    };
    // Kept for the code behind.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        let $value:ident = $kind:ident $name:literal $(| $also:literal)*: $type:ty
        $(= $default:expr)?; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::arguments!(@entry $kind $name [$($also)*] $type, $($default)?),]
            [$($code)* let $value = $crate::arguments!(
                @read $given $kind $name [$($also)*] $type, $($default)?
            );]
            [$($live)*] $($lines)*);
    };
    // Accepted, and without meaning.
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        $kind:ident $name:literal $(| $also:literal)*: $type:ty => _; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::arguments!(@entry $kind $name [$($also)*] $type,).ignored(),]
            [$($code)* $crate::arguments!(@read $given $kind $name [$($also)*] $type,);]
            [$($live)*] $($lines)*);
    };
    (@line $what:ident $this:ident $given:ident [$($table:tt)*] [$($code:tt)*] [$($live:tt)*]
        $kind:ident $name:literal $(| $also:literal)*: $type:ty $(= $default:expr)?
        $(, with $with:expr)? => $place:expr; $($lines:tt)*) => {
        $crate::arguments!(@line $what $this $given
            [$($table)* $crate::arguments!(@entry $kind $name [$($also)*] $type, $($default)?),]
            [$($code)* $place = $crate::arguments!(@with $crate::arguments!(
                @read $given $kind $name [$($also)*] $type, $($default)?
            ) $(, $with)?);]
            [$($live)*] $($lines)*);
    };
    (@entry $kind:ident $name:literal [$($also:literal)*] $type:ty, $($default:expr)?) => {
        $crate::Argument::$kind($name, <$type as $crate::Value>::WANTED)
            .also(&[$($also),*])
            $(.default(|| {
                let value: $type = $default;
                $crate::Value::text(&value).unwrap_or_else(|| stringify!($default).to_owned())
            }))?
    };
    (@read $given:ident $kind:ident $name:literal [$($also:literal)*] $type:ty,
        $($default:expr)?) => {
        $given.$kind::<$type>($name)?
            $(.or($given.keyword::<$type>($also)?))*
            $(.unwrap_or_else(|| $default))?
    };
    (@with $value:expr) => { $value };
    (@with $value:expr, $with:expr) => { $crate::Arguments::made($value, $with) };
    ($this:ident, $given:ident; $($lines:tt)*) => {
        $crate::arguments!(@line element $this $given [] [] [] $($lines)*);
    };
}

impl<'a> Arguments<'a> {
    /// Lets a function read an argument.
    ///
    /// # Errors
    /// Those of the function.
    pub fn read_by<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'static str, &mut Arguments<'a>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        read(name, self)
    }

    /// Reads a set.
    ///
    /// # Errors
    /// The argument and its mistake.
    pub fn read_set<T: ArgumentSet + Default>(&mut self) -> Result<T, ConfigError> {
        let mut set = T::default();
        set.read_arguments(self)?;
        Ok(set)
    }

    /// A value made from another.
    pub fn made<T, U>(value: T, make: impl FnOnce(T) -> U) -> U {
        make(value)
    }
}
