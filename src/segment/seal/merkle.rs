//! The Merkle tree of RFC 6962, section 2. Leaves and nodes are hashed with different prefixes, so
//! that neither can be taken for the other.

use sha2::Digest as _;
use sha2::Sha256;

use super::Digest;

/// The leaf hash of a line, without its LF.
pub(super) fn leaf(line: &[u8]) -> Digest {
    Digest(begun_leaf().chain_update(line).finalize().into())
}

/// A leaf hash to which the bytes of the line are still to be added.
pub(super) fn begun_leaf() -> Sha256 {
    Sha256::new().chain_update([0])
}

fn node(left: Digest, right: Digest) -> Digest {
    let hash = Sha256::new().chain_update([1]).chain_update(left.0);
    Digest(hash.chain_update(right.0).finalize().into())
}

/// A tree that is built leaf by leaf. It keeps one hash per level.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    leaves: u64,
    /// The roots of the complete subtrees, largest first: one for each bit that is set in the
    /// number of leaves.
    roots: Vec<Digest>,
}

impl Tree {
    pub(super) fn push(&mut self, leaf: Digest) {
        let whole = self.leaves.trailing_ones();
        let mut hash = leaf;
        for _ in 0..whole {
            if let Some(left) = self.roots.pop() {
                hash = node(left, hash);
            }
        }
        self.roots.push(hash);
        self.leaves += 1;
    }

    pub(super) fn root(&self) -> Digest {
        let roots = self.roots.iter().rev().copied();
        let root = roots.reduce(|right, left| node(left, right));
        root.unwrap_or_else(|| Digest::of(b""))
    }
}

/// The audit path of the leaf at `index`: the hashes that it is combined with, from the bottom up.
pub(crate) fn path(mut leaves: Vec<Digest>, mut index: usize) -> Vec<Digest> {
    let mut path = Vec::new();
    while leaves.len() > 1 {
        path.extend(leaves.get(index ^ 1));
        let pairs = leaves.chunks(2).map(|pair| match *pair {
            [left, right] => node(left, right),
            // The last node has no sibling and moves up unchanged.
            _ => pair[0],
        });
        leaves = pairs.collect();
        index /= 2;
    }
    path
}

/// The root of a tree of `count` leaves in which `leaf` is at `index` and has this audit path;
/// `None` if the path has the wrong length for that.
pub(super) fn root_of(leaf: Digest, index: u64, count: u64, path: &[Digest]) -> Option<Digest> {
    let mut last = count.checked_sub(1)?;
    let mut place = index;
    if place > last {
        return None;
    }
    let (mut hash, mut path) = (leaf, path.iter().copied());
    while last > 0 {
        if place & 1 == 1 {
            hash = node(path.next()?, hash);
        } else if place < last {
            hash = node(hash, path.next()?);
        }
        place >>= 1;
        last >>= 1;
    }
    path.next().is_none().then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The leaves of the reference tests of Certificate Transparency, and the roots of the trees of
    /// the first one, two, … of them.
    const LEAVES: [&str; 8] = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    const ROOTS: [&str; 8] = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    fn hex(text: &str) -> Vec<u8> {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        let bytes = text.as_bytes().chunks(2).map(|pair| byte(pair).unwrap());
        bytes.collect()
    }

    fn leaves(count: usize) -> Vec<Digest> {
        (0..count).map(|n| leaf(&n.to_le_bytes())).collect()
    }

    fn root(leaves: &[Digest]) -> Digest {
        let mut tree = Tree::default();
        for leaf in leaves {
            tree.push(*leaf);
        }
        tree.root()
    }

    /// A direct implementation of the RFC's definition.
    fn defined(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(b""),
            [one] => *one,
            more => {
                let half = more.len().next_power_of_two() / 2;
                let (left, right) = more.split_at(half);
                node(defined(left), defined(right))
            }
        }
    }

    #[test]
    fn roots_are_those_of_the_reference() {
        let mut tree = Tree::default();
        assert_eq!(
            tree.root().to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        for (text, root) in LEAVES.iter().zip(ROOTS) {
            tree.push(leaf(&hex(text)));
            assert_eq!(tree.root().to_string(), root);
        }
    }

    #[test]
    fn audit_paths_are_those_of_the_reference() {
        let leaves: Vec<Digest> = LEAVES.iter().map(|text| leaf(&hex(text))).collect();
        let texts = |count: usize, index| -> Vec<String> {
            let path = path(leaves[..count].to_vec(), index);
            path.iter().map(Digest::to_string).collect()
        };
        assert_eq!(
            texts(8, 0),
            [
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ]
        );
        assert_eq!(
            texts(8, 5),
            [
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ]
        );
        assert_eq!(
            texts(3, 2),
            ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]
        );
        assert!(texts(1, 0).is_empty());
    }

    #[test]
    fn trees_of_every_size_are_as_defined_and_every_path_leads_to_the_root() {
        for count in 0..70 {
            let leaves = leaves(count);
            let root = root(&leaves);
            assert_eq!(root, defined(&leaves), "{count}");
            for index in 0..if count < 18 { count } else { 0 } {
                let path = path(leaves.clone(), index);
                for (other, hash) in leaves.iter().enumerate() {
                    for place in 0..=count as u64 {
                        let found = root_of(*hash, place, count as u64, &path);
                        let is_it = other == index && place == index as u64;
                        assert_eq!(
                            found == Some(root),
                            is_it,
                            "{count} {index} {other} {place}"
                        );
                    }
                }
                let longer = [&*path, &[root]].concat();
                assert_eq!(
                    root_of(leaves[index], index as u64, count as u64, &longer),
                    None
                );
                if let Some((_, shorter)) = path.split_last() {
                    let found = root_of(leaves[index], index as u64, count as u64, shorter);
                    assert_eq!(found, None);
                }
            }
        }
    }
}
