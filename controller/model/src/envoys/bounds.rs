//! How large a part of an `EnvoyDeployment` may be: every build handles all parts, so one tenant must not hold up the
//! others.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// The most bytes of a part, as JSON. A Pod with every field set has a tenth of it.
const BYTES: usize = 64 << 10;
/// Items of all lists of a part. Most Pods with many sidecars have less than 100.
const ITEMS: usize = 1000;
/// Keys of all maps of a part. Each takes much more memory than its bytes.
const KEYS: usize = 2000;

/// Refuses a part that is too large, and looks no further than to the bound. `field` is the part's name.
///
/// # Errors
/// With the field.
pub(super) fn check(field: &str, part: &impl Serialize) -> Result<(), String> {
    let rest = ByteLimit { bytes: BYTES };
    let items = ItemLimit {
        rest: ITEMS,
        keys: KEYS,
    };
    let mut serializer = Serializer::with_formatter(rest, items);
    let written = part.serialize(&mut serializer);
    written.map_err(|error| {
        format!(
            "{field}: expected at most {error}, found more: leave out what Envoys do not need, and put long texts into a \
             ConfigMap"
        )
    })
}

struct ByteLimit {
    bytes: usize,
}

impl Write for ByteLimit {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let rest = self.bytes.checked_sub(bytes.len());
        self.bytes = rest.ok_or_else(|| io::Error::other(format!("{BYTES} bytes of JSON")))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ItemLimit {
    rest: usize,
    keys: usize,
}

impl Formatter for ItemLimit {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        let rest = self.rest.checked_sub(1);
        self.rest = rest.ok_or_else(|| io::Error::other(format!("{ITEMS} items in all its lists together")))?;
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        let keys = self.keys.checked_sub(1);
        self.keys = keys.ok_or_else(|| io::Error::other(format!("{KEYS} keys in all its maps together")))?;
        if first { Ok(()) } else { writer.write_all(b",") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn refused(part: &Value, by: &str) {
        let error = check("spec.pod", part).unwrap_err();
        assert!(error.starts_with("spec.pod: expected at most "), "{error}");
        assert!(error.contains(by), "{error}");
    }

    #[test]
    fn a_part_at_its_bounds_is_good_and_one_more_is_not() {
        let part = |bytes: usize| json!({"a": "x".repeat(bytes)});
        let frame = part(0).to_string().len();
        assert_eq!(check("spec.pod", &part(BYTES - frame)), Ok(()));
        refused(&part(BYTES - frame + 1), "65536 bytes of JSON");
        let part = |items: usize| json!({"a": [[], vec![1; items - 3]], "b": {"c": [1]}});
        assert_eq!(check("spec.pod", &part(ITEMS)), Ok(()));
        refused(&part(ITEMS + 1), "1000 items in all its lists together");
    }

    #[test]
    fn keys_of_maps_were_not_counted() {
        let map = |keys: usize| {
            (0..keys)
                .map(|key| (key.to_string(), json!({"a": 1})))
                .collect::<Value>()
        };
        assert_eq!(check("spec.pod", &map(KEYS / 2)), Ok(()));
        refused(&map(KEYS / 2 + 1), "2000 keys in all its maps together");
    }
}
