//! JSON of any depth. A reader gives up at 128 levels, and with one object it gives up its whole list. So deeper parts
//! than any useful object has are skipped, which has no limit.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

pub(super) const LEVELS: usize = 64;

/// Reads a value as far as [`LEVELS`]. Returns whether that is all.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(Value, bool), D::Error> {
    let mut is_all = true;
    let value = LevelLimit {
        remaining: LEVELS,
        is_all: &mut is_all,
    }
    .deserialize(deserializer)?;
    Ok((value, is_all))
}

/// A part of a value, limited to this depth.
struct LevelLimit<'a> {
    remaining: usize,
    is_all: &'a mut bool,
}

impl LevelLimit<'_> {
    fn inner(&mut self) -> LevelLimit<'_> {
        LevelLimit {
            remaining: self.remaining - 1,
            is_all: self.is_all,
        }
    }
}

impl<'de> DeserializeSeed<'de> for LevelLimit<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.remaining == 0 {
            *self.is_all = false;
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LevelLimit<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key()? {
            map.insert(name, fields.next_value_seed(self.inner())?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Value, bool) {
        read(&mut serde_json::Deserializer::from_str(text)).unwrap()
    }

    #[test]
    fn what_has_few_levels_is_read_as_it_is() {
        let text = r#"{"a": [1, -1, 1.5, true, null, "ä"], "b": {"c": {}}}"#;
        assert_eq!(of(text), (serde_json::from_str(text).unwrap(), true));
    }

    #[test]
    fn what_has_many_levels_is_read_in_part() {
        for levels in [LEVELS, 200, 100_000] {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let (mut value, is_all) = of(&text);
            assert_eq!(is_all, levels == LEVELS);
            let mut read = 0;
            while let Some(items) = value.as_array_mut() {
                read += 1;
                value = items.pop().unwrap_or_default();
            }
            assert_eq!(read, LEVELS, "{levels}");
        }
    }
}
