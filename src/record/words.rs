//! Enumerations that are written as words.

/// An enum whose variants are written as one word each, in JSON and elsewhere.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal) { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }
        $(or { $($alias:literal => $of:ident,)+ })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All variants.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word in the files.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            fn all_words() -> String {
                let words: Vec<&str> = $name::ALL.iter().map(|word| word.as_str()).collect();
                words.join(", ")
            }
        }

        // Accepts only the word. The derived implementation would also accept an object.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                let expected = std::fmt::from_fn(|f| write!(f, "one of {}", $name::all_words()));
                $crate::record::from_text(from, expected, |word| match word {
                    $($($alias => Ok($name::$of),)+)?
                    _ => word.parse(),
                })
            }
        }

        #[cfg(feature = "wire")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let words = $name::ALL.iter().map(|word| word.as_str());
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some(words))
                    .into()
            }
        }

        #[cfg(feature = "wire")]
        impl utoipa::ToSchema for $name {}

        #[cfg(feature = "cli")]
        impl clap::ValueEnum for $name {
            fn value_variants<'a>() -> &'a [$name] {
                $name::ALL
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                Some(self.as_str().into())
            }
        }

        impl $crate::record::declare::Word for $name {
            const WORDS: &'static [&'static str] = &[$($word,)+];

            fn word(&self) -> &str {
                self.as_str()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<$name> for &'static str {
            fn from(word: $name) -> &'static str {
                word.as_str()
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> String {
                word.as_str().to_owned()
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::Error;

            fn try_from(word: &str) -> $crate::Result<$name> {
                word.parse()
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(word: &str) -> $crate::Result<$name> {
                let found = $name::ALL.iter().copied().find(|known| known.as_str() == word);
                found.ok_or_else(|| {
                    let (what, known) = ($what, $name::all_words());
                    let word: String = word.chars().take(80).collect();
                    $crate::Error::invalid(format!("unknown {what} {word:?}: give one of {known}"))
                })
            }
        }
    };
}

pub(crate) use words;
