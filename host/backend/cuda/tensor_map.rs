// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tensor maps, which the driver encodes.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use cuda_driver::sys::Status;
use cuda_std::tma::{RawTensorMap, Swizzle, TensorMapLayout};

use super::Cuda;
use crate::error::{Error, Result};
use crate::tensor_map::TensorType;

/// The first CUDA version that has `cuTensorMapEncodeTiled`.
const SINCE: (u32, u32) = (12, 0);

/// `cuTensorMapEncodeTiled`: map, type, rank, address, lengths, strides in bytes, lengths of a tile, steps between its
/// elements, interleaving, swizzle, what the L2 cache loads beside, what stands for elements out of bounds.
type Encode = unsafe extern "C" fn(
    *mut RawTensorMap,
    c_int,
    u32,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;

/// What the L2 cache loads beside what is asked for (`CU_TENSOR_MAP_L2_PROMOTION_L2_128B`, `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`): less
/// where lines begin within sectors of the cache. Products of such matrices took up to 13 % longer with as much as of others.
fn promotion(layout: &TensorMapLayout) -> c_int {
    const SECTOR: u64 = 32;
    let strides = &layout.strides[..layout.rank.saturating_sub(1) as usize];
    match strides.iter().all(|stride| stride.is_multiple_of(SECTOR)) {
        true => 3,
        false => 2,
    }
}

impl Cuda {
    /// The map of elements at `address`.
    pub(super) fn encode_tensor_map(
        &self,
        of: TensorType,
        address: u64,
        layout: &TensorMapLayout,
    ) -> Result<RawTensorMap> {
        let Some(encode) = encode() else {
            return Err(Error::DriverTooOld {
                device: self.properties.id.clone(),
                given: self.properties.driver_version.unwrap_or_default(),
                wanted: SINCE,
            });
        };
        let _current = self.enter()?;
        let mut map = RawTensorMap::from_words([0; 16]);
        // SAFETY: arrays of as many elements as the function reads of them for that rank, and a map to write, aligned to
        // 64 bytes.
        let status = unsafe {
            encode(
                &mut map,
                data_type(of),
                layout.rank,
                ptr::with_exposed_provenance_mut(address as usize),
                layout.dims.as_ptr(),
                layout.strides.as_ptr(),
                layout.box_dims.as_ptr(),
                layout.steps.as_ptr(),
                0,
                swizzle(layout.swizzle),
                promotion(layout),
                0,
            )
        };
        self.check("cuTensorMapEncodeTiled", status)?;
        Ok(map)
    }
}

/// The function, of drivers that have it.
fn encode() -> Option<Encode> {
    static FUNCTION: OnceLock<Option<Encode>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let found = cuda_driver::address(c"cuTensorMapEncodeTiled", SINCE)?;
        // SAFETY: the driver's function of that name and version, which has that type in cuda.h.
        Some(unsafe { mem::transmute::<NonNull<c_void>, Encode>(found) })
    })
}

/// `CUtensorMapDataType`
fn data_type(of: TensorType) -> c_int {
    match of {
        TensorType::U8 => 0,
        TensorType::U16 => 1,
        TensorType::U32 => 2,
        TensorType::I32 => 3,
        TensorType::U64 => 4,
        TensorType::I64 => 5,
        TensorType::F16 => 6,
        TensorType::F32 => 7,
        TensorType::F64 => 8,
        TensorType::Bf16 => 9,
        TensorType::Tf32 => 11,
    }
}

/// `CUtensorMapSwizzle`
fn swizzle(of: Swizzle) -> c_int {
    match of {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    }
}
