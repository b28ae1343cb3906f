//! Handlers as a table.

/// Writes `handlers`, `read` and `write` of an element from a table, a line a handler:
///
/// ```text
/// handlers! { this, context, value;
///     read "count" => this.count;
///     both "rate" => this.rate;
///     both "active" [CHECKBOX] => this.active, set { this.active = on(value)?; };
///     button "reset" => this.count = 0;
/// }
/// ```
///
/// The first line names the element, its context and the written text for the other lines. `read`
/// shows a value; `both` shows a field and writes a parsed value to it, or runs the code after
/// `set`; `write` and `button` run code.
#[macro_export]
macro_rules! handlers {
    ($this:ident, $context:ident, $value:ident;
        $($kind:ident $name:literal $([$($flag:ident)+])? => $what:expr $(, set $set:expr)?;)*) => {
        fn handlers(&self) -> &'static [$crate::Handler] {
            const { &[$($crate::Handler::$kind($name)$($(.with($crate::Flags::$flag))+)?),*] }
        }

        #[allow(unused_variables, reason = "not every table needs all names")]
        fn read(
            &mut self,
            handler: &str,
            $value: &str,
            $context: &mut $crate::Context<'_>,
        ) -> Result<String, $crate::HandlerError> {
            let $this = self;
            match handler {
                $($name => $crate::handlers!(@read $kind handler, $what),)*
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
            match handler {
                $($name => $crate::handlers!(
                    @write $kind handler, $value, $what $(, $set)?
                ),)*
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
    (@write both $handler:ident, $value:ident, $what:expr, $set:expr) => { $set };
    (@write read $handler:ident, $value:ident, $what:expr) => {
        return Err($crate::HandlerError::ReadOnly($handler.to_owned()))
    };
    (@write $kind:ident $handler:ident, $value:ident, $what:expr) => { $what };
}
