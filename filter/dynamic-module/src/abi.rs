//! Envoy's C interface for dynamic modules, as much of it as is needed, and safe wrappers around it.
//!
//! Written from Envoy's `source/extensions/dynamic_modules/abi/abi.h`. Everything used here is in 1.38, but for
//! secrets, and Envoy keeps what it has released: one library serves every Envoy from 1.38 on. Callbacks are looked up
//! when the library is loaded, so an Envoy that lacks one refuses the library with a message that says which; one that
//! lacks those for secrets serves without.
//!
//! Three rules make the unsafe code sound:
//! 1. Handles that Envoy passes to a hook are valid until that hook returns. [`Configuring`] and [`Exchange`] hold
//!    them, live in hooks only, and are neither `Send` nor `Sync`.
//! 2. Memory that Envoy lends is valid until the hook returns or something is set. What asks for it borrows the
//!    [`Exchange`], what sets something borrows it mutably, so the compiler keeps the two apart.
//! 3. A configuration is an `Arc<Plugin>`, a route's a `Box<PerRouteConfig>` and a stream a `Box<Option<Stream>>` while
//!    Envoy holds them. It destroys each once, a route's not while a request is on it, and calls about a stream from
//!    one thread, one hook at a time.
#![allow(unsafe_code)]

mod words;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) use words::{Attribute, Headers, HostError, Level, Metadata};
use words::{accepted, guard};

use crate::plugin::{self, PerRouteConfig, Plugin};
use crate::stream::Stream;

/// Bytes that Envoy owns, or that we own (`envoy_dynamic_module_type_{envoy,module}_buffer`: one layout).
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

    /// Lends bytes to a callback, which does not keep them.
    fn lend(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr().cast(),
            length: bytes.len(),
        }
    }

    /// What Envoy lends.
    ///
    /// # Safety
    /// The buffer is one that Envoy filled during this hook, and for as long as `'a` the hook goes on and nothing is
    /// set.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: not null, and by the caller's promise Envoy lends that many bytes (rule 2).
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.length) }
    }
}

