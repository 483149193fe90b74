//! Enums of words.

/// Declares an enum by its numbers and names.
macro_rules! words {
    ($(#[$about:meta])* $vis:vis enum $words:ident {
        $($(#[$doc:meta])* $word:ident = $number:literal $name:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        $vis enum $words {
            $($(#[$doc])* $word = $number,)+
        }

        impl $words {
            /// All of them.
            $vis const ALL: [Self; [$($number),+].len()] = [$(Self::$word),+];

            /// Returns its name.
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$word => $name,)+
                }
            }

            /// Returns the one of this name, in any case.
            $vis fn named(name: &str) -> Option<Self> {
                let named = |word: &Self| word.name().eq_ignore_ascii_case(name);
                Self::ALL.into_iter().find(named)
            }
        }

        impl std::fmt::Display for $words {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use words;
