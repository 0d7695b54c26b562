//! The projects of many conversations at once, by the index.

use std::collections::HashMap;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::list::PROJECT;
use super::{KIND, read};
use crate::collections::lower;
use crate::error::Result;
use crate::store::{Inner, Reads};

/// Number of conversations that are looked up under one lock. Writers wait for it.
const AT_A_TIME: usize = 1_000;

/// For each of these conversations, the number of its project in the list of names that is also
/// returned. `None` for one without a project, or that is not in the log. The index has only
/// hashes, so one line of each project is read.
pub(crate) fn projects_of(
    inner: &Inner,
    ids: &[Uuid],
) -> Result<(Vec<Option<usize>>, Vec<String>)> {
    let (mut numbers, mut names) = (Vec::with_capacity(ids.len()), Vec::new());
    let mut known: HashMap<(u32, u32), Option<usize>> = HashMap::new();
    for some in ids.chunks(AT_A_TIME) {
        let found = inner.with_snapshot(|view| {
            let table = view.table(KIND);
            let (mut found, mut new) = (Vec::with_capacity(some.len()), Vec::new());
            for id in some {
                let mut text = [0; Hyphenated::LENGTH];
                let row = view
                    .find(KIND, [lower(*id, &mut text), ""])
                    .filter(|(_, row)| row.stands());
                let value = row.and_then(|(row, _)| Some((row, table.value(row, PROJECT)?)));
                found.push(value.map(|(_, value)| value));
                let Some((row, value)) = value else { continue };
                let is_known = known.contains_key(&value);
                if !is_known && !new.iter().any(|(known, _)| *known == value) {
                    let project = read(view, row)?.and_then(|found| found.project);
                    new.push((value, project));
                }
            }
            Ok((found, new))
        })?;
        let (found, new) = found;
        for (value, project) in new {
            let number = project.map(|project| {
                names.push(project);
                names.len() - 1
            });
            known.insert(value, number);
        }
        let number = |value: Option<(u32, u32)>| known.get(&value?).copied().flatten();
        numbers.extend(found.into_iter().map(number));
    }
    Ok((numbers, names))
}
