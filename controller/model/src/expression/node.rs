//! The meaning of an expression.

use super::class::Class;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// The empty text.
    Empty,
    /// Nothing at all.
    Never,
    Character(char),
    Class(Class),
    /// `\C`: any byte.
    Byte,
    Assertion(Assertion),
    Repeat {
        node: Box<Node>,
        least: u32,
        /// `None` for any number.
        most: Option<u32>,
    },
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assertion {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    /// At the beginning or end of a word, whose characters are ASCII for RE2.
    WordBoundary,
    NoWordBoundary,
}

impl Node {
    pub(super) fn concat(nodes: Vec<Self>) -> Self {
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Self::Empty => {}
                Self::Concat(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Self::Empty,
            1 => flat.swap_remove(0),
            _ => Self::Concat(flat),
        }
    }

    pub(super) fn alternate(mut nodes: Vec<Self>) -> Self {
        if nodes.len() == 1 {
            nodes.swap_remove(0)
        } else {
            Self::Alternate(nodes)
        }
    }

    pub(super) fn repeat(self, least: u32, most: Option<u32>) -> Self {
        match (self, least, most) {
            // What need not hold does not matter, and what does not hold once does not hold twice.
            (Self::Empty, ..) | (_, 0, Some(0)) | (Self::Assertion(_) | Self::Never, 0, _) => Self::Empty,
            (node @ (Self::Assertion(_) | Self::Never), ..) | (node, 1, Some(1)) => node,
            (node, ..) => Self::Repeat {
                node: Box::new(node),
                least,
                most,
            },
        }
    }

    /// Without anchors that always hold, because whole values are matched.
    pub(super) fn without_outer_anchors(self) -> Self {
        self.without_first(Assertion::TextStart)
            .without_last(Assertion::TextEnd)
    }

    fn without_first(self, anchor: Assertion) -> Self {
        match self {
            Self::Assertion(found) if found == anchor => Self::Empty,
            Self::Concat(mut nodes) => {
                let anchors = nodes
                    .iter()
                    .take_while(|node| **node == Self::Assertion(anchor))
                    .count();
                nodes.drain(..anchors);
                Self::concat(nodes)
            }
            Self::Alternate(nodes) => {
                Self::Alternate(nodes.into_iter().map(|node| node.without_first(anchor)).collect())
            }
            other => other,
        }
    }

    fn without_last(self, anchor: Assertion) -> Self {
        match self {
            Self::Assertion(found) if found == anchor => Self::Empty,
            Self::Concat(mut nodes) => {
                while nodes.last() == Some(&Self::Assertion(anchor)) {
                    nodes.pop();
                }
                Self::concat(nodes)
            }
            Self::Alternate(nodes) => {
                Self::Alternate(nodes.into_iter().map(|node| node.without_last(anchor)).collect())
            }
            other => other,
        }
    }
}
