//! The one host call that the SDK makes too expensive: it copies each name and field of a header map. All unsafe code
//! of this crate is here, but for the entry macro.
#![allow(unsafe_code)]

use proxy_wasm::types::{MapType, Status};

#[cfg_attr(target_arch = "wasm32", link(wasm_import_module = "env"))]
unsafe extern "C" {
    /// Writes a buffer ([`crate::headers`]) and its size in bytes. Returns a number, because hosts may have a
    /// [`Status`] that the SDK lacks.
    fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
}

pub(crate) fn header_pairs(map: MapType) -> Result<Box<[u8]>, Status> {
    let (mut data, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the host writes to both pointers, which are valid during the call.
    let status = unsafe { proxy_get_header_map_pairs(map as u32, &raw mut data, &raw mut size) };
    if status != Status::Ok as u32 {
        return Err(Status::InternalFailure);
    }
    if data.is_null() {
        return Ok(Box::default());
    }
    // SAFETY: the host got `data` from the SDK's `proxy_on_memory_allocate(size)`, which leaks a boxed slice of `size`
    // bytes of the same allocator. The host has written all of them, and gives the buffer away.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)) })
}