/// Declares a table of callbacks, and how it is filled.
macro_rules! callbacks {
    ($(#[$about:meta])* $table:ident {
        $($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*
    }) => {
        $(#[$about])*
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl $table {
            /// Finds them all in this process; otherwise the name of the first that is missing.
            fn find() -> Result<Self, &'static CStr> {
                Ok(Self { $($name: {
                    let name = callback_name!($name);
                    let found = find(name).ok_or(name)?;
                    // SAFETY: Envoy exports a function of this C type under this name, and never changes a released
                    // one.
                    unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) $(-> $answer)?>(found.as_ptr())
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
    /// Functions of Envoy's own, without their prefix `envoy_dynamic_module_callback_`.
    Callbacks {
        log: fn(c_int, Buffer);
        http_get_header: fn(*mut c_void, c_int, Buffer, *mut Buffer, usize, *mut usize) -> bool;
        http_set_header: fn(*mut c_void, c_int, Buffer, Buffer) -> bool;
        http_add_header: fn(*mut c_void, c_int, Buffer, Buffer) -> bool;
        http_filter_get_attribute_string: fn(*mut c_void, c_int, *mut Buffer) -> bool;
        get_most_specific_route_config: fn(*mut c_void) -> *const c_void;
        http_get_cluster_name: fn(*mut c_void, *mut Buffer) -> bool;
        http_clear_route_cache: fn(*mut c_void);
        http_get_metadata_string: fn(*mut c_void, c_int, Buffer, Buffer, *mut Buffer) -> bool;
        http_set_filter_state_bytes: fn(*mut c_void, Buffer, Buffer) -> bool;
        http_set_upstream_override_host: fn(*mut c_void, Buffer, bool) -> bool;
        http_filter_config_define_counter: fn(*mut c_void, Buffer, *mut Buffer, usize, *mut usize) -> c_int;
        http_filter_increment_counter: fn(*mut c_void, usize, *mut Buffer, usize, u64) -> c_int;
    }
}

callbacks! {
    /// Those for secrets, from 1.40 on.
    #[expect(clippy::struct_field_names, reason = "Envoy's names")]
    SecretCallbacks {
        http_filter_config_generic_secret_subscribe: fn(*mut c_void, Buffer, Buffer) -> usize;
        http_filter_config_get_generic_secret: fn(*mut c_void, usize, *mut Buffer) -> bool;
        http_filter_get_generic_secret: fn(*mut c_void, usize, *mut Buffer) -> bool;
    }
}

/// Filled in before Envoy calls any other hook.
static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();

/// Filled in with the others, where this Envoy has them.
static SECRET_CALLBACKS: OnceLock<SecretCallbacks> = OnceLock::new();

/// Whether Envoy ever configured a route with this library. If not, it need not look through route, virtual host and
/// route configuration on every request.
static ROUTES_CONFIGURED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// POSIX. A null handle is `RTLD_DEFAULT` in every C library of Linux.
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

fn find(symbol: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: the name ends with a NUL, and looking up a symbol has no other effect.
    ptr::NonNull::new(unsafe { dlsym(ptr::null_mut(), symbol.as_ptr()) })
}

fn callbacks() -> Result<&'static Callbacks, HostError> {
    CALLBACKS
        .get()
        .ok_or(HostError("everything: it did not initialise the module"))
}

fn secret_callbacks() -> Result<&'static SecretCallbacks, HostError> {
    SECRET_CALLBACKS
        .get()
        .ok_or(HostError("secrets: it is older than 1.40"))
}

/// Whether this Envoy hands secrets to modules.
pub(crate) fn has_secrets() -> bool {
    SECRET_CALLBACKS.get().is_some()
}

/// Writes a line into Envoy's log.
pub(crate) fn log(level: Level, line: &str) {
    if let Ok(callbacks) = callbacks() {
        // SAFETY: Envoy reads the line before it returns.
        unsafe { (callbacks.log)(level as c_int, Buffer::lend(line.as_bytes())) };
    }
}

/// Whether this Envoy is 1.40 or newer.
pub(crate) fn is_1_40() -> bool {
    find(callback_name!(log_v2)).is_some()
}

/// A configuration in the making.
pub(crate) struct Configuring<'a> {
    handle: *mut c_void,
    hook: PhantomData<&'a ()>,
}

/// A counter that was defined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter(usize);

/// A secret that was asked for.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SecretId(usize);

impl Configuring<'_> {
    /// Defines a counter. Envoy allows that here and nowhere else.
    pub(crate) fn counter(&self, name: &str) -> Result<Counter, HostError> {
        let callbacks = callbacks()?;
        let mut id = 0;
        let name = Buffer::lend(name.as_bytes());
        // SAFETY: the handle is valid (rule 1); no labels, and Envoy copies the name.
        let result = unsafe {
            (callbacks.http_filter_config_define_counter)(self.handle, name, ptr::null_mut(), 0, &raw mut id)
        };
        accepted(result == 0, "a counter").map(|()| Counter(id))
    }

    /// Asks for a secret, now and whenever it changes. Envoy allows that here and nowhere else. `source` is a
    /// `ConfigSource` in JSON; empty for a secret of the bootstrap configuration.
    pub(crate) fn subscribe(&self, name: &str, source: &str) -> Result<SecretId, HostError> {
        let callbacks = secret_callbacks()?;
        let (name, source) = (Buffer::lend(name.as_bytes()), Buffer::lend(source.as_bytes()));
        // SAFETY: the handle is valid (rule 1), and Envoy copies name and source.
        let id = unsafe { (callbacks.http_filter_config_generic_secret_subscribe)(self.handle, name, source) };
        accepted(id != 0, "a secret").map(|()| SecretId(id))
    }

    /// A secret that was asked for, where it is there already.
    pub(crate) fn secret(&self, SecretId(id): SecretId) -> Result<Option<&[u8]>, HostError> {
        let callbacks = secret_callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: the handle is valid (rule 1); Envoy fills in the answer.
        let found = unsafe { (callbacks.http_filter_config_get_generic_secret)(self.handle, id, &raw mut answer) };
        // SAFETY: Envoy filled it in just now, and nothing sets a secret during this hook (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }
}

/// A request and its response, during a hook.
pub(crate) struct Exchange<'a> {
    handle: *mut c_void,
    hook: PhantomData<&'a ()>,
}

impl Exchange<'_> {
    /// The fields of this name, in order.
    pub(crate) fn fields(&self, of: Headers, name: &str) -> Result<impl Iterator<Item = &[u8]>, HostError> {
        let callbacks = callbacks()?;
        let (mut index, mut total) = (0, 1);
        Ok(std::iter::from_fn(move || {
            if index == total {
                return None;
            }
            let mut field = Buffer::NONE;
            let key = Buffer::lend(name.as_bytes());
            // SAFETY: the handle is valid (rule 1); Envoy fills in the field and the number of fields.
            let found = unsafe {
                (callbacks.http_get_header)(self.handle, of as c_int, key, &raw mut field, index, &raw mut total)
            };
            index += 1;
            // SAFETY: Envoy filled it in just now, and what sets something waits until this borrow ends (rule 2).
            found.then(|| unsafe { field.bytes() })
        }))
    }

    /// Puts one field in place of every field of this name.
    pub(crate) fn set_header(&mut self, of: Headers, name: &str, value: &[u8]) -> Result<(), HostError> {
        // Envoy takes an empty value for a removal, in some versions.
        accepted(!value.is_empty(), "an empty header")?;
        self.put_header(of, name, Buffer::lend(value))
    }

    /// Takes every field of this name away.
    pub(crate) fn remove_header(&mut self, of: Headers, name: &str) -> Result<(), HostError> {
        self.put_header(of, name, Buffer::NONE)
    }

    fn put_header(&mut self, of: Headers, name: &str, value: Buffer) -> Result<(), HostError> {
        let callbacks = callbacks()?;
        let name = Buffer::lend(name.as_bytes());
        // SAFETY: the handle is valid (rule 1), and Envoy copies name and value.
        let did = unsafe { (callbacks.http_set_header)(self.handle, of as c_int, name, value) };
        accepted(did, "a change of a header")
    }

    /// Puts one field behind those of this name.
    pub(crate) fn add_header(&mut self, of: Headers, name: &str, value: &[u8]) -> Result<(), HostError> {
        let callbacks = callbacks()?;
        let (name, value) = (Buffer::lend(name.as_bytes()), Buffer::lend(value));
        // SAFETY: the handle is valid (rule 1), and Envoy copies name and value.
        let did = unsafe { (callbacks.http_add_header)(self.handle, of as c_int, name, value) };
        accepted(did, "a new header")
    }

    /// What Envoy knows under this name; `None` where it knows nothing.
    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<Option<&[u8]>, HostError> {
        let callbacks = callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: the handle is valid (rule 1); Envoy fills in the answer.
        let found =
            unsafe { (callbacks.http_filter_get_attribute_string)(self.handle, attribute as c_int, &raw mut answer) };
        // SAFETY: Envoy filled it in just now, and what sets something waits until this borrow ends (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// The cluster that the route leads to; `None` where there is no such cluster.
    pub(crate) fn cluster_name(&self) -> Result<Option<&[u8]>, HostError> {
        let callbacks = callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: the handle is valid (rule 1); Envoy fills in the answer.
        let found = unsafe { (callbacks.http_get_cluster_name)(self.handle, &raw mut answer) };
        // SAFETY: Envoy filled it in just now, and what sets something waits until this borrow ends (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// Has the request matched with the routes again, when something of its route is asked for next.
    pub(crate) fn clear_route_cache(&mut self) -> Result<(), HostError> {
        let callbacks = callbacks()?;
        // SAFETY: the handle is valid (rule 1).
        unsafe { (callbacks.http_clear_route_cache)(self.handle) };
        Ok(())
    }

    /// What Envoy's own configuration of the route has for this filter.
    pub(crate) fn per_route_config(&self) -> Result<Option<&PerRouteConfig>, HostError> {
        if !ROUTES_CONFIGURED.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let callbacks = callbacks()?;
        // SAFETY: the handle is valid (rule 1). What is found is a `PerRouteConfig` of ours that outlives this hook
        // (rule 3).
        Ok(unsafe {
            (callbacks.get_most_specific_route_config)(self.handle)
                .cast::<PerRouteConfig>()
                .as_ref()
        })
    }

    /// A string in the metadata of the route or of the cluster that it leads to.
    pub(crate) fn metadata(&self, of: Metadata, namespace: &str, key: &str) -> Result<Option<&[u8]>, HostError> {
        let callbacks = callbacks()?;
        let mut answer = Buffer::NONE;
        let (namespace, key) = (Buffer::lend(namespace.as_bytes()), Buffer::lend(key.as_bytes()));
        // SAFETY: the handle is valid (rule 1); Envoy fills in the answer.
        let found =
            unsafe { (callbacks.http_get_metadata_string)(self.handle, of as c_int, namespace, key, &raw mut answer) };
        // SAFETY: Envoy filled it in just now, and what sets something waits until this borrow ends (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// A secret that was asked for, as it is now; `None` where it is not there yet.
    pub(crate) fn secret(&self, SecretId(id): SecretId) -> Result<Option<&[u8]>, HostError> {
        let callbacks = secret_callbacks()?;
        let mut answer = Buffer::NONE;
        // SAFETY: the handle is valid (rule 1); Envoy fills in the answer.
        let found = unsafe { (callbacks.http_filter_get_generic_secret)(self.handle, id, &raw mut answer) };
        // SAFETY: Envoy filled it in just now, and a worker gets a new secret between hooks only (rule 2).
        Ok(found.then(|| unsafe { answer.bytes() }))
    }

    /// Sends the request to this host, or to none if it is `strict`.
    pub(crate) fn override_host(&mut self, host: &str, strict: bool) -> Result<(), HostError> {
        let callbacks = callbacks()?;
        let host = Buffer::lend(host.as_bytes());
        // SAFETY: the handle is valid (rule 1), and Envoy copies the host.
        let did = unsafe { (callbacks.http_set_upstream_override_host)(self.handle, host, strict) };
        accepted(did, "an upstream override host")
    }

    /// Leaves a string for access logs. Envoy keeps the first that is set under a key.
    pub(crate) fn set_filter_state(&mut self, key: &str, value: &str) -> Result<(), HostError> {
        let callbacks = callbacks()?;
        let (key, value) = (Buffer::lend(key.as_bytes()), Buffer::lend(value.as_bytes()));
        // SAFETY: the handle is valid (rule 1), and Envoy copies key and value.
        let did = unsafe { (callbacks.http_set_filter_state_bytes)(self.handle, key, value) };
        accepted(did, "filter state")
    }

    /// Adds one to a counter.
    pub(crate) fn increment(&self, counter: Counter) -> Result<(), HostError> {
        let callbacks = callbacks()?;
        // SAFETY: the handle is valid (rule 1); no labels.
        let result =
            unsafe { (callbacks.http_filter_increment_counter)(self.handle, counter.0, ptr::null_mut(), 0, 1) };
        accepted(result == 0, "a count")
    }
}

/// Runs a hook about a stream. After a panic the request goes on as it is, and is counted.
///
/// # Safety
/// `stream` is what `http_filter_new` returned, and not destroyed; `handle` is what Envoy passed with it.
unsafe fn about(handle: *mut c_void, stream: *const c_void, hook: impl FnOnce(&mut Stream, &mut Exchange<'_>)) {
    let mut exchange = Exchange {
        handle,
        hook: PhantomData,
    };
    // SAFETY: a `Box<Option<Stream>>` of ours, and nobody else refers to it now (rule 3).
    if let Some(Some(stream)) = unsafe { stream.cast::<Option<Stream>>().cast_mut().as_mut() }
        && guard(|| hook(stream, &mut exchange)).is_none()
    {
        guard(|| stream.give_up(&exchange));
    }
}

/// `Continue` of every status there is.
const CONTINUE: c_int = 0;

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    let ready = guard(|| match Callbacks::find() {
        Ok(found) => {
            // Envoy calls this once; a second table would be the same.
            let _ = CALLBACKS.set(found);
            if let Ok(found) = SecretCallbacks::find() {
                let _ = SECRET_CALLBACKS.set(found);
            }
            true
        }
        Err(missing) => {
            // This Envoy's log may be among what is missing.
            eprintln!(
                "limpet: this Envoy is too old for Limpet's dynamic module, which needs 1.38 or newer: it has no {}",
                missing.to_string_lossy()
            );
            false
        }
    });
    match ready {
        // The interface's version: Envoy warns of one that is not its own.
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
    let configuring = Configuring {
        handle,
        hook: PhantomData,
    };
    // SAFETY: Envoy lends the configuration to this hook (rule 2).
    let plugin = guard(|| plugin::configure(&configuring, unsafe { config.bytes() }));
    match plugin.flatten() {
        Some(plugin) => Arc::into_raw(Arc::new(plugin)).cast(),
        None => ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: *const c_void) {
    // SAFETY: the reference that `config_new` gave to Envoy, given back once (rule 3).
    guard(|| drop(unsafe { Arc::from_raw(config.cast::<Plugin>()) }));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    _name: Buffer,
    config: Buffer,
) -> *const c_void {
    // Before Envoy shows the route to any worker.
    ROUTES_CONFIGURED.store(true, Ordering::Relaxed);
    // SAFETY: Envoy lends the configuration to this hook (rule 2).
    let session = guard(|| {
        plugin::configure_per_route(unsafe { config.bytes() }).map(|session| Box::into_raw(Box::new(session)))
    });
    session
        .flatten()
        .map_or(ptr::null(), |session| session.cast_const().cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(config: *const c_void) {
    // SAFETY: the `Box<PerRouteConfig>` that `per_route_config_new` gave to Envoy, given back once (rule 3).
    guard(|| drop(unsafe { Box::from_raw(config.cast::<PerRouteConfig>().cast_mut()) }));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config: *const c_void,
    handle: *mut c_void,
) -> *const c_void {
    let config = config.cast::<Plugin>();
    // SAFETY: an `Arc<Plugin>` that Envoy still holds (rule 3), counted once more for the stream.
    let plugin = unsafe {
        Arc::increment_strong_count(config);
        Arc::from_raw(config)
    };
    let stream = guard(|| Stream::new(plugin));
    if stream.is_none() {
        let exchange = Exchange {
            handle,
            hook: PhantomData,
        };
        // SAFETY: Envoy still holds it (rule 3).
        let plugin = unsafe { &*config };
        guard(|| exchange.increment(*plugin.counters.host_errors()));
    }
    // Never null: Envoy would answer 500.
    Box::into_raw(Box::new(stream)).cast_const().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(stream: *const c_void) {
    // SAFETY: the `Box<Option<Stream>>` that `http_filter_new` gave to Envoy, given back once (rule 3).
    guard(|| drop(unsafe { Box::from_raw(stream.cast::<Option<Stream>>().cast_mut()) }));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    handle: *mut c_void,
    stream: *const c_void,
    _: bool,
) -> c_int {
    // SAFETY: Envoy passes what belongs together (rules 1 and 3).
    unsafe { about(handle, stream, Stream::on_request) };
    CONTINUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    handle: *mut c_void,
    stream: *const c_void,
    _: bool,
) -> c_int {
    // SAFETY: Envoy passes what belongs together (rules 1 and 3).
    unsafe { about(handle, stream, Stream::on_response) };
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
    // SAFETY: Envoy passes what belongs together (rules 1 and 3), and lends the details to this hook (rule 2).
    unsafe { about(handle, stream, |stream, _| stream.on_local_reply(details.bytes())) };
    CONTINUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(handle: *mut c_void, stream: *const c_void) {
    // SAFETY: Envoy passes what belongs together (rules 1 and 3).
    unsafe { about(handle, stream, Stream::on_complete) };
}

/// Hooks that Envoy asks every module for, and that have nothing to do here.
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
