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

                fn take(
                    &mut self,
                    name: usize,
                    cursor: &mut $crate::import::json::Cursor<'a>,
                ) -> Option<()> {
                    let mut members = [$(&mut self.$member),+];
                    **members.get_mut(name)? = cursor.raw()?;
                    Some(())
                }
            }
        )+
    };
}

pub(in crate::import) use shapes;
