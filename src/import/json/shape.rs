//! Objects of which only some members are read.

/// Declares objects by the names of their members, which may have any type.
macro_rules! shapes {
    ($($(#[$doc:meta])* $shape:ident { $($member:ident: $name:literal,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
            pub(in crate::import) struct $shape<'a> {
                $(
                    #[serde(borrow, rename = $name)]
                    pub(in crate::import) $member: $crate::import::json::Raw<'a>,
                )+
            }

            impl<'a> $crate::import::json::Shape<'a> for $shape<'a> {
                const NAMES: &'static [&'static str] = &[$($name),+];

                fn place(name: &str) -> Option<usize> {
                    let mut place = 0;
                    $(
                        if name == $name {
                            return Some(place);
                        }
                        place += 1;
                    )+
                    let _ = place;
                    None
                }

                fn take(
                    &mut self,
                    name: usize,
                    cursor: &mut $crate::import::json::Cursor<'a>,
                ) -> Option<()> {
                    let raw = cursor.raw()?;
                    let mut member = 0;
                    $(
                        if member == name {
                            self.$member = raw;
                            return Some(());
                        }
                        member += 1;
                    )+
                    let _ = member;
                    None
                }
            }
        )+
    };
}

pub(in crate::import) use shapes;
