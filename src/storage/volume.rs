//! The file system that a directory is on.

/// The file system that holds a store.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Volume {
    /// Its type, as the system names it: `ext4`, `nfs4`, `fuse.sshfs`.
    pub file_system: String,
    /// Whether other machines may write to it. This machine's locks do not exclude them.
    pub is_network: bool,
    /// Number of bytes that can still be written to it.
    pub free_bytes: u64,
}

/// The file system of a directory, or of its nearest existing ancestor.
#[cfg(target_os = "linux")]
pub(super) fn volume_of(dir: &std::path::Path) -> std::io::Result<Option<Volume>> {
    use std::fs;
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use rustix::fs::{major, minor, statvfs};

    use super::uninterrupted;

    // The only ancestor of a relative path is the working directory.
    let here = Path::new(".");
    let is_empty = |dir: &Path| dir.as_os_str().is_empty();
    let above = dir
        .ancestors()
        .map(|dir| if is_empty(dir) { here } else { dir });
    for dir in above {
        let metadata = match uninterrupted(|| fs::metadata(dir)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            // The error is reported when the path is opened.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            metadata => metadata?,
        };
        let device = format!("{}:{}", major(metadata.dev()), minor(metadata.dev()));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let found = uninterrupted(|| Ok(statvfs(dir)?))?;
        let file_system = type_of(&mounts, &device).unwrap_or("unknown").to_owned();
        return Ok(Some(Volume {
            is_network: is_network(&file_system),
            file_system,
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        }));
    }
    Ok(None)
}

/// Not implemented for this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn volume_of(_: &std::path::Path) -> std::io::Result<Option<Volume>> {
    Ok(None)
}

/// The type of the file system on a device, from the text of `/proc/self/mountinfo`. If several are
/// mounted there, the last one.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn type_of<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let mut on_device = mounts.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_it = mount.split(' ').nth(2) == Some(device);
        is_it.then(|| file_system.split(' ').next()).flatten()
    });
    on_device.next_back()
}

/// Whether other machines may write to a file system of this type. An unknown FUSE type counts as
/// local: most of them encrypt, merge or convert a local disk.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn is_network(file_system: &str) -> bool {
    const NETWORK: &str = "9p acfs afs beegfs ceph cifs coda davfs gfs2 glusterfs gpfs lustre ncpfs nfs \
        nfs4 ocfs2 orangefs prl_fs pvfs2 smb3 smbfs vboxsf virtiofs vmhgfs";
    const FUSE: &str = "afp blobfuse blobfuse2 ceph curlftpfs davfs2 gcsfuse glusterfs goofys grpcfuse \
        hdfs httpdirfs juicefs mount-s3 osxfs rclone s3fs sshfs vmhgfs-fuse webdavfs";
    match file_system.strip_prefix("fuse.") {
        Some(which) => FUSE
            .split(' ')
            .any(|known| known.eq_ignore_ascii_case(which)),
        None => NETWORK.split(' ').any(|known| known == file_system),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:50 / /mnt/a\\040b rw - nfs4 server:/a rw,vers=4.2
41 27 0:51 / /mnt/s rw,nosuid shared:7 master:1 - fuse.sshfs me@host: rw,user_id=0
42 27 0:52 / /mnt/e rw - fuse.gocryptfs /home/me/.e rw
43 27 0:50 / /mnt/over rw - tmpfs none rw
a line that is cut";

    #[test]
    fn the_type_is_found_by_the_device() {
        assert_eq!(type_of(MOUNTS, "254:0"), Some("ext4"));
        assert_eq!(type_of(MOUNTS, "0:51"), Some("fuse.sshfs"));
        assert_eq!(type_of(MOUNTS, "0:50"), Some("tmpfs"));
        assert_eq!(type_of(MOUNTS, "9:9"), None);
        assert_eq!(type_of("", "254:0"), None);
    }

    #[test]
    fn other_machines_file_systems_are_known() {
        for remote in [
            "nfs",
            "nfs4",
            "cifs",
            "9p",
            "virtiofs",
            "fuse.sshfs",
            "fuse.GlusterFS",
        ] {
            assert!(is_network(remote), "{remote}");
        }
        for local in [
            "ext4",
            "xfs",
            "btrfs",
            "tmpfs",
            "overlay",
            "fuseblk",
            "fuse.gocryptfs",
            "unknown",
        ] {
            assert!(!is_network(local), "{local}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_to_come_lies_where_the_one_above_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let known = volume_of(dir.path()).unwrap().unwrap();
        let to_come = volume_of(&dir.path().join("a/b/c")).unwrap().unwrap();
        assert_eq!(known.file_system, to_come.file_system);
        assert!(!known.is_network && known.free_bytes > 0);
        assert!(
            volume_of(std::path::Path::new("not-there/store"))
                .unwrap()
                .is_some()
        );
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(volume_of(&file.join("store")).unwrap(), None);
    }
}
