// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one operation on a thousand numbers takes the host until it is queued: bare launches by the driver of a kernel that adds
//! two arrays, the library's ways to the same sum, and a method that is an expression of one operation:
//! `cargo bench --bench runtime -- calls`.
//!
//! The library's kernels may begin while the one before ends, which takes another call of the driver's than a plain launch does, and
//! their context is made current for each. Both have rows of their own.
//!
//! So many calls in a row as the driver queues without waiting for the GPU, by the host's clock, without the wait behind them;
//! medians of rounds in which the ways take turns. Results are compared. What is made of many operations, such as a softmax, has rows
//! of its own, of 256 × 1000 numbers, and counts allocations and kernels of its own.

use std::ffi::{CStr, c_uint, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::driver::{self, check};
use cuda_driver::sys;
use ndarray::{Array1, Array2, Axis, Ix1, Ix2};
use warpsmith::expr::{self, Expr};
use warpsmith::{Device, DeviceArray, Result, Stream};

const LEN: usize = 1024;

/// Rows of logits, and classes.
const ROWS: (usize, usize) = (256, 1000);

/// Calls of a round: a fraction of what the driver queues.
const CALLS: usize = 200;

/// One way to do it, and its times.
struct Way<'w> {
    name: &'static str,
    call: Box<dyn FnMut() -> Result<()> + 'w>,
    wait: Box<dyn Fn() -> Result<()> + 'w>,
    micros: Vec<f64>,
}

impl<'w> Way<'w> {
    fn new(name: &'static str, call: impl FnMut() -> Result<()> + 'w, wait: impl Fn() -> Result<()> + 'w) -> Self {
        Self {
            name,
            call: Box::new(call),
            wait: Box::new(wait),
            micros: Vec::new(),
        }
    }

    fn measure(&mut self) -> Result<()> {
        let start = Instant::now();
        for _ in 0..CALLS {
            (self.call)()?;
        }
        self.micros.push(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
        (self.wait)()
    }

    fn median(&mut self) -> f64 {
        self.micros.sort_unstable_by(f64::total_cmp);
        self.micros[self.micros.len() / 2]
    }
}

pub fn run() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let rounds = if device.is_simulator() { 1 } else { 101 };
    let numbers = |scale: f32| Array1::from_shape_fn(LEN, |i| i as f32 * scale);
    let expected = numbers(1.0) + numbers(0.5);
    let x = DeviceArray::from_ndarray(stream, &numbers(1.0))?;
    let y = DeviceArray::from_ndarray(stream, &numbers(0.5))?;
    let outputs: Vec<DeviceArray<f32, Ix1>> = (0..5).map(|_| DeviceArray::zeros(stream, LEN)).collect::<Result<_>>()?;
    let Ok([mut eager, mut compiled, mut held, mut built, mut one]) = <[_; 5]>::try_from(outputs) else {
        unreachable!("five outputs")
    };
    let bare = (!device.is_simulator()).then(Bare::new);
    let sum = expr::compile(|(x, y): (Expr<f32, Ix1>, Expr<f32, Ix1>)| x + y);
    let expression = &x + &y;
    let wait = || stream.synchronize();
    let rows = Rows::new(&device)?;
    let mut ways = Vec::new();
    if let Some(bare) = &bare {
        ways.push(Way::new("cuLaunchKernel", || bare.launch(), || bare.synchronize()));
        if let Some(launch) = launch_ex() {
            let early = move || bare.launch_early(launch);
            ways.push(Way::new("cuLaunchKernelEx", early, || bare.synchronize()));
            let current = move || {
                bare.make_current();
                bare.launch_early(launch)
            };
            ways.push(Way::new("with its context current", current, || bare.synchronize()));
        }
    }
    ways.push(Way::new("x.add_into(&y, out)", || x.add_into(&y, &mut eager), wait));
    ways.push(Way::new(
        "compiled.call_into",
        || sum.call_into((&x, &y), &mut compiled),
        wait,
    ));
    ways.push(Way::new(
        "held.eval_into(out)",
        || expression.eval_into(&mut held),
        wait,
    ));
    ways.push(Way::new(
        "(&x + &y).eval_into(out)",
        || (&x + &y).eval_into(&mut built),
        wait,
    ));
    ways.push(Way::new(
        "x.add_scalar_into(1, out)",
        || x.add_scalar_into(1.0, &mut one),
        wait,
    ));
    ways.push(Way::new("x.add_scalar(1)", || x.add_scalar(1.0).map(drop), wait));
    ways.extend(rows.ways(stream));
    println!("{}: {CALLS} calls in a row, {rounds} rounds", device.properties().name);
    // Kernels are compiled, and queues are there.
    ways.iter_mut().try_for_each(Way::measure)?;
    ways.iter_mut().for_each(|way| way.micros.clear());
    for round in 0..rounds {
        let first = round % ways.len();
        for k in 0..ways.len() {
            let at = (first + k) % ways.len();
            ways[at].measure()?;
        }
    }
    let least = ways[0].median();
    for way in &mut ways {
        let median = way.median();
        println!("{:>26}  {median:>6.2} µs, {:+.2}", way.name, median - least);
    }
    drop(ways);
    for out in [&eager, &compiled, &held, &built] {
        assert_eq!(out.to_ndarray()?, expected);
    }
    assert_eq!(one.to_ndarray()?, numbers(1.0) + 1.0);
    rows.check()
}

