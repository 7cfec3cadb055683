//! Envoy's C interface for dynamic modules, as far as the filter needs it, and safe wrappers.
//!
//! Source: Envoy's `source/extensions/dynamic_modules/abi/abi.h`, which does not change once released, so one library
//! works in every Envoy from 1.38 on. Secrets, calls and cluster specifiers need a newer one. Loading looks callbacks
//! up: an Envoy without an optional one works without it, and without any other one refuses the library and names the
//! callback.
//!
//! Five rules make the unsafe code sound:
//! 1. Handles that Envoy passes to a hook are valid until that hook returns. [`EnvoyFilterConfig`], [`EnvoyFilter`] and
//!    [`ClusterSelection`] hold them, exist in hooks only, and are neither `Send` nor `Sync`.
//! 2. Memory that Envoy lends is valid until the hook returns or something is set. Methods that return it borrow the
//!    [`EnvoyFilter`], and setters borrow it mutably, so the compiler keeps the two apart. Setters also forget the
//!    fields that it has kept.
//! 3. A configuration is an `Arc<ModulePlugin>` and a stream is a `Box<Option<ModuleStream>>`. Envoy destroys each
//!    once, and calls the hooks of a stream from one thread, one at a time.
//! 4. The configuration of a route is a `Box<PerRouteConfig>` in the [`Registry`], which knows the pointers of this
//!    module: Envoy may pass another module's. Envoy does not destroy it while a request uses it.
//! 5. The configuration of a cluster specifier is a `Box<Specifier>`, which nothing changes. Envoy passes it only to
//!    hooks of the module that made it, and destroys it once, when no request uses it.
//!
//! All unsafe code of the crate is in this file, so that a review reads one file.
#![allow(unsafe_code)]

mod registry;
mod words;

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use registry::Registry;
pub(crate) use words::{AttributeId, HeaderType, HostError, LogLevel, MetadataSource};
use words::{accepted, guard};

use limpet_core::Specifier;

use crate::plugin::{self, ModulePlugin, PerRouteConfig};
use crate::specifier;
use crate::stream::ModuleStream;

/// Bytes that Envoy or the module owns (`envoy_dynamic_module_type_{envoy,module}_buffer`, which have one layout).
#[repr(C)]
#[derive(Clone, Copy)]
struct Buffer {
    start: *const c_char,
    length: usize,
}

impl Buffer {
    const NONE: Self = Self {
        start: ptr::null(),
        length: 0,
    };

    /// Bytes for a callback, which must not keep them.
    fn lend(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr().cast(),
            length: bytes.len(),
        }
    }

    /// # Safety
    /// Envoy filled the buffer during this hook. During `'a`, the hook does not return and nothing is set.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: not null, and Envoy lends that many bytes, as the caller ensures (rule 2).
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.length) }
    }
}

macro_rules! callbacks {
    ($(#[$about:meta])* $table:ident {
        $($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*
    }) => {
        $(#[$about])*
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl $table {
            fn find() -> Result<Self, &'static CStr> {
                Ok(Self { $($name: {
                    let name = callback_name!($name);
                    let found = find(name).ok_or(name)?;
                    // SAFETY: Envoy exports a function of this C type under this name, and never changes it.
                    unsafe {
                        std::mem::transmute::<
                            *const c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $answer)?,
                        >(found.as_ptr())
                    }
                },)* })
            }
        }
    };
}

macro_rules! callback_name {
    ($name:ident) => {{
        const NAME: &CStr = match CStr::from_bytes_with_nul(
            concat!("envoy_dynamic_module_callback_", stringify!($name), "\0").as_bytes(),
        ) {
            Ok(name) => name,
            Err(_) => c"",
        };
        NAME
    }};
}

callbacks! {
    /// Functions of Envoy, without the prefix `envoy_dynamic_module_callback_`.
    Callbacks {
        log: fn(c_int, Buffer);
        http_get_headers_size: fn(*mut c_void, c_int) -> usize;
        http_get_headers: fn(*mut c_void, c_int, *mut HeaderField) -> bool;
        http_set_header: fn(*mut c_void, c_int, Buffer, Buffer) -> bool;
        http_add_header: fn(*mut c_void, c_int, Buffer, Buffer) -> bool;
        http_filter_get_attribute_string: fn(*mut c_void, c_int, *mut Buffer) -> bool;
        get_most_specific_route_config: fn(*mut c_void) -> *const c_void;
        http_get_cluster_name: fn(*mut c_void, *mut Buffer) -> bool;
        http_clear_route_cache: fn(*mut c_void);
        http_get_metadata_string: fn(*mut c_void, c_int, Buffer, Buffer, *mut Buffer) -> bool;
        http_set_filter_state_bytes: fn(*mut c_void, Buffer, Buffer) -> bool;
        http_set_filter_state_typed: fn(*mut c_void, Buffer, Buffer) -> bool;
        http_set_upstream_override_host: fn(*mut c_void, Buffer, bool) -> bool;
        http_filter_config_define_counter: fn(*mut c_void, Buffer, *mut Buffer, usize, *mut usize) -> c_int;
        http_filter_increment_counter: fn(*mut c_void, usize, *mut Buffer, usize, u64) -> c_int;
    }
}

