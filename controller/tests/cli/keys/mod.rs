use crate::limpet;

#[test]
fn a_key_is_32_random_bytes_in_base64() {
    let first = limpet(&["keys", "generate"]).run().code(0).stdout;
    let second = limpet(&["keys", "generate"]).run().code(0).stdout;
    assert_ne!(first, second);
    assert_eq!(first.trim_end().len(), 44);
    // The filter takes it.
    let filter = r#"{"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {}}"#;
    limpet(&["check", "-", "--env"])
        .env("LIMPET_KEY", first.trim_end())
        .run_with(filter)
        .code(0);
}

#[test]
fn a_key_is_json_where_asked_for() {
    let json = limpet(&["keys", "generate", "--output", "json"]).run().code(0).json();
    assert_eq!(json["key"].as_str().unwrap().len(), 44);
}