/// Rows of logits, with labels, and with weights for a norm.
struct Rows {
    logits: DeviceArray<f32, Ix2>,
    labels: DeviceArray<i32, Ix1>,
    weight: DeviceArray<f32, Ix1>,
}

impl Rows {
    fn new(device: &Device) -> Result<Self> {
        let stream = device.default_stream();
        let logits = Array2::from_shape_fn(ROWS, |(row, class)| (row * 31 + class * 17) as f32 % 13.0);
        Ok(Self {
            logits: DeviceArray::from_ndarray(stream, &logits)?,
            labels: DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(ROWS.0, |row| row as i32))?,
            weight: DeviceArray::ones(stream, ROWS.1)?,
        })
    }

    /// Operations that are made of others, each of which allocates its results.
    fn ways<'w>(&'w self, stream: &'w Stream) -> [Way<'w>; 5] {
        let Self { logits, labels, weight } = self;
        let wait = move || stream.synchronize();
        let softmax = move || logits.expr().softmax(Axis(1)).eval().map(drop);
        let norm = move || logits.expr().layer_norm(&[1], weight, weight, 1e-5).eval().map(drop);
        let variance = move || logits.expr().variance_axis(Axis(1), 0).eval().map(drop);
        let both = move || {
            logits
                .expr()
                .cross_entropy_with_gradient(Axis(1), labels, 1.0)
                .map(drop)
        };
        let apart = move || {
            logits.expr().cross_entropy(Axis(1), labels).eval()?;
            self.gradient().eval().map(drop)
        };
        [
            Way::new("softmax", softmax, wait),
            Way::new("layer_norm", norm, wait),
            Way::new("variance_axis", variance, wait),
            Way::new("loss with its gradient", both, wait),
            Way::new("loss, and its gradient", apart, wait),
        ]
    }

    fn gradient(&self) -> Expr<'_, f32, Ix2> {
        self.logits.expr().cross_entropy_backward(Axis(1), &self.labels, 1.0)
    }

    /// A softmax is what it is made of, bit for bit; and the gradient is that of the kernel that finds the loss, too.
    fn check(&self) -> Result<()> {
        let x = self.logits.expr();
        let powers = (&x - x.max_axis(Axis(1)).insert_axis(Axis(1))).exp();
        let by_hand = &powers / powers.sum_axis(Axis(1)).insert_axis(Axis(1));
        assert_eq!(x.softmax(Axis(1)).eval()?.to_ndarray()?, by_hand.eval()?.to_ndarray()?);
        let (loss, gradient) = x.cross_entropy_with_gradient(Axis(1), &self.labels, 1.0)?;
        let apart = x.cross_entropy(Axis(1), &self.labels).eval()?;
        let distance = (loss.to_ndarray()? - apart.to_ndarray()?).into_scalar().abs();
        let of_gradients = gradient.to_ndarray()? - self.gradient().eval()?.to_ndarray()?;
        assert!(distance < 1e-4 && of_gradients.iter().all(|distance| distance.abs() < 1e-8));
        Ok(())
    }
}

/// A kernel of one block, with as many parameters as an expression of two arrays has.
const KERNEL: &CStr = c"
.version 6.3
.target sm_75
.address_size 64

