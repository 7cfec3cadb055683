//! GatewayClasses that are gone while there are Gateways of them.
//!
//! A class goes with the release that brought it, and its Gateways serve users. So they are served until they are
//! deleted or name another class, or the class returns with another controller's name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_api::{GatewayClassSpec, Object, Text};

use crate::remembered_class::RememberedClass;
use crate::{Objects, Settings};

pub(crate) fn remembered(objects: &Objects, settings: &Settings) -> BTreeMap<String, RememberedClass> {
    let used = used(objects);
    let ours = objects.gateway_classes.iter().filter(|(name, class)| {
        class.malformed.is_none()
            && settings.serves()
            && settings.selects(&class.spec.controller_name)
            && used.contains(name.as_str())
    });
    ours.map(|(name, class)| (name.to_string(), RememberedClass::new(name, &class.spec)))
        .collect()
}

fn used(objects: &Objects) -> BTreeSet<&str> {
    let gateways = objects.gateways.values();
    gateways
        .map(|gateway| gateway.spec.gateway_class_name.as_str())
        .collect()
}

impl Objects {
    /// Keeps a class that is gone if it is of this controller and Gateways name it.
    pub fn keep_class(&mut self, class: &Arc<Object<GatewayClassSpec>>, controller: &str) {
        let name = &class.meta.name;
        if class.spec.controller_name == controller && used(self).contains(name.as_str()) {
            self.gateway_classes.insert(name.clone(), Arc::clone(class));
            self.gone_classes.insert(name.clone());
        }
    }

    /// Takes out a class that is there again. Returns whether it was gone.
    pub fn forget_gone_class(&mut self, name: &Text) -> bool {
        let was_gone = self.gone_classes.remove(name);
        if was_gone {
            self.gateway_classes.remove(name);
        }
        was_gone
    }

    /// Whether [`settle_classes`](Self::settle_classes) may change something.
    #[must_use]
    pub fn has_gone_classes(&self) -> bool {
        let mut remembered = self.memory.classes.keys();
        !self.gone_classes.is_empty() || !remembered.all(|name| self.gateway_classes.contains_key(name.as_str()))
    }

    /// Takes in this controller's classes that only the memory has, and forgets those that no Gateway names. Returns
    /// whether anything changed.
    pub fn settle_classes(&mut self, controller: &str) -> bool {
        let used: BTreeSet<Text> = used(self).into_iter().map(Text::from).collect();
        let unused: Vec<Text> = self.gone_classes.difference(&used).cloned().collect();
        let mut changed = !unused.is_empty();
        for name in &unused {
            self.forget_gone_class(name);
        }
        let missing: Vec<RememberedClass> = self
            .memory
            .classes
            .values()
            .filter(|class| class.controller_name() == controller)
            .filter(|class| used.contains(class.name()) && !self.gateway_classes.contains_key(class.name()))
            .cloned()
            .collect();
        for class in missing {
            let object = class.object();
            self.gone_classes.insert(object.meta.name.clone());
            self.gateway_classes.insert(object.meta.name.clone(), Arc::new(object));
            changed = true;
        }
        changed
    }
}
