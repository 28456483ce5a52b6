// SPDX-License-Identifier: MIT OR Apache-2.0
//! π, by random points of which none is ever in memory: `cargo run --release --example monte_carlo [POINTS]`.

use std::env;
use std::f64::consts::PI;
use std::time::Instant;

use warpsmith::{Device, Generator, Result};

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let default = if device.is_simulator() { 1 << 18 } else { 1 << 32 };
    let points: usize = env::args()
        .nth(1)
        .map_or(default, |points| points.parse().expect("a number of points"));

    let mut random = Generator::new(2026);
    // The first time, the driver compiles the kernel; the second one has other points.
    for run in ["first", "second"] {
        let start = Instant::now();
        // Points of a square, each a function of its place. A quarter of a circle has π/4 of them.
        let x = random.uniform_expr(points, 0.0f32..1.0);
        let y = random.uniform_expr(points, 0.0f32..1.0);
        let inside = (x.square() + y.square()).less(1.0).count();
        // Points are made and counted in one go, which reads nothing.
        let inside = inside.eval_on(stream)?.to_ndarray()?.into_scalar();
        let seconds = start.elapsed().as_secs_f64();

        let pi = 4.0 * inside as f64 / points as f64;
        let deviation = (PI * (4.0 - PI) / points as f64).sqrt();
        println!(
            "{run}: π is {pi:.7} of {points} points, off by {:.1e} where {deviation:.1e} is usual; {:.3} ms, {:.1} points a µs",
            (pi - PI).abs(),
            seconds * 1e3,
            points as f64 / seconds / 1e6
        );
        assert!((pi - PI).abs() < 5.0 * deviation);
    }
    Ok(())
}
