//! The size of the program that RE2 makes of an expression: an upper bound, found without compiling. It is that of the
//! RE2 that reads characters, whose programs are larger.

use super::class::Class;
use super::node::Node;

/// RE2's instructions to fail, to match, and to search for the beginning.
const FRAME: u32 = 5;
/// All characters beyond ASCII, of two to four bytes.
const BEYOND_ASCII: u32 = 7;

pub(super) fn of_program(node: &Node) -> u32 {
    of(node).saturating_add(FRAME)
}

fn of(node: &Node) -> u32 {
    match node {
        Node::Empty | Node::Byte | Node::Assertion(_) => 1,
        Node::Never => 2,
        Node::Character(character) => bytes(*character),
        Node::Class(class) => of_class(class),
        Node::Repeat { node, least, most } => of_repetition(of(node), *least, *most),
        Node::Concat(nodes) => sum(nodes),
        // One jump for each.
        Node::Alternate(nodes) => count(nodes.len()).saturating_add(sum(nodes)),
    }
}

/// RE2 writes repetitions out: `x{2,4}` is `xx(?:x(?:x)?)?`, and `x{2,}` is `xx+`.
fn of_repetition(size: u32, least: u32, most: Option<u32>) -> u32 {
    let jumps = match most {
        // As many as two where the repeated may be empty, which are copied behind it.
        None => 4,
        Some(most) => most.saturating_sub(least).saturating_mul(2),
    };
    size.saturating_mul(most.unwrap_or(least).max(1)).saturating_add(jumps)
}

fn of_class(class: &Class) -> u32 {
    let ranges = if class.is_letter() { 1 } else { count(class.ascii.len()) };
    ranges.saturating_add(if class.others { BEYOND_ASCII } else { 0 })
}

fn sum(nodes: &[Node]) -> u32 {
    nodes.iter().fold(0, |sum, node| sum.saturating_add(of(node)))
}

fn bytes(character: char) -> u32 {
    count(character.len_utf8())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
