#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::collections::BTreeSet;

use super::*;

fn registry() -> &'static Registry<u32> {
    Box::leak(Box::new(Registry::new()))
}

fn number(registry: &Registry<u32>, pointer: *const c_void) -> Option<u32> {
    // SAFETY: these tests remove nothing while they look.
    registry.find(pointer).map(|found| unsafe { *found.as_ref() })
}

fn remove(registry: &Registry<u32>, pointer: *const c_void) -> Option<u32> {
    // SAFETY: `remove` hands out each box once.
    registry
        .remove(pointer)
        .map(|removed| unsafe { *Box::from_raw(removed.as_ptr()) })
}

#[test]
fn a_pointer_of_another_module_is_not_ours() {
    let registry = registry();
    let ours = registry.insert(Box::new(7)).unwrap();
    let theirs = Box::new(7_u64);
    let other_addresses = [
        ptr::null(),
        ptr::without_provenance(1),
        ptr::without_provenance(usize::MAX),
        ptr::from_ref(&*theirs).cast(),
        // In a place, but not its beginning; a vacant place; behind the last place.
        ours.wrapping_byte_add(1),
        ours.wrapping_byte_add(size_of::<usize>()),
        ours.wrapping_byte_add(FIRST * size_of::<usize>()),
        // The configuration itself.
        registry.find(ours).unwrap().as_ptr().cast_const().cast(),
    ];
    for pointer in other_addresses {
        assert_eq!(number(registry, pointer), None, "{pointer:?}");
        assert_eq!(remove(registry, pointer), None, "{pointer:?}");
    }
    assert_eq!(number(registry, ours), Some(7));
    assert_eq!(remove(registry, ours), Some(7));
}

#[test]
fn a_destroyed_configuration_is_not_found_and_not_freed_twice() {
    let registry = registry();
    let first = registry.insert(Box::new(1)).unwrap();
    assert_eq!(remove(registry, first), Some(1));
    assert_eq!(number(registry, first), None);
    assert_eq!(remove(registry, first), None);
    // The allocator hands out what was freed, to other modules too.
    let theirs: Vec<Box<u32>> = (0..10_000).map(Box::new).collect();
    assert!(
        theirs
            .iter()
            .all(|theirs| number(registry, ptr::from_ref(&**theirs).cast()).is_none())
    );
    let second = registry.insert(Box::new(2)).unwrap();
    assert_eq!((first, number(registry, second)), (second, Some(2)));
    assert_eq!(remove(registry, second), Some(2));
}

#[test]
fn as_many_configurations_as_there_are_have_places() {
    let registry = registry();
    let pointers: Vec<_> = (0..20_000)
        .map(|number| registry.insert(Box::new(number)).unwrap())
        .collect();
    assert_eq!(pointers.iter().collect::<BTreeSet<_>>().len(), pointers.len());
    for (expected, pointer) in (0..).zip(&pointers) {
        assert_eq!(number(registry, *pointer), Some(expected));
    }
    let blocks = || registry.blocks.iter().filter(|block| block.get().is_some()).count();
    let before = blocks();
    // Updates of routes create the new one before they destroy the old one.
    let mut pointers = pointers;
    for round in 1..4 {
        for pointer in &mut pointers {
            let former = std::mem::replace(pointer, registry.insert(Box::new(round)).unwrap());
            assert!(remove(registry, former).is_some());
        }
    }
    assert_eq!(blocks(), before, "places are not used again");
    assert!(pointers.into_iter().all(|pointer| remove(registry, pointer) == Some(3)));
}

#[test]
fn threads_find_their_own_while_others_come_and_go() {
    let registry = registry();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..2_000 {
                    let value = thread * 10_000 + round;
                    let pointer = registry.insert(Box::new(value)).unwrap();
                    assert_eq!(number(registry, pointer), Some(value));
                    assert_eq!(remove(registry, pointer), Some(value));
                }
            });
        }
    });
}
