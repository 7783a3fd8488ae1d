//! Enums whose values are fixed words in files, on the command line and in tables.

/// The text is not in the list of words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a known word")]
pub struct UnknownWord(pub String);

/// Defines an enum of words, with all values in order, the word of each, and parsing.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$about:meta])* $value:ident = $word:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$about])* $value),* }

        impl $name {
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];
            pub const WORDS: [&'static str; Self::ALL.len()] = [$($word),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::base::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let mut all = Self::ALL.into_iter();
                all.find(|value| value.as_str() == text)
                    .ok_or_else(|| $crate::base::words::UnknownWord(text.to_owned()))
            }
        }
    };
}

pub(crate) use words;
