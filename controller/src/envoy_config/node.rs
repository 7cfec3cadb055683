//! A value of a YAML or JSON document with its path, so that a finding can name its place.

use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct ConfigNode<'a> {
    pub(crate) value: &'a Value,
    /// The name of the file, as it was given.
    pub(crate) file: &'a str,
    /// For example `static_resources.listeners[0]`; empty for the document itself.
    pub(crate) path: String,
}

/// The field of an `Any` that names the type, in the JSON form of protocol buffers.
const TYPE: &str = "@type";

impl<'a> ConfigNode<'a> {
    pub(crate) fn root(file: &'a str, value: &'a Value) -> Self {
        Self {
            value,
            file,
            path: String::new(),
        }
    }

    /// The field of this name, in snake case or in camel case; Envoy reads both. Null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<ConfigNode<'a>> {
        self.entry(name).or_else(|| self.entry(&camel_case(name)))
    }

    /// The field of exactly this name.
    pub(crate) fn entry(&self, name: &str) -> Option<ConfigNode<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(self.child(value, self.path_of(name)))
    }

    /// [`ConfigNode::get`] along several names.
    pub(crate) fn at(&self, names: &[&str]) -> Option<ConfigNode<'a>> {
        names.iter().try_fold(self.clone(), |node, name| node.get(name))
    }

    /// The field of this name, if it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.value.as_str()
    }

    /// The field of this name; `false` if it is absent or no boolean.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(|node| node.value.as_bool()).unwrap_or(false)
    }

    /// The items of the list of this name; none if it is absent.
    pub(crate) fn list(&self, name: &str) -> Vec<ConfigNode<'a>> {
        self.get(name).map(|node| node.children().collect()).unwrap_or_default()
    }

    /// The items of a list, or the values of an object.
    pub(crate) fn children(&self) -> impl Iterator<Item = ConfigNode<'a>> {
        let items = self.value.as_array().map(|items| {
            let node = |(i, value)| self.child(value, format!("{}[{i}]", self.path));
            items.iter().enumerate().map(node).collect::<Vec<_>>()
        });
        let fields = self.value.as_object().map(|fields| {
            let node = |(name, value): (&String, _)| self.child(value, self.path_of(name));
            fields.iter().map(node).collect::<Vec<_>>()
        });
        items.or(fields).unwrap_or_default().into_iter()
    }

    /// The message type of a typed object, without the URL before it.
    pub(crate) fn kind(&self) -> Option<&'a str> {
        self.value.get(TYPE)?.as_str()?.rsplit('/').next()
    }

    /// The type and the content of a typed configuration, which may be wrapped in a `TypedStruct`.
    pub(crate) fn typed(&self) -> Option<(&'a str, ConfigNode<'a>)> {
        let kind = self.kind()?;
        if !kind.ends_with(".TypedStruct") {
            return Some((kind, self.clone()));
        }
        let kind = self.text("type_url")?.rsplit('/').next()?;
        Some((kind, self.get("value")?))
    }

    /// Whether it has a typed message at any depth. Every configuration of Envoy does, and none of the filter's.
    pub(crate) fn has_types(&self) -> bool {
        self.value.get(TYPE).is_some() || self.children().any(|child| child.has_types())
    }

    /// Visits every object at any depth, outer ones first.
    pub(crate) fn visit(&self, visitor: &mut dyn FnMut(&ConfigNode<'a>)) {
        if self.value.is_object() {
            visitor(self);
        }
        for child in self.children() {
            child.visit(visitor);
        }
    }

    fn child(&self, value: &'a Value, path: String) -> ConfigNode<'a> {
        ConfigNode {
            value,
            file: self.file,
            path,
        }
    }

    fn path_of(&self, name: &str) -> String {
        let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-@".contains(&b));
        match (plain, self.path.as_str()) {
            (true, "") => name.to_owned(),
            (true, path) => format!("{path}.{name}"),
            (false, path) => format!("{path}[{name:?}]"),
        }
    }
}

/// The JSON name of a protobuf field.
pub(crate) fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut words = name.split('_');
    camel.push_str(words.next().unwrap_or_default());
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_says_where_a_value_is() {
        let value = json!({"typedPerFilterConfig": {"a.b": [1, {"c": null}]}});
        let node = ConfigNode::root("file", &value).get("typed_per_filter_config").unwrap();
        let list = node.entry("a.b").unwrap();
        assert_eq!(list.children().nth(1).unwrap().path, "typedPerFilterConfig[\"a.b\"][1]");
        assert!(list.children().nth(1).unwrap().get("c").is_none());
    }

    #[test]
    fn a_typed_struct_is_what_it_wraps() {
        let value = json!({"@type": "x/xds.type.v3.TypedStruct", "type_url": "y/a.Wasm", "value": {"n": 1}});
        let root = ConfigNode::root("file", &value);
        let (kind, content) = root.typed().unwrap();
        assert_eq!((kind, content.path.as_str()), ("a.Wasm", "value"));
    }
}