.visible .entry add(.param .align 8 .b8 block[48])
.maxntid 256, 1, 1
{
    .reg .b64 %out, %x, %y, %offset;
    .reg .b32 %thread;
    .reg .b32 %a<4>, %b<4>;
    ld.param.b64 %out, [block+0];
    ld.param.b64 %x, [block+8];
    ld.param.b64 %y, [block+16];
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %offset, %thread, 16;
    add.s64 %x, %x, %offset;
    add.s64 %y, %y, %offset;
    add.s64 %out, %out, %offset;
    ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%x];
    ld.global.v4.b32 {%b0, %b1, %b2, %b3}, [%y];
    add.rn.f32 %a0, %a0, %b0;
    add.rn.f32 %a1, %a1, %b1;
    add.rn.f32 %a2, %a2, %b2;
    add.rn.f32 %a3, %a3, %b3;
    st.global.v4.b32 [%out], {%a0, %a1, %a2, %a3};
    ret;
}
";

/// `CUlaunchConfig`.
#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: sys::CUstream,
    attributes: *const [c_uint; 18],
    count: c_uint,
}

/// `CUlaunchAttribute`: that the launch may begin early (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, 1).
const EARLY: [c_uint; 18] = {
    let mut attribute = [0; 18];
    (attribute[0], attribute[2]) = (6, 1);
    attribute
};

type LaunchEx =
    unsafe extern "C" fn(*const LaunchConfig, sys::CUfunction, *mut *mut c_void, *mut *mut c_void) -> sys::Status;

/// `cuLaunchKernelEx`, where the driver has it.
fn launch_ex() -> Option<LaunchEx> {
    let address = cuda_driver::address(c"cuLaunchKernelEx", (11, 8))?;
    // SAFETY: the driver's function of that name, which has this type in cuda.h.
    Some(unsafe { mem::transmute::<NonNull<c_void>, LaunchEx>(address) })
}

/// Launches by the driver's own calls, on a stream of their own. What is made is there until the program ends.
struct Bare {
    stream: sys::CUstream,
    kernel: sys::CUfunction,
    /// The block of parameters: three arrays.
    block: [u64; 6],
}

impl Bare {
    fn new() -> Self {
        let stream = driver::stream();
        let (mut module, mut kernel, mut numbers) = (ptr::null_mut(), ptr::null_mut(), 0);
        let bytes = LEN * size_of::<f32>();
        // SAFETY: functions that write a handle or an address, and PTX that ends with a zero; the device was opened, so
        // there is a context. The module has a kernel of that name.
        unsafe {
            let (ptx, none) = (KERNEL.as_ptr().cast(), ptr::null_mut());
            check(sys::cuModuleLoadDataEx(&mut module, ptx, 0, none, ptr::null_mut()));
            check(sys::cuModuleGetFunction(&mut kernel, module, c"add".as_ptr()));
            check(sys::cuMemAlloc_v2(&mut numbers, 3 * bytes));
        }
        let block = [numbers, numbers + bytes as u64, numbers + 2 * bytes as u64, 0, 0, 0];
        Self { stream, kernel, block }
    }

    fn launch(&self) -> Result<()> {
        let mut block = self.block;
        let mut params: [*mut c_void; 1] = [(&raw mut block).cast()];
        let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the kernel takes such a block, whose arrays have room for the numbers of its threads.
        check(unsafe { sys::cuLaunchKernel(self.kernel, 1, 1, 1, 256, 1, 1, 0, self.stream, params, none) });
        Ok(())
    }

    /// As the library launches its kernels; this one does not wait for the one before, of which it needs nothing.
    fn launch_early(&self, launch: LaunchEx) -> Result<()> {
        let mut block = self.block;
        let mut params: [*mut c_void; 1] = [(&raw mut block).cast()];
        let config = LaunchConfig {
            grid: [1; 3],
            block: [256, 1, 1],
            shared_bytes: 0,
            stream: self.stream,
            attributes: &EARLY,
            count: 1,
        };
        // SAFETY: as above; the configuration and what it refers to live.
        check(unsafe { launch(&config, self.kernel, params.as_mut_ptr(), ptr::null_mut()) });
        Ok(())
    }

    /// As the library does ahead of each call of the driver.
    fn make_current(&self) {
        let mut current = ptr::null_mut();
        // SAFETY: writes a handle, and takes the one that is current.
        unsafe {
            check(sys::cuCtxGetCurrent(&mut current));
            check(sys::cuCtxSetCurrent(current));
        }
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: a stream that lives.
        check(unsafe { sys::cuStreamSynchronize(self.stream) });
        Ok(())
    }
}
