//! Draws a tree, with a line for each node. Agents' trees can have any depth, so nothing here
//! recurses or grows with the depth.

use std::fmt::Write;
use std::io;

use decklog::human::{count, duration};
use decklog::tree::SpanStatus;

use super::escape::one_line;
use super::output::{Colour, Output, Span};

/// Maximum depth that is drawn. For a deeper node the depth is printed as a number.
const LEVELS_MAX: usize = 40;
/// Columns of a level.
const LEVEL_COLUMNS: usize = 3;

/// A node to draw; not escaped yet.
#[derive(Debug)]
pub struct Node {
    /// The depth; the root has 0.
    pub depth: usize,
    pub label: String,
    pub status: Option<SpanStatus>,
    pub duration_ms: Option<i64>,
    /// Further text of any length; it comes last.
    pub detail: String,
}

/// Draws a tree, whose nodes are in preorder.
pub fn draw(out: &mut Output, nodes: &[Node]) -> io::Result<()> {
    // At most half of the terminal's width: the nodes need the rest.
    let levels = LEVELS_MAX.min(out.columns() / 2 / LEVEL_COLUMNS);
    let depths: Vec<usize> = nodes.iter().map(|node| node.depth).collect();
    for (branch, node) in branches(&depths).into_iter().zip(nodes) {
        let status = node.status.map(|status| {
            let colour = match status {
                SpanStatus::Running => Colour::Yellow,
                SpanStatus::Completed => Colour::Green,
                SpanStatus::Failed => Colour::Red,
            };
            let took = node
                .duration_ms
                .map_or(String::new(), |ms| format!(" {}", duration(ms)));
            Span::new(format!("  {}{took}", status.as_str()), Some(colour))
        });
        let detail = one_line(node.detail.trim());
        let detail = (!detail.is_empty()).then(|| Span::new(format!("  {detail}"), None));
        let mut spans = vec![
            Span::new(branch.drawn(levels), Some(Colour::Dim)),
            Span::new(one_line(&node.label), None),
        ];
        spans.extend(status.into_iter().chain(detail));
        out.spans(&spans)?;
    }
    Ok(())
}

/// The lines that lead to a node.
#[derive(Debug, Clone, Copy)]
struct Branch {
    depth: usize,
    /// The node is the last child.
    is_last: bool,
    /// Bit n is set if the ancestor at level n has further siblings. Lower levels do not count.
    goes_on: u64,
}

fn branches(depths: &[usize]) -> Vec<Branch> {
    // From the end: a level continues above a node if a node of that level comes below it.
    let mut goes_on = 0_u64;
    let branch = |depth: &usize| {
        let depth = *depth;
        // None for the root, and for nodes that are too deep.
        let level = depth.checked_sub(1).filter(|level| *level < LEVELS_MAX);
        let bit = level.map_or(0, |level| 1 << level);
        let branch = Branch {
            depth,
            is_last: goes_on & bit == 0,
            goes_on,
        };
        if depth <= LEVELS_MAX {
            let above = bit.saturating_sub(1);
            goes_on = goes_on & above | bit;
        }
        branch
    };
    let mut branches: Vec<Branch> = depths.iter().rev().map(branch).collect();
    branches.reverse();
    branches
}

impl Branch {
    fn drawn(self, levels: usize) -> String {
        let mut drawn = String::new();
        let above = self.depth.saturating_sub(1).min(levels);
        for level in 0..above {
            let goes_on = self.goes_on >> level & 1 == 1;
            drawn.push_str(if goes_on { "│  " } else { "   " });
        }
        if self.depth > levels {
            // Writing to a String cannot fail.
            let _ = write!(drawn, "[{}] ", count(self.depth as u64));
        } else if self.depth > 0 {
            drawn.push_str(if self.is_last { "└─ " } else { "├─ " });
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(depths: &[usize], levels: usize) -> Vec<String> {
        let branches = branches(depths).into_iter();
        branches.map(|branch| branch.drawn(levels)).collect()
    }

    #[test]
    fn lines_lead_from_each_node_to_what_is_under_it() {
        let expected = ["", "├─ ", "│  ├─ ", "│  │  └─ ", "│  └─ ", "└─ ", "   └─ "];
        assert_eq!(drawn(&[0, 1, 2, 3, 2, 1, 2], 40), expected);
        assert_eq!(drawn(&[0], 40), [""]);
    }

    #[test]
    fn a_node_far_down_is_told_by_its_depth() {
        let lines = drawn(&[0, 1, 2, 3, 3, 1], 2);
        assert_eq!(lines[2..], ["│  └─ ", "│     [3] ", "│     [3] ", "└─ "]);
        let depths: Vec<usize> = (0..100_000).collect();
        let lines = drawn(&depths, LEVELS_MAX);
        assert_eq!(lines[40], "   ".repeat(39) + "└─ ");
        assert_eq!(lines[99_999], "   ".repeat(40) + "[99,999] ");
    }
}
