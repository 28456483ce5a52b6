// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is around the kernels, by the host's clock: `cargo bench --bench runtime`, or a part of it by its name, as in
//! `cargo bench --bench runtime -- transfer`.

mod calls;
mod cold_start;
mod driver;
mod graph;
mod pipeline;
mod transfer;

use std::env;
use std::error::Error;

type Part = fn() -> Result<(), Box<dyn Error>>;

const PARTS: [(&str, Part); 5] = [
    ("cold_start", cold_start::run),
    ("transfer", || Ok(transfer::run()?)),
    ("graph", || Ok(graph::run()?)),
    ("calls", || Ok(calls::run()?)),
    ("pipeline", || Ok(pipeline::run()?)),
];

fn main() -> Result<(), Box<dyn Error>> {
    if cold_start::is_round()? {
        return Ok(());
    }
    let asked: Vec<String> = env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    if let Some(name) = asked.iter().find(|asked| PARTS.iter().all(|(name, _)| name != asked)) {
        return Err(format!("`{name}` is none of {}", PARTS.map(|(name, _)| name).join(", ")).into());
    }
    for (name, run) in PARTS {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            run()?;
        }
    }
    Ok(())
}
