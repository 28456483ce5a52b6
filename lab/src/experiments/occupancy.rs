// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many threads it takes to keep memory busy, and what else does.

use anyhow::Result;
use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Array1, Ix1};
use warpsmith::{DeviceArray, LaunchConfig};

use crate::bench::Bench;
use crate::data::{array, small};
use crate::kernels::map::{HELD_THREADS, vector_add_held, vector_add_several};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

type Vector = DeviceArray<f32, Ix1>;

/// Rates by the percentage of the threads that are there at a time.
type Points = Vec<(f64, f64)>;

const THREADS: u32 = HELD_THREADS as u32;

/// Elements of each thread.
const EACH: [u32; 2] = [1, 8];

/// Those of each thread that are loaded at once: the kernels that there are.
const HELD: [usize; 4] = [1, 4, 16, 32];

/// Two vectors, and what their sum is to be.
struct Sum<'a> {
    lab: &'a Lab,
    a: Vector,
    b: Vector,
    wanted: Array1<f32>,
}

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 26, 1 << 13);
    let (a, b) = (array(n, small)?, array(n, |i| small(n + i))?);
    let sum = Sum {
        lab,
        wanted: &a + &b,
        a: lab.bench.upload(&a)?,
        b: lab.bench.upload(&b)?,
    };
    let (by_memory, lines) = sum.by_shared_memory()?;
    let (by_registers, percent) = sum.by_registers()?;
    let mut lines = explain(&lines);
    lines.extend(of_registers(&percent, &by_registers.rates().unwrap_or_default()));
    Ok(Report {
        lines,
        tables: vec![by_memory.table(), by_registers.table()],
    })
}

impl Sum<'_> {
    fn len(&self) -> usize {
        self.wanted.len()
    }

    /// The blocks that add vectors of which each thread has `each` elements.
    fn blocks(&self, each: usize) -> u32 {
        self.len().div_ceil(THREADS as usize * each).max(1) as u32
    }

    /// `blocks` at a time, and the percentage of the threads that a multiprocessor has room for.
    fn percent(&self, blocks: u32) -> f64 {
        let most = self.lab.bench.device.properties().max_threads_per_multiprocessor;
        100.0 * f64::from(blocks * THREADS) / f64::from(most)
    }

    /// A row of `table`: what `launch` costs, whose threads have `each` elements and whose blocks are as many at a time.
    fn push(
        &self,
        table: &mut Steps,
        [each, blocks]: [u32; 2],
        launch: impl FnMut(&mut Vector) -> warpsmith::Result<()>,
    ) -> Result<()> {
        let mut out = self.lab.bench.zeros(self.len())?;
        let cost = self.lab.cost(&mut out, launch, |out| check_equal(out, &self.wanted))?;
        let keys = [
            (each as usize).into(),
            (blocks as usize).into(),
            self.percent(blocks).into(),
        ];
        table.push(keys, cost, (3 * self.len() * size_of::<f32>()) as f64);
        Ok(())
    }

    fn table(&self, with: &str) -> Steps {
        Steps::new(
            format!("the sum of two vectors of {} f32, {with}", self.len()),
            &["elements a thread", "blocks at a time", "threads at a time, %"],
            Unit::Bytes,
        )
        .counting(&[Count::SectorsPerRequest])
    }

    /// With points for each number of elements.
    fn by_shared_memory(&self) -> Result<(Steps, Vec<Points>)> {
        let Bench { device, stream, .. } = &self.lab.bench;
        let properties = device.properties();
        let optin = properties.shared_memory_per_block_optin;
        let room = properties.shared_memory_per_multiprocessor.unwrap_or(optin);
        let mut table = self.table("with blocks kept out by shared memory that nobody uses");
        let mut lines = Vec::new();
        for each in EACH {
            let mut points = Vec::new();
            for blocks in [1, 2, 3, 4, 6, 8] {
                // A block may have a kilobyte for the system besides.
                let share = ((room / blocks).saturating_sub(1024).min(optin) / 128 * 128) as usize;
                let blocks = device.occupancy::<vector_add_several>(THREADS, share)?;
                let config = LaunchConfig {
                    dynamic_shared: share,
                    ..LaunchConfig::new(self.blocks(each as usize), THREADS)
                };
                let launch =
                    |out: &mut Vector| stream.launch::<vector_add_several>(&config, (each, &self.a, &self.b, out));
                self.push(&mut table, [each, blocks], launch)?;
                points.push(self.percent(blocks));
            }
            let rates = table.rates().unwrap_or_default();
            let mine = rates.into_iter().skip(lines.len() * points.len());
            lines.push(points.into_iter().zip(mine).collect());
        }
        Ok((table, lines))
    }

    /// More and more registers for each thread.
    fn by_registers(&self) -> Result<(Steps, [f64; HELD.len()])> {
        let mut table =
            self.table("with blocks kept out by registers, for all elements of a thread are loaded at once");
        let percent = [
            self.held::<{ HELD[0] }>(&mut table)?,
            self.held::<{ HELD[1] }>(&mut table)?,
            self.held::<{ HELD[2] }>(&mut table)?,
            self.held::<{ HELD[3] }>(&mut table)?,
        ];
        Ok((table, percent))
    }

    fn held<const EACH: usize>(&self, table: &mut Steps) -> Result<f64>
    where
        vector_add_held<EACH>: SafeKernel<Params = (Slice<'static, f32>, Slice<'static, f32>, SliceMut<'static, f32>)>,
    {
        let Bench { device, stream, .. } = &self.lab.bench;
        let blocks = device.occupancy::<vector_add_held<EACH>>(THREADS, 0)?;
        let config = LaunchConfig::new(self.blocks(EACH), THREADS);
        let launch = |out: &mut Vector| stream.launch::<vector_add_held<EACH>>(&config, (&self.a, &self.b, out));
        self.push(table, [EACH as u32, blocks], launch)?;
        Ok(self.percent(blocks))
    }
}

