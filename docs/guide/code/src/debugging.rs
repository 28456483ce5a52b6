// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "When it goes wrong".

use warpsmith::ndarray::{Array1, Axis};
use warpsmith::{Device, DeviceArray, Error, LaunchConfig, Schedule};
use warpsmith_guide_kernels::debugging::{double, logarithms, reversed, sums_of_what_is_left};
use warpsmith_guide_kernels::together::count_even_wrong;

use crate::book::{assert_shown, simulator};

// ANCHOR: errors
fn five_errors() -> warpsmith::Result<String> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::zeros(stream, (3, 4))?;
    let y = DeviceArray::<f32, _>::zeros(stream, (3, 5))?;

    let mut errors = String::new();
    for error in [
        x.add(&y).map(drop),
        x.matmul(&y).map(drop),
        x.max_axis(Axis(2)).map(drop),
        x.get([3, 0]).map(drop),
        DeviceArray::<f32, _>::zeros(stream, 0)?.max().map(drop),
    ] {
        errors += &format!("{}\n", error.unwrap_err());
    }
    Ok(errors)
}
// ANCHOR_END: errors

#[test]
fn errors_say_what_was_wanted() -> warpsmith::Result<()> {
    assert_shown("errors", &five_errors()?);
    Ok(())
}

#[test]
fn a_block_that_is_too_large() -> warpsmith::Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    // ANCHOR: too_large
    let mut x = DeviceArray::<f32, _>::zeros(stream, 10_000)?;
    let error = stream
        .launch::<double>(&LaunchConfig::new(5, 2000), (&mut x,))
        .unwrap_err();
    // ANCHOR_END: too_large
    assert_shown("too-large", &error.to_string());
    Ok(())
}

#[test]
fn shared_memory_that_nobody_wrote() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, 100)?;
    let mut out = DeviceArray::zeros(stream, 2)?;
    let error = stream.launch::<sums_of_what_is_left>(&LaunchConfig::for_len(100, 64), (&x, &mut out));
    assert_shown("uninitialised", &error.unwrap_err().to_string());
    Ok(())
}

// ANCHOR: fault
fn logarithms_of(x: &Array1<f32>) -> warpsmith::Result<Array1<f32>> {
    let device = Device::simulator();
    let x = DeviceArray::from_ndarray(device.default_stream(), x)?;
    let mut out = x.zeros_like()?;
    let config = LaunchConfig::for_len(x.len(), 32);
    if let Err(error) = x.stream().launch::<logarithms>(&config, (&x, &mut out)) {
        if let Error::Fault(fault) = &error {
            println!(
                "the kernel {}, block {:?}, thread {:?}",
                fault.kernel, fault.block, fault.thread
            );
        }
        return Err(error);
    }
    out.to_ndarray()
}
// ANCHOR_END: fault

#[test]
fn a_panic_is_an_error_with_a_place() -> warpsmith::Result<()> {
    assert_eq!(logarithms_of(&Array1::ones(40))?, Array1::zeros(40));
    let error = logarithms_of(&Array1::linspace(5.0, -1.0, 100)).unwrap_err();
    assert_shown("panic", &error.to_string());
    Ok(())
}

#[test]
fn arithmetic_that_overflows() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<u32, _>::ones(stream, 30)?;
    let mut out = DeviceArray::zeros(stream, 32)?;
    let error = stream.launch::<reversed>(&LaunchConfig::new(1, 32), (&x, &mut out));
    assert_shown("overflow", &error.unwrap_err().to_string());
    Ok(())
}

// ANCHOR: schedules
fn counts_the_same_by_all_schedules() -> warpsmith::Result<u32> {
    Device::compare_schedules(Schedule::several(8, 20), |device| {
        let stream = device.default_stream();
        let x = DeviceArray::<u32, _>::range(stream, 0, 1001, 1)?;
        let mut count = DeviceArray::zeros(stream, 1)?;
        stream.launch::<count_even_wrong>(&LaunchConfig::for_len(1001, 128), (&x, &mut count))?;
        count.get([0])
    })
}
// ANCHOR_END: schedules

#[test]
fn another_schedule_counts_otherwise() {
    let error = counts_the_same_by_all_schedules().unwrap_err();
    assert_shown("schedules", &error.to_string());
}
