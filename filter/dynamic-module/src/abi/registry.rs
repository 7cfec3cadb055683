//! Which pointers in Envoy's hands are ours.
//!
//! Envoy passes a route's configuration to the filter's module, not to the one that made it. So this module follows
//! only pointers that it gave away.
//!
//! Envoy gets the address of a place here. Places are reused and never freed, so no allocation of another module can
//! have such an address, even after the configuration is destroyed. A lookup takes no lock: workers only read what
//! changes when a configuration is created or destroyed.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The size of the first block of places. Each further block is twice as large.
const FIRST: usize = 64;
/// Enough blocks for more configurations than fit into memory.
const BLOCKS: usize = 26;

/// The configuration's address; null if the place is vacant.
type ConfigSlot<T> = AtomicPtr<T>;

pub(super) struct Registry<T> {
    blocks: [OnceLock<Box<[ConfigSlot<T>]>>; BLOCKS],
    /// The vacant places, as block and index. Locked only to create or destroy a configuration.
    vacant: Mutex<Vec<(usize, usize)>>,
}

impl<T> Registry<T> {
    pub(super) const fn new() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            vacant: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn insert(&self, config: Box<T>) -> Option<*const c_void> {
        let mut vacant = self.vacant.lock().unwrap_or_else(PoisonError::into_inner);
        if vacant.is_empty() {
            let block = self.blocks.iter().position(|block| block.get().is_none())?;
            let size = FIRST << block;
            let places: Box<[ConfigSlot<T>]> = (0..size).map(|_| AtomicPtr::default()).collect();
            // It was empty, and only the lock's holder fills one.
            let _ = self.blocks.get(block)?.set(places);
            vacant.extend((0..size).rev().map(|index| (block, index)));
        }
        let (block, index) = vacant.pop()?;
        let place = self.blocks.get(block)?.get()?.get(index)?;
        place.store(Box::into_raw(config), Ordering::Release);
        Some(ptr::from_ref(place).cast())
    }

    pub(super) fn find(&self, pointer: *const c_void) -> Option<ptr::NonNull<T>> {
        let (block, index) = self.place(pointer)?;
        let place = self.blocks.get(block)?.get()?.get(index)?;
        ptr::NonNull::new(place.load(Ordering::Acquire))
    }

    /// Vacates the place of a configuration; `None` if the pointer is not ours. The caller owns the configuration.
    pub(super) fn remove(&self, pointer: *const c_void) -> Option<ptr::NonNull<T>> {
        let (block, index) = self.place(pointer)?;
        let place = self.blocks.get(block)?.get()?.get(index)?;
        let config = ptr::NonNull::new(place.swap(ptr::null_mut(), Ordering::AcqRel))?;
        let mut vacant = self.vacant.lock().unwrap_or_else(PoisonError::into_inner);
        vacant.push((block, index));
        Some(config)
    }

    fn place(&self, pointer: *const c_void) -> Option<(usize, usize)> {
        let blocks = self.blocks.iter().map_while(OnceLock::get).enumerate();
        let mut found = blocks.filter_map(|(number, block)| {
            let offset = pointer.addr().checked_sub(block.as_ptr().addr())?;
            let index = offset / size_of::<ConfigSlot<T>>();
            (index < block.len() && offset.is_multiple_of(size_of::<ConfigSlot<T>>())).then_some((number, index))
        });
        found.next()
    }
}

#[cfg(test)]
mod tests;
