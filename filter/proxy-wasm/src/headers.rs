//! All headers of a message in one buffer, as the host hands them over, without a copy.
//!
//! ```text
//! number of headers | length of name, length of field of each | name, 0, field, 0 of each
//! ```
//!
//! Numbers have 32 bits and are little-endian. Names are in lower case.

use proxy_wasm::types::{MapType, Status};

use crate::abi;

#[derive(Debug)]
pub(crate) struct Headers(Box<[u8]>);

impl Headers {
    pub(crate) fn read(map: MapType) -> Result<Self, Status> {
        abi::header_pairs(map).map(Self)
    }

    /// The fields of this lower-case name.
    pub(crate) fn fields<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        let fields = self.pairs().filter(|(known, _)| *known == name.as_bytes());
        fields.map(|(_, field)| field)
    }

    /// Names and fields. A malformed buffer has no more of them.
    fn pairs(&self) -> HeaderPairs<'_> {
        let pairs = || {
            let (count, rest) = self.0.split_first_chunk()?;
            let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
            let (lengths, content) = rest.split_at_checked(count.checked_mul(8)?)?;
            Some(HeaderPairs { lengths, content })
        };
        pairs().unwrap_or_default()
    }
}

#[derive(Default)]
struct HeaderPairs<'h> {
    lengths: &'h [u8],
    content: &'h [u8],
}

impl<'h> HeaderPairs<'h> {
    fn text(&mut self) -> Option<&'h [u8]> {
        let (length, lengths) = self.lengths.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (text, rest) = self.content.split_at_checked(length)?;
        self.lengths = lengths;
        self.content = rest.get(1..)?;
        Some(text)
    }
}

impl<'h> Iterator for HeaderPairs<'h> {
    type Item = (&'h [u8], &'h [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.text()?, self.text()?))
    }
}

#[cfg(test)]
pub(crate) fn buffer(pairs: &[(&str, &str)]) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let mut buffer = number(pairs.len()).to_vec();
    for (name, field) in pairs {
        buffer.extend([number(name.len()), number(field.len())].concat());
    }
    for (name, field) in pairs {
        buffer.extend_from_slice(format!("{name}\0{field}\0").as_bytes());
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(buffer: &[u8], name: &str) -> Vec<String> {
        let headers = Headers(buffer.into());
        let fields = headers.fields(name);
        fields.map(|field| String::from_utf8(field.to_vec()).unwrap()).collect()
    }

    #[test]
    fn headers_are_found_in_their_order() {
        let buffer = buffer(&[(":path", "/"), ("cookie", "a=1"), ("empty", ""), ("cookie", "b=\0two")]);
        assert_eq!(fields(&buffer, "cookie"), ["a=1", "b=\0two"]);
        assert_eq!(fields(&buffer, ":path"), ["/"]);
        assert_eq!(fields(&buffer, "empty"), [""]);
        assert_eq!(fields(&buffer, "cooki"), [""; 0]);
        assert_eq!(fields(&[], "cookie"), [""; 0]);
    }

    #[test]
    fn a_buffer_that_ends_early_has_the_headers_before() {
        let whole = buffer(&[("a", "1"), ("b", "2"), ("c", "3")]);
        for length in 0..whole.len() {
            let cut = whole.get(..length).unwrap();
            let found = ["a", "b", "c"].map(|name| fields(cut, name).len());
            assert!(found.is_sorted_by(|before, after| before >= after), "{found:?}");
        }
        assert_eq!(fields(&[0xFF; 64], "a"), [""; 0]);
    }
}
