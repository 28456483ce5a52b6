// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's device functions: what they compute on the host, and that their PTX gives the same bits on a GPU.

use cuda_std::launch::DeviceFn;
use cuda_std::scalar::{Scalar, ScalarType};
use kernels_gpu::function::*;
use kernels_gpu::op::*;
use ndarray::Array1;
use proptest::prelude::RngExt;
use warpsmith::{Device, DeviceArray, F8E4M3, F8E5M2, LaunchConfig, Module, PtxModules, bf16, f16};

use crate::common::{gpu, rng};

const KERNELS: PtxModules = warpsmith::kernels!(kernels_gpu);

/// Elements that a function is applied to.
const LEN: usize = 4096;

/// A device function. Not a type, for there are hundreds, and what tests do with them is compiled once.
struct Function {
    name: &'static str,
    signature: u64,
    arguments: &'static [ScalarType],
    output: ScalarType,
    run: unsafe fn(*const *const (), *mut (), usize),
}

impl Function {
    fn of<F: DeviceFn>() -> Self {
        Self {
            name: F::NAME,
            signature: F::SIGNATURE,
            arguments: F::ARGUMENTS,
            output: F::Output::TYPE,
            run: F::run,
        }
    }
}

/// `call(argument, each of these functions)`, for each type in front and each operator behind.
macro_rules! each {
    ($call:ident, $arg:expr; $($function:ident<[$($type:ty),*], $ops:tt>;)*) => {
        $($(each!(@ops $call, $arg, $function, $type, $ops);)*)*
    };
    (@ops $call:ident, $arg:expr, $function:ident, $type:ty, [$($op:ty),*]) => {
        $($call($arg, &Function::of::<$function<$type, $op>>());)*
    };
}

/// Numbers in cells of 8 bytes, whose upper bits are anything: floats half of them of moderate size.
fn cells(of: ScalarType, seed: u64) -> Vec<u64> {
    let mut random = rng(seed);
    let mut cell = |i: usize| {
        let any: u64 = random.random();
        let moderate = (any as i64 >> 40) as f64 / f64::from(1 << 20);
        match of {
            ScalarType::F32 if i.is_multiple_of(2) => u64::from((moderate as f32).to_bits()) | any << 32,
            ScalarType::F64 if i.is_multiple_of(2) => moderate.to_bits(),
            // Some pairs are equal, some are small.
            _ if i.is_multiple_of(5) => any & 7,
            _ => any,
        }
    };
    (0..LEN)
        .map(|i| match of {
            ScalarType::Bool => cell(i) & 1,
            _ => cell(i),
        })
        .collect()
}

/// The low bytes of each cell, one behind the other.
fn packed(cells: &[u64], bytes: usize) -> Vec<u64> {
    let bytes: Vec<u8> = cells
        .iter()
        .flat_map(|cell| cell.to_le_bytes()[..bytes].to_vec())
        .collect();
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.collect()
}

/// The function of the elements on the host, each result in a cell.
fn on_host(function: &Function, arguments: &[Vec<u64>]) -> Vec<u64> {
    let arrays: Vec<Vec<u64>> = arguments
        .iter()
        .zip(function.arguments)
        .map(|(cells, ty)| packed(cells, ty.bytes()))
        .collect();
    let addresses: Vec<*const ()> = arrays.iter().map(|array| array.as_ptr().cast()).collect();
    let mut results = vec![0_u64; LEN];
    // SAFETY: as many arrays as arguments, of as many elements of their types, aligned to 8 bytes; room for as many results.
    unsafe { (function.run)(addresses.as_ptr(), results.as_mut_ptr().cast(), LEN) };
    let size = function.output.bytes();
    let bytes: Vec<u8> = results.iter().flat_map(|word| word.to_le_bytes()).collect();
    let cell = |bytes: &[u8]| bytes.iter().rev().fold(0, |cell, byte| cell << 8 | u64::from(*byte));
    bytes.chunks(size).take(LEN).map(cell).collect()
}

