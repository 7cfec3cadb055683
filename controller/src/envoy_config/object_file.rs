//! Objects of Kubernetes where a command expects what is in them.

use serde_json::Value;

/// How to take out what is in a ConfigMap or Secret; `None`: the document is neither. `usual`: the name of the entry,
/// if the object does not tell by having a single one.
pub(crate) fn instead(document: &Value, usual: &str) -> Option<String> {
    let kind = document.get("kind")?.as_str()?;
    document.get("apiVersion").filter(|version| *version == "v1")?;
    let is_secret = kind == "Secret";
    if !is_secret && kind != "ConfigMap" {
        return None;
    }
    let name_in = |field: &str| {
        let name = document.get("metadata")?.get(field)?.as_str()?;
        is_name(name).then_some(name)
    };
    let name = name_in("name").unwrap_or("NAME");
    let namespace = name_in("namespace").map_or_else(String::new, |namespace| format!(" --namespace {namespace}"));
    let entries: Vec<&str> = document
        .get("data")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|data| data.keys().map(String::as_str))
        .collect();
    let entry = match entries[..] {
        [single] if is_name(single) => single,
        _ => usual,
    };
    let get = format!(
        "kubectl get {}{namespace} {name} --output 'jsonpath={{.data.{}}}'",
        kind.to_ascii_lowercase(),
        entry.replace('.', "\\.")
    );
    let command = if is_secret {
        format!("(umask 077 && {get} | base64 -d > {entry})")
    } else {
        format!("{get} > {entry}")
    };
    Some(format!(
        "expected what is in the {kind}, found the {kind} itself: take it out with `{command}`"
    ))
}

/// Whether it can stand in a command of a shell as it is.
fn is_name(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_told_from_what_is_in_it() {
        for document in [
            json!({"keys": []}),
            json!([]),
            json!({"kind": "ConfigMap"}),
            json!({"apiVersion": "v1", "kind": "Pod"}),
        ] {
            assert_eq!(instead(&document, "controller.yaml"), None, "{document}");
        }
    }

    #[test]
    fn the_command_is_that_of_the_object() {
        let meta = json!({"namespace": "limpet-system", "name": "limpet-controller"});
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data});
        let command = |data| instead(&map(data), "controller.yaml").unwrap();
        let expected = "`kubectl get configmap --namespace limpet-system limpet-controller \
                        --output 'jsonpath={.data.own\\.yaml}' > own.yaml`";
        let told = command(json!({"own.yaml": ""}));
        assert!(told.ends_with(expected), "{told}");
        for data in [json!({"a": "", "b": ""}), json!({"a; rm": ""}), json!(null)] {
            let told = command(data);
            assert!(
                told.ends_with("{.data.controller\\.yaml}' > controller.yaml`"),
                "{told}"
            );
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "$(rm)"}});
        let told = instead(&secret, "keyring.json").unwrap();
        let expected = "`(umask 077 && kubectl get secret NAME --output 'jsonpath={.data.keyring\\.json}' | \
                        base64 -d > keyring.json)`";
        assert!(told.ends_with(expected), "{told}");
    }
}
