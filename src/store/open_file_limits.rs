//! How many files a handle keeps open: it shares what the system allows its process with whatever
//! else that does.

use crate::storage::open_files_max;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFiles {
    /// Segments to append to.
    pub append: usize,
    /// Segments that were appended to, until they are synced.
    pub dirty: usize,
    /// Segments to read from.
    pub read: usize,
}

impl OpenFiles {
    /// By what the system allows now.
    pub(super) fn allowed() -> OpenFiles {
        OpenFiles::of(open_files_max())
    }

    fn of(limit: usize) -> OpenFiles {
        let few = (limit / 16).clamp(2, 64);
        OpenFiles {
            append: few,
            dirty: few,
            read: (limit / 8).clamp(4, 128),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_at_the_most_of_what_the_system_allows() {
        for limit in [40, 256, 1024, 1 << 20, usize::MAX] {
            let OpenFiles {
                append,
                dirty,
                read,
            } = OpenFiles::of(limit);
            assert!(append + dirty + read <= limit / 4, "{limit}");
        }
        let usual = OpenFiles::of(1024);
        assert_eq!((usual.append, usual.dirty, usual.read), (64, 64, 128));
    }
}
