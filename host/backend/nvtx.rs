// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranges that NVIDIA's profilers show above what the device does (feature `nvtx`), by the protocol of NVTX 3.
//!
//! A profiler names a library in the variable `NVTX_INJECTION64_PATH`. The program loads it, and hands it a function that
//! gives tables; the library fills the places that a table points to with its own functions, which the program calls from
//! then on. NVIDIA's side of the program is a C header. This is the same in Rust, of what is called here: a domain, and
//! ranges that one thread begins and ends. Without a profiler a range is a look at one place.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// The variable that names the profiler's library.
const VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// The version of the protocol.
const VERSION: u16 = 3;

/// Functions of a module, and one more: they are numbered from 1 on. No module has more than the first.
const FUNCTIONS: usize = 16;
const DOMAIN_RANGE_PUSH: usize = 4;
const DOMAIN_RANGE_POP: usize = 5;
const DOMAIN_CREATE: usize = 12;

/// Functions of one module, where the profiler has filled them in.
struct Module {
    functions: [AtomicPtr<c_void>; FUNCTIONS],
    /// Where they are, of number 0 none, and none at the end.
    table: [*const AtomicPtr<c_void>; FUNCTIONS + 1],
    /// How many there are, and one more.
    len: usize,
}

// SAFETY: the table is not changed, and what it points to are atomics.
unsafe impl Sync for Module {}

impl Module {
    /// The module that is to be that static.
    const fn new(this: *const Self, len: usize) -> Self {
        let mut table = [ptr::null(); FUNCTIONS + 1];
        let mut number = 1;
        while number < len {
            // SAFETY: within the static, whose place alone is asked for.
            table[number] = unsafe { (&raw const (*this).functions).cast::<AtomicPtr<c_void>>().add(number) };
            number += 1;
        }
        Self {
            functions: [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTIONS],
            table,
            len,
        }
    }

    /// A function that the profiler has filled in.
    fn get(&self, number: usize) -> Option<*mut c_void> {
        Some(self.functions[number].load(Ordering::Acquire)).filter(|function| !function.is_null())
    }
}

/// Functions without domains; names of CUDA's, OpenCL's and the CUDA runtime's objects; domains; and locks. Those of domains
/// are called. The others are for the profiler: Nsight Compute takes no ranges of a program that lacks the names of CUDA's.
static MODULES: [Module; 6] = [
    Module::new(&raw const MODULES[0], 16),
    Module::new(&raw const MODULES[1], 9),
    Module::new(&raw const MODULES[2], 15),
    Module::new(&raw const MODULES[3], 7),
    Module::new(&raw const MODULES[4], 16),
    Module::new(&raw const MODULES[5], 7),
];
const DOMAINS: &Module = &MODULES[4];

/// What a profiler asks for tables with: a module's number, and where to put table and length.
unsafe extern "C" fn module_table(
    module: c_int,
    table: *mut *const *const AtomicPtr<c_void>,
    len: *mut c_uint,
) -> c_int {
    // They are numbered from 1 on.
    let Some(module) = usize::try_from(module.wrapping_sub(1))
        .ok()
        .and_then(|number| MODULES.get(number))
    else {
        return 0;
    };
    // SAFETY: the profiler gives two places, or null for what it does not want.
    unsafe {
        if !table.is_null() {
            *table = module.table.as_ptr();
        }
        if !len.is_null() {
            *len = module.len as c_uint;
        }
    }
    1
}

/// Told the version that the profiler knows.
extern "C" fn set_version(_: u32) {}

#[repr(C)]
struct Callbacks {
    size: usize,
    module_table: unsafe extern "C" fn(c_int, *mut *const *const AtomicPtr<c_void>, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_version: extern "C" fn(u32),
}

/// What the profiler's library is handed.
extern "C" fn export_table(id: u32) -> *const c_void {
    static CALLBACKS: Callbacks = Callbacks {
        size: size_of::<Callbacks>(),
        module_table,
    };
    static VERSION_INFO: VersionInfo = VersionInfo {
        size: size_of::<VersionInfo>(),
        version: VERSION as u32,
        reserved: 0,
        set_version,
    };
    match id {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

/// What a range is called, as the protocol has it.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

const _: () = assert!(size_of::<Attributes>() == 48);

/// The kind of a message that is a text which ends with a zero.
const TEXT: i32 = 1;

type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
type CreateDomain = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Push = unsafe extern "C" fn(*mut c_void, *const Attributes) -> c_int;
type Pop = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A profiler that listens.
struct Profiler {
    /// The library's domain.
    domain: *mut c_void,
    push: Push,
    pop: Pop,
}

// SAFETY: the functions may be called by any thread, as NVTX says, with any domain.
unsafe impl Send for Profiler {}
// SAFETY: as above.
unsafe impl Sync for Profiler {}

impl Profiler {
    /// The one that the environment names, if there is one and it wants ranges.
    fn get() -> Option<&'static Self> {
        static PROFILER: OnceLock<Option<Profiler>> = OnceLock::new();
        let load = || Self::load(&std::env::var_os(VARIABLE)?);
        PROFILER.get_or_init(load).as_ref()
    }

    fn load(path: &OsStr) -> Option<Self> {
        // SAFETY: who sets the variable vouches for the library, as everywhere with NVTX. It is never unloaded, as its
        // functions are called until the process ends.
        let library = std::mem::ManuallyDrop::new(unsafe { Library::new(path) }.ok()?);
        // SAFETY: the protocol's name and type of that function.
        let initialize = *unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") }.ok()?;
        // SAFETY: the protocol; the tables are statics.
        if unsafe { initialize(export_table) } == 0 {
            return None;
        }
        let [create, push, pop] =
            [DOMAIN_CREATE, DOMAIN_RANGE_PUSH, DOMAIN_RANGE_POP].map(|number| DOMAINS.get(number));
        // SAFETY: the protocol's types of the functions with these numbers, of which none is null.
        let (create, push, pop) = unsafe {
            (
                std::mem::transmute::<*mut c_void, CreateDomain>(create?),
                std::mem::transmute::<*mut c_void, Push>(push?),
                std::mem::transmute::<*mut c_void, Pop>(pop?),
            )
        };
        const NAME: &CStr = c"warpsmith";
        // SAFETY: a text that ends with a zero.
        let domain = unsafe { create(NAME.as_ptr()) };
        Some(Self { domain, push, pop })
    }
}

/// A range, until it is dropped: on the thread that began it.
pub(crate) struct Range {
    profiler: Option<&'static Profiler>,
    _thread: PhantomData<*const ()>,
}

impl Range {
    pub(crate) fn new(name: &str) -> Self {
        let profiler = Profiler::get();
        if let Some(profiler) = profiler {
            // No kernel's name has a zero.
            let name = CString::new(name).unwrap_or_default();
            let attributes = Attributes {
                version: VERSION,
                size: size_of::<Attributes>() as u16,
                category: 0,
                color_type: 0,
                color: 0,
                payload_type: 0,
                reserved: 0,
                payload: 0,
                message_type: TEXT,
                message: name.as_ptr(),
            };
            // SAFETY: the profiler's function and domain; it copies what it keeps of the attributes and the text.
            unsafe { (profiler.push)(profiler.domain, &attributes) };
        }
        Self {
            profiler,
            _thread: PhantomData,
        }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(profiler) = self.profiler {
            // SAFETY: as above; the range was begun on this thread, and those inside have ended.
            unsafe { (profiler.pop)(profiler.domain) };
        }
    }
}
