//! Macro for structs that declare a default value next to each field.

/// Declares a struct and its `Default`: each field is followed by its default.
#[macro_export]
macro_rules! with_defaults {
    (
        $(#[$struct_attribute:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $field_type:ty = $default:expr,
            )+
        }
    ) => {
        $(#[$struct_attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $field_type,)+
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
