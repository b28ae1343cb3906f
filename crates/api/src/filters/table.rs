//! Optional fields, each written once: for the type, its JSON, its schema and its reader.

use crate::decode::{Decode, Fields};

/// The default of a field: `false`, 0 or nothing.
pub(super) trait Field: Default + PartialEq {
    /// Takes it out of a mapping.
    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Self;

    /// Whether the field has its default, as if it were not written.
    fn is_absent(&self) -> bool {
        *self == Self::default()
    }
}

impl Field for bool {
    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Self {
        fields.optional(name).unwrap_or_default()
    }
}

impl Field for u32 {
    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Self {
        fields.optional(name).unwrap_or_default()
    }
}

impl<T: Decode + PartialEq> Field for Option<T> {
    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Self {
        fields.optional(name)
    }
}

/// Defines a type with such fields. Its function `take` reads all of them; a required field may
/// follow.
macro_rules! table {
    (
        $(#[$of:meta])*
        pub struct $name:ident {
            $($(#[$about:meta])* pub $field:ident: $kind:ty,)*
            $(required { $(#[$needed_about:meta])* pub $needed:ident: $needed_kind:ty })?
        }
    ) => {
        $(#[$of])*
        pub struct $name {
            $(
                $(#[$about])*
                #[serde(
                    default,
                    skip_serializing_if = "crate::filters::table::Field::is_absent"
                )]
                pub $field: $kind,
            )*
            $(
                $(#[$needed_about])*
                pub $needed: $needed_kind,
            )?
        }

        impl $name {
            /// Reads every field; mistakes go into the context.
            pub(super) fn take(fields: &mut crate::decode::Fields<'_, '_>) -> Self {
                Self {
                    $($field: crate::filters::table::Field::take(fields, stringify!($field)),)*
                    $($needed: fields.required(stringify!($needed)).unwrap_or_default(),)?
                }
            }
        }
    };
}

pub(super) use table;
