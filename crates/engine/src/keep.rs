//! The state that a hot swap keeps.

/// Writes `take_state` of an element: the values that it takes from the element of the same name
/// and class in the previous router.
///
/// ```text
/// keep! { this, old if old.mac == this.mac;
///     waiting, drops;
///     then { this.share.set(this.waiting.len()); }
/// }
/// ```
///
/// The first line names variables for the two elements, and has a condition if one is needed. The
/// next line lists the fields whose values are exchanged: the old element gets those of the new
/// one. `then` contains further code.
#[macro_export]
macro_rules! keep {
    ($this:ident, $old:ident $(if $condition:expr)?; then $block:block) => {
        $crate::keep!(@all $this $old [$($condition)?] [] [$block]);
    };
    ($this:ident, $old:ident $(if $condition:expr)?; $($field:ident),+; $(then $block:block)?) => {
        $crate::keep!(@all $this $old [$($condition)?] [$($field)+] [$($block)?]);
    };
    (@all $this:ident $old:ident [$($condition:expr)?] [$($field:ident)*] [$($block:block)?]) => {
        fn take_state(&mut self, old: &mut dyn $crate::Element) {
            let $this = self;
            let old: &mut dyn ::std::any::Any = old;
            let Some($old) = old.downcast_mut::<Self>() else { return };
            $(if !($condition) {
                return;
            })?
            $(::std::mem::swap(&mut $this.$field, &mut $old.$field);)*
            $($block)?
        }
    };
}
