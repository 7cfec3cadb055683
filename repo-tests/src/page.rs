//! Links, anchors and code blocks of a Markdown page.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its line, from 1.
    pub line: usize,
    /// Its target as written.
    pub target: String,
}

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence, from 1.
    pub line: usize,
    /// The text after the fence, such as `yaml` or `console,run`; empty for an indented block.
    pub language: String,
    /// Its text, without a list's indentation.
    pub text: String,
}

/// A page's contents, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Links, also of images.
    pub links: Vec<Link>,
    /// The headings' anchors.
    pub anchors: BTreeSet<String>,
    /// The code blocks.
    pub blocks: Vec<Block>,
}

impl Page {
    /// Reads Markdown as code hosts render it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut page = Self {
            links: Vec::new(),
            anchors: BTreeSet::new(),
            blocks: Vec::new(),
        };
        let line_of = |offset: usize| text.get(..offset).unwrap_or_default().matches('\n').count() + 1;
        let mut seen = BTreeMap::new();
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Link {
                        line: line_of(range.start),
                        target: dest_url.into_string(),
                    });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(language) => language.into_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    block = Some(Block {
                        line: line_of(range.start),
                        language,
                        text: String::new(),
                    });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&text);
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    // A second heading of the same words gets a number.
                    let times: &mut usize = seen.entry(slug.clone()).or_default();
                    let anchor = if *times == 0 { slug } else { format!("{slug}-{times}") };
                    *times += 1;
                    page.anchors.insert(anchor);
                }
                _ => {}
            }
        }
        page
    }
}

/// A heading's anchor, as on GitHub and in mdBook.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ if character.is_alphanumeric() => Some(character),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_code_hosts() {
        let page = Page::parse(
            "# Keys, and how to change them\n\n## `limpet check`\n\n## A's `--b`: c\n\n## Keys\n\n## Keys\n",
        );
        let expected = [
            "keys-and-how-to-change-them",
            "limpet-check",
            "as---b-c",
            "keys",
            "keys-1",
        ];
        assert_eq!(page.anchors, expected.map(str::to_owned).into());
    }

    #[test]
    fn blocks_have_their_line_and_no_indentation() {
        let page = Page::parse("1. a\n\n   ```yaml,excerpt\n   b:\n     c: 1\n   ```\n\nd\n\n    e\n");
        let blocks: Vec<_> = page
            .blocks
            .iter()
            .map(|block| (block.line, &*block.language, &*block.text))
            .collect();
        assert_eq!(blocks, [(3, "yaml,excerpt", "b:\n  c: 1\n"), (10, "", "e\n")]);
    }

    #[test]
    fn links_in_code_are_no_links() {
        let page = Page::parse("[a](b.md)\n\n`[c](d.md)`\n\n```text\n[e](f.md)\n```\n\n| [g](h.md#i) |\n|---|\n");
        let targets: Vec<_> = page
            .links
            .iter()
            .map(|link| (link.line, link.target.as_str()))
            .collect();
        assert_eq!(targets, [(1, "b.md"), (9, "h.md#i")]);
    }
}
