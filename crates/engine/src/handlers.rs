//! Handlers as a table.

/// Writes `handlers`, `read` and `write` of an element from a table with a line for each handler:
///
/// ```text
/// handlers! { this, context, value, name;
///     read "count" => this.count;
///     both "rate" => this.rate;
///     both "active" [CHECKBOX] => this.active, set { this.active = on(value)?; };
///     both "capacity" => this.capacity, argument "CAPACITY" 0;
///     button "reset" => this.count = 0;
///     _ => this.read_own(name, value)?, set this.write_own(name, value)?;
/// }
/// ```
///
/// The first line names variables: the element, its context, the written text or the parameter of a
/// read, and, if lines need it, the handler's name. `read` shows a value. `both` shows a place and
/// writes a parsed value to it, or runs the code behind `set`. `write` and `button` run code. A
/// write to a handler with `argument` configures the element again with this argument, by keyword
/// or position ([`Element::reconfigure`](crate::Element::reconfigure)). The last line may be for
/// handlers whose names are known only from the configuration
/// ([`Element::dynamic_handler`](crate::Element::dynamic_handler)). `?` and `return Err(…)` report
/// mistakes.
#[macro_export]
macro_rules! handlers {
    ($this:ident, $context:ident, $value:ident $(, $own:ident)?;
        $($kind:ident $name:literal $([$($flag:ident)+])? => $what:expr
            $(, set $set:expr)? $(, argument $keyword:literal $position:literal)?;)*
        $(_ => $other:expr, set $other_set:expr;)?) => {
        fn handlers(&self) -> &'static [$crate::Handler] {
            const { &[$(
                $crate::Handler::$kind($name)
                    $($(.with($crate::Flags::$flag))+)?
                    $(.argument($keyword, Some($position)))?
            ),*] }
        }

        #[allow(unused_variables, reason = "not every table needs all names")]
        fn read(
            &mut self,
            handler: &str,
            $value: &str,
            $context: &mut $crate::Context<'_>,
        ) -> Result<String, $crate::HandlerError> {
            let $this = self;
            $(let $own = handler;)?
            match handler {
                $($name => $crate::handlers!(@read $kind handler, $what),)*
                $(_ => Ok($other.to_string()),)?
                #[allow(unreachable_patterns, reason = "the line before may be for all others")]
                other => Err($crate::HandlerError::NotFound(other.to_owned())),
            }
        }

        #[allow(unused_variables, reason = "not every table needs all names")]
        fn write(
            &mut self,
            handler: &str,
            $value: &str,
            $context: &mut $crate::Context<'_>,
        ) -> Result<(), $crate::HandlerError> {
            let $this = self;
            $(let $own = handler;)?
            match handler {
                $($name => $crate::handlers!(
                    @write $kind handler, $value, $what $(, set $set)? $(, argument $keyword)?
                ),)*
                $(_ => $other_set,)?
                #[allow(unreachable_patterns, reason = "the line before may be for all others")]
                other => return Err($crate::HandlerError::NotFound(other.to_owned())),
            }
            #[allow(unreachable_code, reason = "a table may have nothing to write")]
            Ok(())
        }
    };
    (@read read $handler:ident, $what:expr) => { Ok($what.to_string()) };
    (@read both $handler:ident, $what:expr) => { Ok($what.to_string()) };
    (@read $kind:ident $handler:ident, $what:expr) => {
        Err($crate::HandlerError::WriteOnly($handler.to_owned()))
    };
    (@write both $handler:ident, $value:ident, $what:expr) => {
        $what = $crate::parse($handler, $value)?
    };
    (@write both $handler:ident, $value:ident, $what:expr, set $set:expr) => { $set };
    // The router configures the element again instead.
    (@write both $handler:ident, $value:ident, $what:expr, argument $keyword:literal) => {
        return Err($crate::HandlerError::ReadOnly($handler.to_owned()))
    };
    (@write read $handler:ident, $value:ident, $what:expr) => {
        return Err($crate::HandlerError::ReadOnly($handler.to_owned()))
    };
    (@write $kind:ident $handler:ident, $value:ident, $what:expr) => { $what };
}