callbacks! {
    /// Functions for secrets, from Envoy 1.40 on.
    #[expect(clippy::struct_field_names, reason = "Envoy's names")]
    SecretCallbacks {
        http_filter_config_generic_secret_subscribe: fn(*mut c_void, Buffer, Buffer) -> usize;
        http_filter_config_get_generic_secret: fn(*mut c_void, usize, *mut Buffer) -> bool;
        http_filter_get_generic_secret: fn(*mut c_void, usize, *mut Buffer) -> bool;
    }
}

callbacks! {
    /// Functions for calls, which not every Envoy has.
    #[expect(clippy::struct_field_names, reason = "Envoy's names")]
    CallCallbacks {
        http_filter_config_scheduler_new: fn(*mut c_void) -> *mut c_void;
        http_filter_config_scheduler_delete: fn(*mut c_void);
        http_filter_config_scheduler_commit: fn(*mut c_void, u64);
        http_filter_config_http_callout:
            fn(*mut c_void, *mut u64, Buffer, *const HeaderField, usize, Buffer, u64) -> c_int;
    }
}

callbacks! {
    /// Functions for cluster specifiers, from Envoy 1.40 on.
    SpecifierCallbacks {
        cluster_specifier_get_dynamic_metadata: fn(*mut c_void, Buffer, Buffer, *mut Buffer) -> bool;
        cluster_specifier_get_random_value: fn(*mut c_void) -> u64;
        cluster_specifier_set_cluster_name: fn(*mut c_void, Buffer);
        http_set_dynamic_metadata_string: fn(*mut c_void, Buffer, Buffer, Buffer);
        http_clear_route_cluster_cache: fn(*mut c_void);
    }
}

/// A header field that Envoy or the module owns (`envoy_dynamic_module_type_{envoy,module}_http_header`).
#[repr(C)]
#[derive(Clone, Copy)]
struct HeaderField {
    name: Buffer,
    value: Buffer,
}

/// All headers of a request or response. For one by its name, Envoy would build an index of all, at a higher cost than
/// all other callbacks of this filter.
struct HeaderFields(Vec<HeaderField>);

impl Drop for HeaderFields {
    fn drop(&mut self) {
        let mut fields = std::mem::take(&mut self.0);
        if fields.capacity() <= MAX_SPARE_FIELDS {
            fields.clear();
            // Fails while the thread ends.
            let _ = SPARE_FIELDS.try_with(|spare| spare.set(fields));
        }
    }
}

/// Set before Envoy calls any other hook.
static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();

/// Set with [`CALLBACKS`], like the next two, if Envoy has them.
static SECRET_CALLBACKS: OnceLock<SecretCallbacks> = OnceLock::new();

static CALL_CALLBACKS: OnceLock<CallCallbacks> = OnceLock::new();

static SPECIFIER_CALLBACKS: OnceLock<SpecifierCallbacks> = OnceLock::new();

static ROUTES: Registry<PerRouteConfig> = Registry::new();

/// Whether any route has a configuration for this library. If not, no request needs to search for one.
static ROUTES_CONFIGURED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Places of ended streams, for reuse.
    #[expect(clippy::vec_box, reason = "Envoy has the addresses of those that are in use")]
    static SPARE: RefCell<Vec<Box<Option<ModuleStream>>>> = const { RefCell::new(Vec::new()) };
    /// Memory for a hook's headers, for reuse.
    static SPARE_FIELDS: Cell<Vec<HeaderField>> = const { Cell::new(Vec::new()) };
}

const MAX_SPARE: usize = 128;
const MAX_SPARE_FIELDS: usize = 256;

