// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profiler's library, which writes to the file `STUB_LOG` what it is told by NVTX. Declared as the protocol has it, not
//! as the library under test does.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write;

type Function = *mut c_void;

#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get_module_function_table: extern "C" fn(c_int, *mut *mut *mut Function, *mut c_uint) -> c_int,
}

/// `nvtxEventAttributes_v2`, as far as it is read.
#[repr(C)]
struct EventAttributes {
    version: u16,
    size: u16,
    _unread: [u32; 7],
    message_type: i32,
    ascii: *const c_char,
}

fn log(line: String) {
    let path = std::env::var_os("STUB_LOG").expect("a file");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("it can be written");
}

extern "C" fn create(name: *const c_char) -> usize {
    let name = unsafe { CStr::from_ptr(name) };
    log(format!("domain {}", name.to_str().unwrap()));
    7
}

extern "C" fn push(domain: usize, attributes: *const EventAttributes) -> c_int {
    let attributes = unsafe { &*attributes };
    assert_eq!((domain, attributes.version, attributes.size, attributes.message_type), (7, 3, 48, 1));
    let message = unsafe { CStr::from_ptr(attributes.ascii) };
    log(format!("push {}", message.to_str().unwrap()));
    0
}

extern "C" fn pop(domain: usize) -> c_int {
    assert_eq!(domain, 7);
    log("pop".into());
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjectionNvtx2(export_table: extern "C" fn(u32) -> *const Callbacks) -> c_int {
    assert!(export_table(99).is_null());
    let callbacks = unsafe { &*export_table(1) };
    assert_eq!(callbacks.struct_size, size_of::<Callbacks>());
    let table = |module| {
        let (mut table, mut len) = (std::ptr::null_mut(), 0);
        let known = (callbacks.get_module_function_table)(module, &mut table, &mut len);
        (known == 1).then(|| unsafe { std::slice::from_raw_parts(table, len as usize) })
    };
    assert!(table(0).is_none() && table(7).is_none() && table(c_int::MIN).is_none());
    // NVTX_CBID_CORE_SIZE and its kind, up to the one of domains, and that of locks.
    let lens = [1, 2, 3, 4, 5, 6].map(|module| table(module).map(<[_]>::len));
    assert_eq!(lens, [16, 9, 15, 7, 16, 7].map(Some));
    let domains = table(5).expect("functions of domains");
    assert!(domains.len() == 16 && domains[0].is_null());
    unsafe {
        *domains[12] = create as *mut c_void;
        *domains[4] = push as *mut c_void;
        *domains[5] = pop as *mut c_void;
    }
    1
}
