// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms: what it costs that threads add to one counter.

use anyhow::Result;
use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Array1, Ix1};
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, bits};
use crate::kernels::histogram::{BINS, THREADS, histogram_aggregated, histogram_global, histogram_shared};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

type Vector<T> = DeviceArray<T, Ix1>;

/// Counts of `x` in a grid of `blocks` blocks, from zeros.
fn histogram<K>(x: &Vector<u32>, blocks: u32, out: &mut Vector<u32>) -> warpsmith::Result<()>
where
    K: SafeKernel<Params = (Slice<'static, u32>, SliceMut<'static, u32>)>,
{
    out.fill(0)?;
    x.stream()
        .clone()
        .launch::<K>(&LaunchConfig::new(blocks, THREADS as u32), (x, out))
}

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 25, 1 << 13);
    let title = format!("how often each of {BINS} values occurs, of {n}");
    let mut table =
        Steps::new(title, &["data", "counters"], Unit::Elements).counting(&[Count::Requests, Count::Collisions]);
    let most = 8 * lab.bench.device.properties().multiprocessors;
    let blocks = (n.div_ceil(THREADS) as u32).clamp(1, most);
    for (data, values) in [("256 values", BINS), ("4 values", 4), ("one value", 1)] {
        let host = array(n, |i| bits(i) % values as u32)?;
        let mut wanted = Array1::<u32>::zeros(BINS);
        host.iter().for_each(|&x| wanted[x as usize] += 1);
        let x = lab.bench.upload(&host)?;
        type Step = fn(&Vector<u32>, u32, &mut Vector<u32>) -> warpsmith::Result<()>;
        let steps: [(&str, Step); 3] = [
            ("in global memory", histogram::<histogram_global>),
            ("in shared memory", histogram::<histogram_shared>),
            ("shared, one lane for all alike", histogram::<histogram_aggregated>),
        ];
        for (name, step) in steps {
            let mut out = lab.bench.zeros(BINS)?;
            let cost = lab.cost(&mut out, |out| step(&x, blocks, out), |out| check_equal(out, &wanted))?;
            table.push([data.into(), name.into()], cost, n as f64);
        }
        let mut out = lab.bench.zeros(BINS)?;
        let launch = |out: &mut Vector<u64>| x.histogram_into(0.0..=BINS as f64, out);
        let cost = lab.cost(&mut out, launch, |out| check_equal(out, &wanted.mapv(u64::from)))?;
        table.push([data.into(), "the library".into()], cost, n as f64);
    }
    Ok(Report {
        lines: explain(&table),
        tables: vec![table.table()],
    })
}

/// Rows are four ways each for three kinds of data.
fn explain(table: &Steps) -> Vec<String> {
    if let Some(rates) = table.rates() {
        let [global, shared, aggregated, library] =
            [0, 1, 2, 3].map(|way| [rates[way], rates[4 + way], rates[8 + way]]);
        let one_word = match shared[2] / shared[0] {
            rate if rate > 0.9 => format!(
                "On one value the shared counters have {rate:.2} times their rate on {BINS}: that lanes which add to one word come one after another, as older texts have it, is not seen"
            ),
            rate => format!(
                "On one value the shared counters have {rate:.2} times their rate on {BINS}: lanes that add to one word come one after another"
            ),
        };
        return vec![
            format!(
                "Shared counters are {:.1} times as fast as global ones on {BINS} values, and {:.1} times where all elements are one value.",
                shared[0] / global[0],
                shared[2] / global[2]
            ),
            format!("{one_word}."),
            format!(
                "One lane that adds for all that are alike has {:.2} times the shared rate on {BINS} values, where few are, and {:.2} times on one: finding out who is alike costs more or less than it saves. The library is {:.2} and {:.2} times as fast as the shared counters.",
                aggregated[0] / shared[0],
                aggregated[2] / shared[2],
                library[0] / shared[0],
                library[2] / shared[2]
            ),
        ];
    }
    let Some(collisions) = table.counts(Count::Collisions) else {
        return vec![];
    };
    vec![
        format!(
            "Lanes that came to a counter at the same time as another lane of their warp: {} on {BINS} values, {} on 4, {} on one; those wait for one another.",
            collisions[1], collisions[5], collisions[9]
        ),
        format!(
            "Where one lane adds for all that are alike, {} of them are left on one value.",
            collisions[10]
        ),
    ]
}
