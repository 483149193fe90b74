//! Macro for enums whose variants have a number and a name.

/// Declares an enum with the number and the name of each variant.
macro_rules! named_enum {
    ($(#[$about:meta])* $vis:vis enum $Enum:ident {
        $($(#[$doc:meta])* $Variant:ident = $number:literal $name:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        $vis enum $Enum {
            $($(#[$doc])* $Variant = $number,)+
        }

        impl $Enum {
            /// All variants.
            $vis const ALL: [Self; [$($number),+].len()] = [$(Self::$Variant),+];

            /// Returns the name of the variant.
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }

            /// Returns the variant of this name, in upper or lower case.
            $vis fn from_name(name: &str) -> Option<Self> {
                let has_name = |variant: &Self| variant.name().eq_ignore_ascii_case(name);
                Self::ALL.into_iter().find(has_name)
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use named_enum;