/// PTX with a kernel that calls the function for the elements in cells.
fn with_kernel(function: &Function, text: &str) -> String {
    let bits = |ty: ScalarType| if ty.bytes() == 8 { 64 } else { 32 };
    let (mut loads, mut parameters, mut names) = (String::new(), String::new(), Vec::new());
    for (k, &ty) in function.arguments.iter().enumerate() {
        let bits = bits(ty);
        loads += &format!("ld.global.b{bits} %a{bits}_{k}, [%rd0];\nadd.u64 %rd0, %rd0, %rd3;\n");
        parameters += &format!(".param .b{bits} p{k};\nst.param.b{bits} [p{k}], %a{bits}_{k};\n");
        names.push(format!("p{k}"));
    }
    let (result, name, names) = (bits(function.output), function.name, names.join(", "));
    let widened = match result {
        32 => "ld.param.b32 %r5, [result];\ncvt.u64.u32 %rd4, %r5;",
        _ => "ld.param.b64 %rd4, [result];",
    };
    format!(
        "{text}
.visible .entry probe(.param .u64 cells, .param .u64 results, .param .u32 len)
{{
.reg .pred %p;
.reg .b32 %r<6>, %a32_<6>;
.reg .b64 %rd<5>, %a64_<6>;
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ntid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r0, %r1, %r2;
ld.param.u32 %r4, [len];
setp.ge.u32 %p, %r3, %r4;
@%p bra done;
ld.param.u64 %rd0, [cells];
ld.param.u64 %rd1, [results];
mul.wide.u32 %rd2, %r3, 8;
mul.wide.u32 %rd3, %r4, 8;
add.u64 %rd0, %rd0, %rd2;
add.u64 %rd1, %rd1, %rd2;
{loads}{{
{parameters}.param .b{result} result;
call.uni (result), {name}, ({names});
{widened}
}}
st.global.u64 [%rd1], %rd4;
done:
ret;
}}
"
    )
}

