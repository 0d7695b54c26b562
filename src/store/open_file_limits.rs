//! The number of files that a handle keeps open: a share of the process's limit.

use crate::storage::open_files_max;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFileLimits {
    /// Segments open for append.
    pub append: usize,
    /// Segments that wait for a sync.
    pub dirty: usize,
    /// Segments open for reading.
    pub read: usize,
}

impl OpenFileLimits {
    /// The limits for what the system allows now.
    pub(super) fn allowed() -> OpenFileLimits {
        OpenFileLimits::of(open_files_max())
    }

    fn of(limit: usize) -> OpenFileLimits {
        let few = (limit / 16).clamp(2, 64);
        OpenFileLimits {
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
            let OpenFileLimits {
                append,
                dirty,
                read,
            } = OpenFileLimits::of(limit);
            assert!(append + dirty + read <= limit / 4, "{limit}");
        }
        let usual = OpenFileLimits::of(1024);
        assert_eq!((usual.append, usual.dirty, usual.read), (64, 64, 128));
    }
}
