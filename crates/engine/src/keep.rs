//! The state that a hot swap keeps.

/// Writes `take_state` of an element: what it takes from the element of the same name and class in
/// the previous router.
///
/// ```text
/// keep! { this, old if old.mac == this.mac;
///     waiting, drops;
///     then { this.share.set(this.waiting.len()); }
/// }
/// ```
///
/// The first line has the two elements' names in the code, and a condition if there is one. The
/// next has the fields whose values go over; the old element gets the new one's. `then` does the
/// rest.
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
