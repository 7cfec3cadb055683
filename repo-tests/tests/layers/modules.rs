//! A crate's modules and their imports of each other, by source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, ItemMod, ItemUse, UseTree};

type Module = Vec<String>;

#[derive(Debug, Clone)]
struct Import {
    from: Module,
    to: Vec<String>,
    file: PathBuf,
}

#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: BTreeSet<Module>,
    imports: Vec<Import>,
    /// Names that a module re-exports.
    reexports: BTreeMap<(Module, String), Vec<String>>,
    /// Types outside tests, with their files.
    types: Vec<(String, PathBuf)>,
}

impl Modules {
    pub(crate) fn of(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.read(root, &Vec::new());
        assert!(!modules.known.is_empty(), "{}: no modules", root.display());
        modules
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.types.iter().map(|(name, file)| (name.as_str(), file.as_path()))
    }

    /// Circles among each module's children, with their imports.
    pub(crate) fn circles(&self) -> impl Iterator<Item = String> {
        self.known.iter().filter_map(|parent| self.circle_below(parent))
    }

    fn circle_below(&self, parent: &Module) -> Option<String> {
        let mut edges: BTreeMap<&str, BTreeMap<&str, &Import>> = BTreeMap::new();
        let targets: Vec<Module> = self.imports.iter().map(|import| self.resolve(&import.to)).collect();
        for (import, target) in self.imports.iter().zip(&targets) {
            let child = |module: &'_ Module| module.starts_with(parent) && module.len() > parent.len();
            if child(&import.from) && child(target) && import.from[parent.len()] != target[parent.len()] {
                let from = import.from[parent.len()].as_str();
                edges
                    .entry(from)
                    .or_default()
                    .entry(target[parent.len()].as_str())
                    .or_insert(import);
            }
        }
        let mut done = BTreeSet::new();
        edges
            .keys()
            .find_map(|start| circle(start, &edges, &mut Vec::new(), &mut done))
    }

    fn read(&mut self, file: &Path, module: &Module) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.items(&parsed.items, file, module);
    }

    fn items(&mut self, items: &[Item], file: &Path, module: &Module) {
        self.known.insert(module.clone());
        let mut children = Vec::new();
        for item in items {
            if let Some(name) = type_name(item).filter(|_| !is_test(attributes(item))) {
                self.types.push((name.to_string(), file.to_owned()));
            }
            match item {
                Item::Mod(child) if is_test(&child.attrs) => {}
                Item::Mod(child) => children.push(child),
                item if is_test(attributes(item)) => {}
                item => Paths {
                    modules: self,
                    file,
                    module,
                }
                .visit_item(item),
            }
        }
        for child in children {
            let mut path = module.clone();
            path.push(child.ident.to_string());
            match &child.content {
                Some((_, items)) => self.items(items, file, &path),
                None => self.read(&file_of(file, module.is_empty(), child), &path),
            }
        }
    }

    fn resolve(&self, path: &[String]) -> Module {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let depth = (0..=path.len())
                .rev()
                .find(|depth| self.known.contains(&path[..*depth]))
                .unwrap_or(0);
            let module = path[..depth].to_vec();
            let Some(name) = path.get(depth) else { return module };
            match self.reexports.get(&(module.clone(), name.clone())) {
                Some(further) if *further != path => {
                    let mut further = further.clone();
                    further.extend_from_slice(&path[depth + 1..]);
                    path = further;
                }
                _ => return module,
            }
        }
        path
    }
}

fn file_of(parent: &Path, is_root: bool, child: &ItemMod) -> PathBuf {
    let folder = parent.parent().expect("a file has a folder");
    let stem = parent
        .file_stem()
        .and_then(|stem| stem.to_str())
        .expect("a file has a name");
    let folder = if is_root || stem == "mod" {
        folder.to_owned()
    } else {
        folder.join(stem)
    };
    let file = folder.join(format!("{}.rs", child.ident));
    if file.exists() {
        file
    } else {
        folder.join(child.ident.to_string()).join("mod.rs")
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        _ => &[],
    }
}

fn type_name(item: &Item) -> Option<&Ident> {
    match item {
        Item::Struct(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

struct Paths<'a> {
    modules: &'a mut Modules,
    file: &'a Path,
    module: &'a Module,
}

impl Paths<'_> {
    /// A path below the crate, if it is this crate's.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some(self.module.iter().chain(rest).cloned().collect()),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let base = self.module.get(..self.module.len().checked_sub(ups)?)?;
                Some(base.iter().chain(&path[ups..]).cloned().collect())
            }
            _ => None,
        }
    }

    fn add(&mut self, path: &[String]) {
        if let Some(to) = self.absolute(path) {
            let import = Import {
                from: self.module.clone(),
                to,
                file: self.file.to_owned(),
            };
            self.modules.imports.push(import);
        }
    }

    /// The paths in a tree of `use`, with their local names.
    fn leaves(tree: &UseTree, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => Self::leaves(&path.tree, &with(&path.ident), found),
            UseTree::Group(group) => group.items.iter().for_each(|tree| Self::leaves(tree, before, found)),
            UseTree::Name(name) if name.ident == "self" => {
                found.push((before.to_vec(), before.last().cloned().unwrap_or_default()));
            }
            UseTree::Name(name) => found.push((with(&name.ident), name.ident.to_string())),
            UseTree::Rename(rename) => found.push((with(&rename.ident), rename.rename.to_string())),
            UseTree::Glob(_) => found.push((before.to_vec(), "*".to_owned())),
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut leaves = Vec::new();
        Self::leaves(&item.tree, &[], &mut leaves);
        for (path, name) in leaves {
            self.add(&path);
            // A bare first name is a child's here, or another crate's, which is no module of this one.
            let child = || self.module.iter().chain(&path).cloned().collect();
            let to = self.absolute(&path).unwrap_or_else(child);
            self.modules.reexports.insert((self.module.clone(), name), to);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }
}

fn circle(
    at: &str,
    edges: &BTreeMap<&str, BTreeMap<&str, &Import>>,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<String> {
    if let Some(start) = way.iter().position(|name| name == at) {
        let names: Vec<&str> = way[start..].iter().map(String::as_str).chain([at]).collect();
        let lines = names.windows(2).map(|pair| {
            let import = edges[pair[0]][pair[1]];
            format!(
                "  {} -> {}: {} imports {}",
                pair[0],
                pair[1],
                import.file.display(),
                import.to.join("::")
            )
        });
        return Some(format!(
            "{}\n{}",
            names.join(" -> "),
            lines.collect::<Vec<_>>().join("\n")
        ));
    }
    if !done.insert(at.to_owned()) {
        return None;
    }
    way.push(at.to_owned());
    let found = edges
        .get(at)
        .and_then(|next| next.keys().find_map(|next| circle(next, edges, way, done)));
    way.pop();
    found
}