/// What kernels show of which each has more registers: the percentages of the threads, and the rates.
fn of_registers(percent: &[f64], rates: &[f64]) -> Option<String> {
    let ([most, .., least], [first, .., last]) = (percent, rates) else {
        return None;
    };
    let means = match last / first {
        part if part > 0.95 => "loads of one thread that are under way side by side do what more threads do",
        _ => "what loads side by side bring is less than what the missing threads cost",
    };
    Some(format!(
        "With {} elements of each in a thread's registers, {least:.0} % of the threads have room instead of {most:.0}, and move {last:.0} GB/s instead of {first:.0}: {means}.",
        HELD[HELD.len() - 1]
    ))
}

fn explain(lines: &[Points]) -> Vec<String> {
    let [one, several] = lines else {
        return vec![];
    };
    let (Some(least), Some(most)) = (one.first(), one.last()) else {
        return vec!["The simulated GPU runs blocks on the host's cores: how many are at a time says nothing there of memory. The table shows what its driver would allow.".into()];
    };
    let enough = one.iter().find(|point| point.1 > 0.95 * most.1).unwrap_or(most);
    let of_several = several.first().map_or(0.0, |point| point.1);
    let on = match enough.0 < most.0 {
        true => format!(
            "From {:.0} % on it is within 5 % of the rate at {:.0} %: more threads than that buy nothing.",
            enough.0, most.0
        ),
        false => format!("No fewer than {:.0} % come within 5 % of that rate.", most.0),
    };
    vec![
        format!(
            "With {:.0} % of the threads at a time the kernel moves {:.0} GB/s, with {:.0} % {:.0}: loads are under way for hundreds of cycles, and other threads have to ask for more meanwhile.",
            least.0, least.1, most.0, most.1
        ),
        on,
        format!(
            "With {} elements a thread {:.0} % move {:.0} GB/s, {:.2} times as many as with one: threads go on where otherwise new blocks have to begin.",
            EACH[1],
            least.0,
            of_several,
            of_several / least.1
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_judged_by_the_rates() {
        let percent = [100.0, 100.0, 50.0, 25.0];
        // Made up: more loads make up for fewer threads, and do not.
        let line = of_registers(&percent, &[2300.0, 2500.0, 2500.0, 2400.0]).unwrap();
        assert!(line.contains("With 32 elements of each in a thread's registers, 25 % of the threads have room instead of 100, and move 2400 GB/s instead of 2300: loads of one"), "{line}");
        let line = of_registers(&percent, &[2300.0, 2500.0, 2500.0, 1200.0]).unwrap();
        assert!(line.ends_with("less than what the missing threads cost."), "{line}");
        assert_eq!(of_registers(&percent, &[]), None);
    }
}