fn on_gpu(function: &Function, device: &Device, arguments: &[Vec<u64>]) -> Vec<u64> {
    let name = function.name;
    assert_eq!(KERNELS.signature(name, "sm_75"), Some(function.signature), "{name}");
    let text = KERNELS.text(name, "sm_75").unwrap();
    assert_eq!(text.matches(".version").count(), 1, "{name}");
    let module =
        Module::from_ptx(device, &with_kernel(function, &text)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let probe = module.function("probe").unwrap();
    let stream = device.default_stream();
    let cells = DeviceArray::from_ndarray(stream, &Array1::from(arguments.concat())).unwrap();
    let mut results = DeviceArray::<u64, _>::zeros(stream, LEN).unwrap();
    // SAFETY: the cells of all arguments, as many results, which are written, and their number.
    unsafe {
        stream.launch_function(
            &probe,
            &LaunchConfig::for_len(LEN, 256),
            (&cells, &mut results, LEN as u32),
        )
    }
    .unwrap();
    results.to_ndarray().unwrap().to_vec()
}

/// Whether it is NaN, whose bits are the machine's business.
fn is_nan(ty: ScalarType, bits: u64) -> bool {
    match ty {
        ScalarType::F32 => f32::from_bits(bits as u32).is_nan(),
        ScalarType::F64 => f64::from_bits(bits).is_nan(),
        ScalarType::F16 => f16::from_bits(bits as u16).is_nan(),
        ScalarType::Bf16 => bf16::from_bits(bits as u16).is_nan(),
        ScalarType::F8E4M3 => F8E4M3::from_bits(bits as u8).is_nan(),
        ScalarType::F8E5M2 => F8E5M2::from_bits(bits as u8).is_nan(),
        _ => false,
    }
}

/// Calls `compare` with the result's type, and each element's results on the host and on the GPU.
fn on_both(device: &Device, function: &Function, compare: impl Fn(ScalarType, u64, u64) -> bool) {
    let ty = function.output;
    let arguments: Vec<_> = (0..)
        .zip(function.arguments)
        .map(|(k, &ty)| cells(ty, 31 + k))
        .collect();
    let (host, gpu) = (on_host(function, &arguments), on_gpu(function, device, &arguments));
    for (i, (&wanted, &got)) in host.iter().zip(&gpu).enumerate() {
        let of: Vec<_> = arguments.iter().map(|cells| format!("{:x}", cells[i])).collect();
        let same = compare(ty, wanted, got) || is_nan(ty, wanted) && is_nan(ty, got);
        assert!(same, "{} of {of:?}: {got:x}, on the host {wanted:x}", function.name);
    }
}

fn same_bits(device: &Device, function: &Function) {
    on_both(device, function, |_, wanted, got| wanted == got);
}

/// Of functions by the special function units, which the host has not.
fn nearly(device: &Device, function: &Function) {
    on_both(device, function, |ty, wanted, got| match ty {
        ScalarType::F32 => {
            let (wanted, got) = (f32::from_bits(wanted as u32), f32::from_bits(got as u32));
            wanted == got || (wanted - got).abs() <= 1e-5 * wanted.abs() + 1e-35
        }
        _ => wanted == got,
    });
}

#[test]
fn functions_give_the_same_bits_on_a_gpu() {
    let Some(device) = gpu("functions_give_the_same_bits_on_a_gpu") else {
        return;
    };
    each! { same_bits, device;
        number_unary<[f32, f64, f16, u8, u16, u32, u64], [Neg]>;
        number_unary<[f32, f64, f16, i32, i64], [Abs]>;
        number_unary<[f32, f64, u8, u16, u32, u64], [Square]>;
        number_unary<[f32, f64, i32, i64], [Relu]>;
        number_unary<[bool, u8, u16, u32, u64], [Not]>;
        number_unary<[f64], [Sqrt, Rsqrt, Cbrt, Exp2, Ln, Log2, Log10]>;
        number_unary<[f32, f64], [
            Recip, Exp, ExpM1, Ln1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Sigmoid, Erf, Erfc, Floor, Ceil, Round, RoundTiesEven, Trunc, Signum
        ]>;
        number_predicate<[f32, f64], [IsNan, IsFinite, IsInfinite]>;
        number_binary<[f32, f64, u8, u16, u32, u64], [Add, Sub, Mul]>;
        number_binary<[f32, f64, i32, i64, u8, u16, u32, u64], [Div, Rem, Minimum, Maximum, Pow]>;
        number_binary<[f32, f64], [Atan2, Hypot, Copysign]>;
        number_bits<[u8, u16, u32, u64], [BitAnd, BitOr, BitXor, Shl, Shr]>;
        number_bits<[i32, i64], [Shr]>;
        number_compare<[f32, f64, u8, u16, u32, u64], [Equal, NotEqual]>;
        number_compare<[f32, f64, i32, i64, u8, u16, u32, u64], [Less, LessEqual]>;
        number_cast<[i8, i16], [i32]>;
        number_cast<[bool, u8, u16], [u32]>;
        number_cast<[i32, u32], [u64, f32, f64, f16, bf16]>;
        number_cast<[u32], [u8, u16]>;
        number_cast<[i64, u64], [f32, f64, f16, bf16]>;
        number_cast<[u64], [u32]>;
        number_cast<[f32], [f64, f16, bf16, F8E4M3, F8E5M2]>;
        number_cast<[f64], [f32, f16, bf16]>;
        number_cast<[f16, bf16, F8E4M3, F8E5M2], [f32]>;
        number_cast<[f32, f64], [i8, i16, i32, i64, u8, u16, u32, u64]>;
    }
    each! { nearly, device; number_unary<[f32, f64], [Gelu, GeluTanh, Silu]>; }
    macro_rules! of_types {
        ($($function:ident<$($type:ty),*>;)*) => { $($(same_bits(device, &Function::of::<$function<$type>>());)*)* };
    }
    of_types! {
        number_mul_add<f32, f64, u8, u16, u32, u64>;
        number_clamp<f32, f64, i32, i64, u8, u16, u32, u64>;
        number_rare<Sqrt, Rsqrt, Cbrt, Exp2, Ln, Log2, Log10>;
        number_select<u8, u16, u32, u64>;
        number_random<u32, u64>;
        number_random_normal<f32, f64>;
        number_random_integer<u32, u64>;
    }
}

/// The function of these arguments.
fn of<F: DeviceFn, const N: usize>(arguments: [u64; N]) -> u64 {
    on_host(&Function::of::<F>(), &arguments.map(|argument| vec![argument; LEN]))[0]
}

#[test]
fn what_functions_compute() {
    let bits = |x: f32| u64::from(x.to_bits());
    assert_eq!(of::<number_binary<f32, Rem>, 2>([bits(-7.5), bits(2.0)]), bits(-1.5));
    assert_eq!(
        of::<number_binary<i32, Rem>, 2>([(-7_i32) as u32 as u64, 4]),
        (-3_i32) as u32 as u64
    );
    assert_eq!([0, 5].map(|b| of::<number_binary<u8, Rem>, 2>([7, b])), [0, 2]);
    assert_eq!(of::<number_binary<i64, Rem>, 2>([i64::MIN as u64, u64::MAX]), 0);
    assert_eq!(of::<number_unary<f32, Signum>, 1>([bits(-0.0)]), bits(-1.0));
    assert_eq!(of::<number_unary<bool, Not>, 1>([1]), 0);
    assert_eq!([1, 0].map(|c| of::<number_select<u16>, 3>([c, 3, 4])), [3, 4]);
    assert_eq!(of::<number_clamp<f32>, 3>([bits(9.0), bits(0.0), bits(1.0)]), bits(1.0));
    assert_eq!(of::<number_cast<f32, i8>, 1>([bits(-300.0)]), 0x80);
    let special = [f32::NAN, f32::INFINITY, f32::MAX, -0.0].map(bits);
    assert_eq!(
        special.map(|x| of::<number_predicate<f32, IsNan>, 1>([x])),
        [1, 0, 0, 0]
    );
    assert_eq!(
        special.map(|x| of::<number_predicate<f32, IsFinite>, 1>([x])),
        [0, 0, 1, 1]
    );
    assert_eq!(
        special.map(|x| of::<number_predicate<f32, IsInfinite>, 1>([x])),
        [0, 1, 0, 0]
    );
}

/// As the table of [`number_cast`] says: casts in two steps are those in one.
#[test]
fn casts_by_way_of_another_type_round_once() {
    let numbers = cells(ScalarType::U64, 5);
    fn in_two_steps<First: DeviceFn, Second: DeviceFn>(numbers: &[u64], wanted: impl Fn(u64) -> u64) {
        let got = on_host(
            &Function::of::<Second>(),
            &[on_host(&Function::of::<First>(), &[numbers.to_vec()])],
        );
        for (&number, got) in numbers.iter().zip(got) {
            assert_eq!(
                got,
                wanted(number),
                "{} and {} of {number:x}",
                First::NAME,
                Second::NAME
            );
        }
    }
    in_two_steps::<number_cast<i8, i32>, number_cast<i32, u64>>(&numbers, |x| x as i8 as u64);
    in_two_steps::<number_cast<u64, u32>, number_cast<u32, u8>>(&numbers, |x| u64::from(x as u8));
    in_two_steps::<number_cast<i16, i32>, number_cast<i32, bf16>>(&numbers, |x| {
        bf16::from_f64((x as i16).into()).to_bits().into()
    });
    in_two_steps::<number_cast<u16, u32>, number_cast<u32, f16>>(&numbers, |x| {
        f16::from_f64((x as u16).into()).to_bits().into()
    });
}
