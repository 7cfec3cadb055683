//! Which pointers in Envoy's hands are ours.
//!
//! Envoy keeps the configuration of a route as a pointer and hands it to whichever module the filter is of, not to the
//! one that made it. So a pointer is compared with those that this module gave away before it is followed.
//!
//! What Envoy gets is the address of a place here. Places are used again and never given back, so no allocation of
//! another module can have the address of one, not even after its configuration is destroyed. To look a place up takes
//! no lock: workers only read what changes when a configuration is created or destroyed.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The size of the first block of places. Each other block has twice the size of the one before it.
const FIRST: usize = 64;
/// Enough for more configurations than memory has room for.
const BLOCKS: usize = 26;

/// Where the configuration of a place is; null if the place is vacant.
type Place<T> = AtomicPtr<T>;

/// The places of configurations of type `T`.
pub(super) struct Registry<T> {
    blocks: [OnceLock<Box<[Place<T>]>>; BLOCKS],
    /// The vacant places, as block and index. Only what creates or destroys a configuration takes this lock.
    vacant: Mutex<Vec<(usize, usize)>>,
}

impl<T> Registry<T> {
    pub(super) const fn new() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            vacant: Mutex::new(Vec::new()),
        }
    }

    /// Puts a configuration into a place, and returns the pointer for Envoy. `None` if there is no place left.
    pub(super) fn insert(&self, config: Box<T>) -> Option<*const c_void> {
        let mut vacant = self.vacant.lock().unwrap_or_else(PoisonError::into_inner);
        if vacant.is_empty() {
            let block = self.blocks.iter().position(|block| block.get().is_none())?;
            let size = FIRST << block;
            let places: Box<[Place<T>]> = (0..size).map(|_| AtomicPtr::default()).collect();
            // It was empty, and only the lock's holder fills one.
            let _ = self.blocks.get(block)?.set(places);
            vacant.extend((0..size).rev().map(|index| (block, index)));
        }
        let (block, index) = vacant.pop()?;
        let place = self.blocks.get(block)?.get()?.get(index)?;
        place.store(Box::into_raw(config), Ordering::Release);
        Some(ptr::from_ref(place).cast())
    }

    /// The configuration behind a pointer; `None` if the pointer is not ours.
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

    /// Block and index of the place that has this address. There are few blocks, because each is twice as large.
    fn place(&self, pointer: *const c_void) -> Option<(usize, usize)> {
        let blocks = self.blocks.iter().map_while(OnceLock::get).enumerate();
        let mut found = blocks.filter_map(|(number, block)| {
            let offset = pointer.addr().checked_sub(block.as_ptr().addr())?;
            let index = offset / size_of::<Place<T>>();
            (index < block.len() && offset.is_multiple_of(size_of::<Place<T>>())).then_some((number, index))
        });
        found.next()
    }
}

#[cfg(test)]
mod tests;
