//! Macro for structs that declare a default value next to each field.

/// Declares a struct and its `Default`: each field is followed by its default.
#[macro_export]
macro_rules! with_defaults {
    (
        $(#[$about:meta])*
        $seen:vis struct $name:ident {
            $($(#[$doc:meta])* $field_seen:vis $field:ident: $kind:ty = $default:expr,)+
        }
    ) => {
        $(#[$about])*
        $seen struct $name {
            $($(#[$doc])* $field_seen $field: $kind,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)+
                }
            }
        }
    };
}
