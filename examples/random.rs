// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stock option is worth, by a million possible futures: `cargo run --release --example random`.

use ndarray::Ix1;
use warpsmith::{Device, DeviceArray, Generator};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let (price, strike, rate, volatility, years) = (100.0f32, 105.0, 0.03, 0.2, 1.0f32);

    // The logarithm of the price after so many years has a normal distribution.
    let mut random = Generator::new(2026);
    let drift = (rate - volatility * volatility / 2.0) * years;
    let returns: DeviceArray<f32, Ix1> = random.normal(stream, 1 << 20, drift, volatility * years.sqrt())?;
    let gains = returns.exp()?.mul_scalar(price)?.sub_scalar(strike)?.relu()?;
    let discount = (-rate * years).exp();
    let (value, deviation) = (discount * gains.mean()?, discount * gains.std(1)?);
    let error = deviation / (gains.len() as f32).sqrt();

    // F. Black and M. Scholes, "The pricing of options and corporate liabilities" (1973), for these numbers.
    let exact = 7.128;
    println!("the right to buy at {strike} is worth {value:.3} ± {error:.3}; by formula {exact}");
    assert!((value - exact).abs() < 4.0 * error);

    // The same seed gives the same numbers, on every device; an order for the futures is another use of it.
    let first = random.permutation(stream, gains.len())?.to_ndarray()?[0];
    println!("the first of them in random order is number {first}");
    Ok(())
}
