//! The places of mistakes, beside those that `serde_path_to_error` finds.

use std::path::Path;

use limpet_core::config::{self, schema::FilterConfig};
use serde_json::{Value, json};
use serde_path_to_error::Segment;

fn followed(json: &[u8]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let error = serde_path_to_error::deserialize::<_, FilterConfig>(&mut deserializer).err()?;
    let mut path = String::new();
    for segment in error.path() {
        match segment {
            Segment::Map { key } if path.is_empty() => path += key,
            Segment::Map { key } => path.extend([".", key]),
            Segment::Seq { index } => path.extend(["[", &index.to_string(), "]"]),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    Some(if path.is_empty() {
        "configuration".to_owned()
    } else {
        path
    })
}

fn mistaken(value: &Value) -> Vec<Value> {
    let mut all = vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(70_000.5),
        json!("é\"\\\n"),
        json!([]),
        json!([{}, [1]]),
        json!({}),
        json!({"{\",\"": [1], "x": {}}),
    ];
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let with = |new: Option<(&str, Value)>| {
                    let mut fields = fields.clone();
                    fields.remove(name);
                    fields.extend(new.map(|(name, value)| (name.to_owned(), value)));
                    Value::Object(fields)
                };
                all.push(with(None));
                all.push(with(Some(("a \"name\" \\", field.clone()))));
                all.extend(mistaken(field).into_iter().map(|field| with(Some((name, field)))));
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                all.extend(mistaken(element).into_iter().map(|element| {
                    let mut elements = elements.clone();
                    elements[index] = element;
                    Value::Array(elements)
                }));
            }
        }
        _ => {}
    }
    all
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads its files")]
fn a_mistake_is_found_where_serde_stops() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/configuration");
    let mut files: Vec<_> = corpus.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let files = files.into_iter().step_by(5);
    let mut compared = 0;
    for file in files {
        let Ok(document) = serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()) else {
            continue;
        };
        for document in mistaken(&document) {
            for json in [document.to_string(), format!("{document:#}")] {
                let Some(expected) = followed(json.as_bytes()) else {
                    continue;
                };
                let found = config::parse(json.as_bytes()).unwrap_err();
                assert_eq!(found.problems[0].field, expected, "{found}\n{json}");
                compared += 1;
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}