unsafe extern "C" {
    /// POSIX. A null handle is `RTLD_DEFAULT` in every C library of Linux.
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

fn find(symbol: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: the name ends with a NUL, and looking up a symbol has no side effects.
    ptr::NonNull::new(unsafe { dlsym(ptr::null_mut(), symbol.as_ptr()) })
}

fn callbacks() -> Result<&'static Callbacks, HostError> {
    CALLBACKS
        .get()
        .ok_or(HostError("every callback: it did not initialise the module"))
}

fn secret_callbacks() -> Result<&'static SecretCallbacks, HostError> {
    SECRET_CALLBACKS
        .get()
        .ok_or(HostError("secrets: it is older than 1.40"))
}

fn specifier_callbacks() -> Result<&'static SpecifierCallbacks, HostError> {
    SPECIFIER_CALLBACKS
        .get()
        .ok_or(HostError("cluster specifiers: it is older than 1.40"))
}

pub(crate) fn has_specifiers() -> bool {
    SPECIFIER_CALLBACKS.get().is_some()
}

pub(crate) fn has_secrets() -> bool {
    SECRET_CALLBACKS.get().is_some()
}

pub(crate) fn log(level: LogLevel, line: &str) {
    if let Ok(callbacks) = callbacks() {
        // SAFETY: Envoy reads the line before it returns.
        unsafe { (callbacks.log)(level as c_int, Buffer::lend(line.as_bytes())) };
    }
}

pub(crate) fn is_1_40() -> bool {
    find(callback_name!(log_v2)).is_some()
}

pub(crate) struct EnvoyFilterConfig<'a> {
    handle: *mut c_void,
    hook: PhantomData<&'a ()>,
}

/// Makes Envoy call `envoy_dynamic_module_on_http_filter_config_scheduled`, from any thread.
#[derive(Debug)]
pub(crate) struct Scheduler(ptr::NonNull<c_void>);

// SAFETY: the scheduler only posts to the main thread, which any thread may do.
unsafe impl Send for Scheduler {}

impl Scheduler {
    pub(crate) fn commit(&self) {
        if let Some(callbacks) = CALL_CALLBACKS.get() {
            // SAFETY: Envoy made it, and it is not deleted yet.
            unsafe { (callbacks.http_filter_config_scheduler_commit)(self.0.as_ptr(), 0) };
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(callbacks) = CALL_CALLBACKS.get() {
            // SAFETY: Envoy made it, and it is not used after this.
            unsafe { (callbacks.http_filter_config_scheduler_delete)(self.0.as_ptr()) };
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter(usize);

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SecretId(usize);

impl EnvoyFilterConfig<'_> {
    /// Defines a counter, only while Envoy creates a configuration.
    pub(crate) fn counter(&self, name: &str) -> Result<Counter, HostError> {
        let callbacks = callbacks()?;
        let mut id = 0;
        let name = Buffer::lend(name.as_bytes());
        // SAFETY: rule 1; no labels, and Envoy copies the name.
        let result = unsafe {
            (callbacks.http_filter_config_define_counter)(self.handle, name, ptr::null_mut(), 0, &raw mut id)
        };
        accepted(result == 0, "a counter").map(|()| Counter(id))
    }

    pub(crate) fn scheduler(&self) -> Option<Scheduler> {
        let callbacks = CALL_CALLBACKS.get()?;
        // SAFETY: rule 1.
        let scheduler = unsafe { (callbacks.http_filter_config_scheduler_new)(self.handle) };
        ptr::NonNull::new(scheduler).map(Scheduler)
    }

    /// Begins a POST to a cluster, on Envoy's main thread only. The answer comes to
    /// `envoy_dynamic_module_on_http_filter_config_http_callout_done`.
    pub(crate) fn call(
        &self,
        cluster: &str,
        fields: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Result<(), HostError> {
        let callbacks = CALL_CALLBACKS.get().ok_or(HostError("calls of a configuration"))?;
        let lent = |text: &str| Buffer::lend(text.as_bytes());
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| HeaderField {
                name: lent(name),
                value: lent(value),
            })
            .collect();
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let mut id = 0;
        // SAFETY: rule 1; Envoy copies cluster, fields and body.
        let result = unsafe {
            (callbacks.http_filter_config_http_callout)(
                self.handle,
                &raw mut id,
                lent(cluster),
                fields.as_ptr(),
                fields.len(),
                Buffer::lend(body),
                millis,
            )
        };
        accepted(result == 0, "a call")
    }

    /// Subscribes to a secret, only while Envoy creates a configuration. `source` is a `ConfigSource` in JSON, or empty
    /// for a secret of the bootstrap configuration.
    pub(crate) fn subscribe(&self, name: &str, source: &str) -> Result<SecretId, HostError> {
        let callbacks = secret_callbacks()?;
        let (name, source) = (Buffer::lend(name.as_bytes()), Buffer::lend(source.as_bytes()));
        // SAFETY: rule 1; Envoy copies name and source.
        let id = unsafe { (callbacks.http_filter_config_generic_secret_subscribe)(self.handle, name, source) };
        accepted(id != 0, "a secret").map(|()| SecretId(id))
    }

    /// The current content of a secret; `None` until it arrives.
    pub(crate) fn secret(&self, SecretId(id): SecretId) -> Result<Option<&[u8]>, HostError> {
        let callbacks = secret_callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: rule 1; Envoy fills in the answer.
        let found = unsafe { (callbacks.http_filter_config_get_generic_secret)(self.handle, id, &raw mut answer) };
        // SAFETY: Envoy has filled it, and nothing sets a secret during this hook (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }
}

pub(crate) enum PerRouteLookup<'a> {
    None,
    Ours(&'a PerRouteConfig),
    /// Another module made it.
    Unknown,
}

pub(crate) struct EnvoyFilter<'a> {
    handle: *mut c_void,
    /// The fields of request and response, read once, until something is set.
    fields: [OnceCell<HeaderFields>; 2],
    hook: PhantomData<&'a ()>,
}

impl EnvoyFilter<'_> {
    fn new(handle: *mut c_void) -> Self {
        Self {
            handle,
            fields: [const { OnceCell::new() }; 2],
            hook: PhantomData,
        }
    }

    /// The fields of this lower-case name, in order.
    pub(crate) fn fields(&self, of: HeaderType, name: &str) -> Result<impl Iterator<Item = &[u8]>, HostError> {
        let [request, response] = &self.fields;
        let known = match of {
            HeaderType::Request => request,
            HeaderType::Response => response,
        };
        if known.get().is_none() {
            let _ = known.set(self.all_fields(of)?);
        }
        let fields = known.get().map_or(&[][..], |HeaderFields(fields)| fields);
        // SAFETY: Envoy has filled them in, and setters forget them before (rule 2).
        let is_named = move |field: &&HeaderField| unsafe { field.name.bytes() } == name.as_bytes();
        // SAFETY: as above.
        Ok(fields
            .iter()
            .filter(is_named)
            .map(|field| unsafe { field.value.bytes() }))
    }

    fn all_fields(&self, of: HeaderType) -> Result<HeaderFields, HostError> {
        let callbacks = callbacks()?;
        let mut fields = HeaderFields(SPARE_FIELDS.try_with(Cell::take).unwrap_or_default());
        // SAFETY: rule 1.
        let count = unsafe { (callbacks.http_get_headers_size)(self.handle, of as c_int) };
        fields.0.clear();
        fields.0.reserve(count);
        // SAFETY: rule 1; there is room for `count` fields.
        let found = unsafe { (callbacks.http_get_headers)(self.handle, of as c_int, fields.0.as_mut_ptr()) };
        if found {
            // SAFETY: Envoy has filled in each one.
            unsafe { fields.0.set_len(count) };
        }
        Ok(fields)
    }

    /// The callbacks for a setter, which invalidates what Envoy lent.
    fn setting(&mut self) -> Result<&'static Callbacks, HostError> {
        self.fields = [const { OnceCell::new() }; 2];
        callbacks()
    }

    pub(crate) fn set_header(&mut self, of: HeaderType, name: &str, value: &[u8]) -> Result<(), HostError> {
        // Some versions of Envoy take an empty value for a removal.
        accepted(!value.is_empty(), "an empty header")?;
        self.put_header(of, name, Buffer::lend(value))
    }

    pub(crate) fn remove_header(&mut self, of: HeaderType, name: &str) -> Result<(), HostError> {
        self.put_header(of, name, Buffer::NONE)
    }

    fn put_header(&mut self, of: HeaderType, name: &str, value: Buffer) -> Result<(), HostError> {
        let callbacks = self.setting()?;
        let name = Buffer::lend(name.as_bytes());
        // SAFETY: rule 1; Envoy copies name and value.
        let did = unsafe { (callbacks.http_set_header)(self.handle, of as c_int, name, value) };
        accepted(did, "a change of a header")
    }

    pub(crate) fn add_header(&mut self, of: HeaderType, name: &str, value: &[u8]) -> Result<(), HostError> {
        let callbacks = self.setting()?;
        let (name, value) = (Buffer::lend(name.as_bytes()), Buffer::lend(value));
        // SAFETY: rule 1; Envoy copies name and value.
        let did = unsafe { (callbacks.http_add_header)(self.handle, of as c_int, name, value) };
        accepted(did, "a new header")
    }

    pub(crate) fn attribute(&self, attribute: AttributeId) -> Result<Option<&[u8]>, HostError> {
        let callbacks = callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: rule 1; Envoy fills in the answer.
        let found =
            unsafe { (callbacks.http_filter_get_attribute_string)(self.handle, attribute as c_int, &raw mut answer) };
        // SAFETY: Envoy has filled it; nothing is set during this borrow (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// The routed cluster's name, if it exists.
    pub(crate) fn cluster_name(&self) -> Result<Option<&[u8]>, HostError> {
        let callbacks = callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: rule 1; Envoy fills in the answer.
        let found = unsafe { (callbacks.http_get_cluster_name)(self.handle, &raw mut answer) };
        // SAFETY: Envoy has filled it; nothing is set during this borrow (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// Makes Envoy match the request again when its route is needed next.
    pub(crate) fn clear_route_cache(&mut self) -> Result<(), HostError> {
        let callbacks = self.setting()?;
        // SAFETY: rule 1.
        unsafe { (callbacks.http_clear_route_cache)(self.handle) };
        Ok(())
    }

    pub(crate) fn set_metadata(&mut self, namespace: &str, key: &str, value: &str) -> Result<(), HostError> {
        let callbacks = specifier_callbacks()?;
        self.setting()?;
        let [namespace, key, value] = [namespace, key, value].map(|text| Buffer::lend(text.as_bytes()));
        // SAFETY: rule 1; Envoy copies namespace, key and value.
        unsafe { (callbacks.http_set_dynamic_metadata_string)(self.handle, namespace, key, value) };
        Ok(())
    }

    pub(crate) fn choose_again(&mut self) -> Result<(), HostError> {
        let callbacks = specifier_callbacks()?;
        self.setting()?;
        // SAFETY: rule 1. If Envoy calls this library's specifier before it returns, that touches
        // neither the exchange nor the stream.
        unsafe { (callbacks.http_clear_route_cluster_cache)(self.handle) };
        Ok(())
    }

    /// The route's, virtual host's or route configuration's configuration for this filter.
    pub(crate) fn per_route_config(&self) -> Result<PerRouteLookup<'_>, HostError> {
        if !ROUTES_CONFIGURED.load(Ordering::Relaxed) {
            return Ok(PerRouteLookup::None);
        }
        let callbacks = callbacks()?;
        // SAFETY: rule 1.
        let pointer = unsafe { (callbacks.get_most_specific_route_config)(self.handle) };
        if pointer.is_null() {
            return Ok(PerRouteLookup::None);
        }
        Ok(match ROUTES.find(pointer) {
            // SAFETY: in the registry, so a `Box<PerRouteConfig>`. Envoy returned it for this request's route, and does
            // not destroy it during this hook (rule 4).
            Some(config) => PerRouteLookup::Ours(unsafe { config.as_ref() }),
            None => PerRouteLookup::Unknown,
        })
    }

    pub(crate) fn metadata(&self, of: MetadataSource, namespace: &str, key: &str) -> Result<Option<&[u8]>, HostError> {
        let callbacks = callbacks()?;
        let mut answer = Buffer::NONE;
        let (namespace, key) = (Buffer::lend(namespace.as_bytes()), Buffer::lend(key.as_bytes()));
        // SAFETY: rule 1; Envoy fills in the answer.
        let found =
            unsafe { (callbacks.http_get_metadata_string)(self.handle, of as c_int, namespace, key, &raw mut answer) };
        // SAFETY: Envoy has filled it; nothing is set during this borrow (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    pub(crate) fn secret(&self, SecretId(id): SecretId) -> Result<Option<&[u8]>, HostError> {
        let callbacks = secret_callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: rule 1; Envoy fills in the answer.
        let found = unsafe { (callbacks.http_filter_get_generic_secret)(self.handle, id, &raw mut answer) };
        // SAFETY: Envoy has filled it, and a worker gets a new secret only between hooks (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// Sends the request to this host. If that is not available, a `strict` request fails and any other is
    /// load-balanced.
    pub(crate) fn override_host(&mut self, host: &[u8], strict: bool) -> Result<(), HostError> {
        let callbacks = self.setting()?;
        let host = Buffer::lend(host);
        // SAFETY: rule 1; Envoy copies the host.
        let did = unsafe { (callbacks.http_set_upstream_override_host)(self.handle, host, strict) };
        accepted(did, "an upstream override host")
    }

    /// Sets a string for access logs. Envoy keeps the first value of each key.
    pub(crate) fn set_filter_state(&mut self, key: &str, value: &str) -> Result<(), HostError> {
        let callbacks = self.setting()?;
        let (key, value) = (Buffer::lend(key.as_bytes()), Buffer::lend(value.as_bytes()));
        // SAFETY: rule 1; Envoy copies key and value.
        let did = unsafe { (callbacks.http_set_filter_state_bytes)(self.handle, key, value) };
        accepted(did, "filter state")
    }

    pub(crate) fn set_typed_filter_state(&mut self, key: &str, value: &str) -> Result<(), HostError> {
        let callbacks = self.setting()?;
        let (key, value) = (Buffer::lend(key.as_bytes()), Buffer::lend(value.as_bytes()));
        // SAFETY: rule 1; Envoy copies key and value.
        let did = unsafe { (callbacks.http_set_filter_state_typed)(self.handle, key, value) };
        accepted(did, "typed filter state")
    }

    /// Increments a counter, if there is one. A failure must not fail the request.
    pub(crate) fn count(&self, counter: Option<&Counter>) {
        if let (Some(counter), Ok(callbacks)) = (counter, callbacks()) {
            // SAFETY: rule 1; no labels.
            unsafe { (callbacks.http_filter_increment_counter)(self.handle, counter.0, ptr::null_mut(), 0, 1) };
        }
    }
}

pub(crate) struct ClusterSelection<'a> {
    callbacks: &'static SpecifierCallbacks,
    handle: *mut c_void,
    hook: PhantomData<&'a ()>,
}

impl ClusterSelection<'_> {
    pub(crate) fn metadata(&self, namespace: &str, key: &str) -> Option<&[u8]> {
        let mut answer = Buffer::NONE;
        let [namespace, key] = [namespace, key].map(|text| Buffer::lend(text.as_bytes()));
        // SAFETY: rule 1; Envoy fills in the answer.
        let found = unsafe {
            (self.callbacks.cluster_specifier_get_dynamic_metadata)(self.handle, namespace, key, &raw mut answer)
        };
        // SAFETY: Envoy has filled it, and dynamic metadata is not set while a cluster is chosen (rule 2).
        found.then(|| unsafe { answer.bytes() })
    }

    /// A random number, the same for each choice of a cluster on the request's route.
    pub(crate) fn random(&self) -> u64 {
        // SAFETY: rule 1.
        unsafe { (self.callbacks.cluster_specifier_get_random_value)(self.handle) }
    }

    fn set_cluster(&self, name: &str) {
        // SAFETY: rule 1; Envoy copies the name.
        unsafe { (self.callbacks.cluster_specifier_set_cluster_name)(self.handle, Buffer::lend(name.as_bytes())) };
    }
}

/// Runs a hook of a stream. If it panics, the request continues as it is and is counted.
///
/// # Safety
/// `http_filter_new` returned `stream`, it is not destroyed, and Envoy passed `handle` with it.
unsafe fn about(
    handle: *mut c_void,
    stream: *const c_void,
    hook: impl FnOnce(&mut ModuleStream, &mut EnvoyFilter<'_>),
) {
    let mut exchange = EnvoyFilter::new(handle);
    // SAFETY: a `Box<Option<ModuleStream>>` of this module without another reference (rule 3).
    if let Some(Some(stream)) = unsafe { stream.cast::<Option<ModuleStream>>().cast_mut().as_mut() }
        && guard(|| hook(stream, &mut exchange)).is_none()
    {
        guard(|| stream.abort(&exchange));
    }
}

/// `Continue` in every status type.
const CONTINUE: c_int = 0;

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    let ready = guard(|| match Callbacks::find() {
        Ok(found) => {
            // Envoy calls this hook once.
            let _ = CALLBACKS.set(found);
            if let Ok(found) = SecretCallbacks::find() {
                let _ = SECRET_CALLBACKS.set(found);
            }
            if let Ok(found) = CallCallbacks::find() {
                let _ = CALL_CALLBACKS.set(found);
            }
            if let Ok(found) = SpecifierCallbacks::find() {
                let _ = SPECIFIER_CALLBACKS.set(found);
            }
            true
        }
        Err(missing) => {
            // The callback for logging may be missing.
            eprintln!(
                "limpet: this Envoy is too old for Limpet's dynamic module, which needs 1.38 or newer: it has no {}",
                missing.to_string_lossy()
            );
            false
        }
    });
    match ready {
        // The version of the interface. Envoy warns if it is not its own.
        Some(true) if is_1_40() => c"v0.2.0".as_ptr(),
        Some(true) => c"v0.1.0".as_ptr(),
        _ => ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    handle: *mut c_void,
    _name: Buffer,
    config: Buffer,
) -> *const c_void {
    let configuring = EnvoyFilterConfig {
        handle,
        hook: PhantomData,
    };
    // SAFETY: lent to this hook (rule 2).
    let plugin = guard(|| plugin::configure(&configuring, unsafe { config.bytes() }));
    match plugin.flatten() {
        Some(plugin) => Arc::into_raw(Arc::new(plugin)).cast(),
        None => ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: *const c_void) {
    // SAFETY: Envoy returns the reference of `config_new` once (rule 3).
    guard(|| {
        let plugin = unsafe { Arc::from_raw(config.cast::<ModulePlugin>()) };
        // Streams may hold the plugin for longer, but Envoy may unload the library once it holds no configuration.
        plugin.unregister();
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    handle: *mut c_void,
    config: *const c_void,
    _event: u64,
) {
    let configured = EnvoyFilterConfig {
        handle,
        hook: PhantomData,
    };
    // SAFETY: an `Arc<ModulePlugin>` that Envoy still holds (rule 3).
    let plugin = unsafe { &*config.cast::<ModulePlugin>() };
    guard(|| plugin.on_schedule(&configured));
}

/// The answer to [`EnvoyFilterConfig::call`].
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
    _handle: *mut c_void,
    config: *const c_void,
    _call: u64,
    result: c_int,
    fields: *const HeaderField,
    count: usize,
    chunks: *const Buffer,
    chunk_count: usize,
) {
    // SAFETY: an `Arc<ModulePlugin>` that Envoy still holds (rule 3).
    let plugin = unsafe { &*config.cast::<ModulePlugin>() };
    let fields = if fields.is_null() {
        &[]
    } else {
        // SAFETY: not null, and Envoy lends that many fields to this hook (rule 2).
        unsafe { std::slice::from_raw_parts(fields, count) }
    };
    // SAFETY: lent to this hook (rule 2).
    let fields = fields
        .iter()
        .map(|field| unsafe { (field.name.bytes(), field.value.bytes()) });
    let chunks = if chunks.is_null() {
        &[]
    } else {
        // SAFETY: not null, and Envoy lends that many chunks to this hook (rule 2).
        unsafe { std::slice::from_raw_parts(chunks, chunk_count) }
    };
    // SAFETY: lent to this hook (rule 2).
    let body: Vec<u8> = chunks
        .iter()
        .flat_map(|chunk| unsafe { chunk.bytes() })
        .copied()
        .collect();
    guard(|| plugin.on_answer(result == 0, fields, &body));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    _name: Buffer,
    config: Buffer,
) -> *const c_void {
    // Set before any worker sees the route.
    ROUTES_CONFIGURED.store(true, Ordering::Relaxed);
    // SAFETY: lent to this hook (rule 2).
    let pointer = guard(|| {
        plugin::configure_per_route(unsafe { config.bytes() }).and_then(|config| ROUTES.insert(config.into()))
    });
    pointer.flatten().unwrap_or(ptr::null())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(config: *const c_void) {
    if let Some(config) = ROUTES.remove(config) {
        // SAFETY: a `Box<PerRouteConfig>` that has just left the registry (rule 4).
        guard(|| drop(unsafe { Box::from_raw(config.as_ptr()) }));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_specifier_config_new(
    _handle: *mut c_void,
    _name: Buffer,
    config: Buffer,
) -> *const c_void {
    // SAFETY: lent to this hook (rule 2).
    let specifier = guard(|| specifier::configure(unsafe { config.bytes() }));
    match specifier.flatten() {
        Some(specifier) => Box::into_raw(Box::new(specifier)).cast_const().cast(),
        None => ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_specifier_config_destroy(config: *const c_void) {
    // SAFETY: Envoy returns the `Box<Specifier>` of `config_new` once (rule 5).
    guard(|| drop(unsafe { Box::from_raw(config.cast::<Specifier>().cast_mut()) }));
}

/// Returns whether a cluster was chosen. If not, Envoy keeps the previous one.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_specifier_select(
    config: *const c_void,
    handle: *mut c_void,
) -> bool {
    let Ok(callbacks) = specifier_callbacks() else {
        return false;
    };
    let choosing = ClusterSelection {
        callbacks,
        handle,
        hook: PhantomData,
    };
    // SAFETY: a `Box<Specifier>` that Envoy still holds (rule 5).
    let specifier = unsafe { &*config.cast::<Specifier>() };
    guard(|| choosing.set_cluster(specifier::choose(specifier, &choosing))).is_some()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config: *const c_void,
    handle: *mut c_void,
) -> *const c_void {
    let config = config.cast::<ModulePlugin>();
    // SAFETY: an `Arc<ModulePlugin>` that Envoy still holds (rule 3). The stream gets its own reference.
    let plugin = unsafe {
        Arc::increment_strong_count(config);
        Arc::from_raw(config)
    };
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
    let mut place = spare.ok().flatten().unwrap_or_default();
    if guard(|| *place = Some(ModuleStream::new(plugin))).is_none() {
        let exchange = EnvoyFilter::new(handle);
        // SAFETY: Envoy still holds the configuration (rule 3).
        let plugin = unsafe { &*config };
        guard(|| exchange.count(plugin.counters.host_errors()));
    }
    // Never null, for which Envoy would answer 500.
    Box::into_raw(place).cast_const().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(stream: *const c_void) {
    // SAFETY: Envoy returns the `Box<Option<ModuleStream>>` of `http_filter_new` once (rule 3).
    guard(|| {
        let mut place = unsafe { Box::from_raw(stream.cast::<Option<ModuleStream>>().cast_mut()) };
        *place = None;
        // Fails while the thread ends.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE {
                spare.push(place);
            }
        });
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    handle: *mut c_void,
    stream: *const c_void,
    _: bool,
) -> c_int {
    // SAFETY: handle and stream belong together (rules 1 and 3).
    unsafe { about(handle, stream, ModuleStream::on_request) };
    CONTINUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    handle: *mut c_void,
    stream: *const c_void,
    _: bool,
) -> c_int {
    // SAFETY: handle and stream belong together (rules 1 and 3).
    unsafe { about(handle, stream, ModuleStream::on_response) };
    CONTINUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_local_reply(
    handle: *mut c_void,
    stream: *const c_void,
    _status: u32,
    details: Buffer,
    _reset_imminent: bool,
) -> c_int {
    // SAFETY: handle and stream belong together (rules 1 and 3), and Envoy lends the details (rule 2).
    unsafe { about(handle, stream, |stream, _| stream.on_local_reply(details.bytes())) };
    CONTINUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(handle: *mut c_void, stream: *const c_void) {
    // SAFETY: handle and stream belong together (rules 1 and 3).
    unsafe { about(handle, stream, ModuleStream::on_complete) };
}

macro_rules! idle_hooks {
    ($($name:ident($($argument:ty),*) $(-> $answer:ident)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $argument),*) $(-> idle_hooks!(@type $answer))? {
                $(idle_hooks!(@value $answer))?
            }
        )*
    };
    (@type CONTINUE) => { c_int };
    (@value CONTINUE) => { CONTINUE };
}

idle_hooks! {
    envoy_dynamic_module_on_http_filter_request_body(*mut c_void, *const c_void, bool) -> CONTINUE;
    envoy_dynamic_module_on_http_filter_request_trailers(*mut c_void, *const c_void) -> CONTINUE;
    envoy_dynamic_module_on_http_filter_response_body(*mut c_void, *const c_void, bool) -> CONTINUE;
    envoy_dynamic_module_on_http_filter_response_trailers(*mut c_void, *const c_void) -> CONTINUE;
    envoy_dynamic_module_on_http_filter_scheduled(*mut c_void, *const c_void, u64);
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(*mut c_void, *const c_void);
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(*mut c_void, *const c_void);
    envoy_dynamic_module_on_http_filter_http_callout_done(
        *mut c_void, *const c_void, u64, c_int, *const c_void, usize, *const c_void, usize
    );
    envoy_dynamic_module_on_http_filter_http_stream_headers(
        *mut c_void, *const c_void, u64, *const c_void, usize, bool
    );
    envoy_dynamic_module_on_http_filter_http_stream_data(*mut c_void, *const c_void, u64, *const c_void, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_trailers(*mut c_void, *const c_void, u64, *const c_void, usize);
    envoy_dynamic_module_on_http_filter_http_stream_complete(*mut c_void, *const c_void, u64);
    envoy_dynamic_module_on_http_filter_http_stream_reset(*mut c_void, *const c_void, u64, c_int);
}

#[cfg(test)]
mod tests;
