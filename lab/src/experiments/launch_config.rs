// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of a block, and elements of a thread.

use anyhow::Result;
use ndarray::{Array1, Ix1};
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, small};
use crate::kernels::map::{vector_add, vector_add_grid_stride, vector_add_several};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::{Cell, Report};

type Vector = DeviceArray<f32, Ix1>;

const BLOCKS: [u32; 6] = [32, 64, 128, 256, 512, 1024];

const EACH: [u32; 5] = [1, 2, 4, 8, 16];

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 26, 1 << 12);
    let (a, b) = (array(n, small)?, array(n, |i| small(n + i))?);
    let wanted = &a + &b;
    let (a, b) = (lab.bench.upload(&a)?, lab.bench.upload(&b)?);
    let device = &lab.bench.device;
    let bytes = (3 * n * size_of::<f32>()) as f64;
    let keys = ["threads a block", "elements a thread", "blocks", "threads at a time, %"];
    let mut table = Steps::new(format!("the sum of two vectors of {n} f32"), &keys, Unit::Bytes)
        .counting(&[Count::Requests, Count::SectorsPerRequest]);
    for threads in BLOCKS {
        let at_a_time = device.occupancy::<vector_add_several>(threads, 0)? * threads;
        let percent = 100.0 * f64::from(at_a_time) / f64::from(device.properties().max_threads_per_multiprocessor);
        for each in EACH {
            let blocks = n.div_ceil((threads * each) as usize).max(1);
            let config = LaunchConfig::new(blocks as u32, threads);
            let mut out = lab.bench.zeros(n)?;
            let launch = |out: &mut Vector| {
                lab.bench
                    .stream
                    .launch::<vector_add_several>(&config, (each, &a, &b, out))
            };
            let cost = lab.cost(&mut out, launch, |out| check_equal(out, &wanted))?;
            let keys = [
                (threads as usize).into(),
                (each as usize).into(),
                blocks.into(),
                percent.into(),
            ];
            table.push(keys, cost, bytes);
        }
    }
    let chosen = device.launch_config::<vector_add>(n)?.block.x;
    other_ways(lab, [&a, &b], &wanted, &mut table)?;

    Ok(Report {
        lines: table.rates().map_or_else(
            || vec![format!("The simulated GPU runs blocks on the host's cores; it would take blocks of {chosen} threads for this kernel. A request has as many sectors whatever the block.")],
            |rates| explain(&rates, chosen),
        ),
        tables: vec![table.table()],
    })
}

/// Rows of other kernels for the same.
fn other_ways(lab: &Lab, [a, b]: [&Vector; 2], wanted: &Array1<f32>, table: &mut Steps) -> Result<()> {
    let (device, n) = (&lab.bench.device, wanted.len());
    let bytes = (3 * n * size_of::<f32>()) as f64;
    let grid = at_a_time_in_all(lab)?.min(n.div_ceil(256).max(1) as u32);
    type Way<'a> = Box<dyn Fn(&mut Vector) -> warpsmith::Result<()> + 'a>;
    let stream = &lab.bench.stream;
    let ways: [(&str, Way); 3] = [
        (
            "a grid-stride loop",
            Box::new(|out| stream.launch::<vector_add_grid_stride>(&LaunchConfig::new(grid, 256), (a, b, out))),
        ),
        (
            "by launch_config",
            Box::new(|out| stream.launch::<vector_add>(&device.launch_config::<vector_add>(n)?, (a, b, out))),
        ),
        ("the library", Box::new(|out| a.add_into(b, out))),
    ];
    for (name, way) in ways {
        let mut out = lab.bench.zeros(n)?;
        let cost = lab.cost(&mut out, way, |out| check_equal(out, wanted))?;
        table.push([name.into(), Cell::Empty, Cell::Empty, Cell::Empty], cost, bytes);
    }
    Ok(())
}

/// Blocks of 256 threads of the grid-stride kernel that run at a time on all multiprocessors.
fn at_a_time_in_all(lab: &Lab) -> Result<u32> {
    let device = &lab.bench.device;
    Ok(device.occupancy::<vector_add_grid_stride>(256, 0)? * device.properties().multiprocessors)
}

fn explain(rates: &[f64], chosen: u32) -> Vec<String> {
    let (grid, others) = rates.split_at(BLOCKS.len() * EACH.len());
    let (stride, by_config, library) = (others[0], others[1], others[2]);
    let place = |i: usize| (BLOCKS[i / EACH.len()], EACH[i % EACH.len()]);
    let by_rate = |a: &usize, b: &usize| grid[*a].total_cmp(&grid[*b]);
    let best = (0..grid.len()).max_by(by_rate).unwrap_or(0);
    let worst = (0..grid.len()).min_by(by_rate).unwrap_or(0);
    let near = grid.iter().filter(|&&rate| rate > 0.95 * grid[best]).count();
    let ((best_threads, best_each), (worst_threads, worst_each)) = (place(best), place(worst));
    vec![
        format!(
            "Best are blocks of {best_threads} threads with {best_each} elements each, {:.0} GB/s; worst {worst_threads} with {worst_each}, {:.0} GB/s.",
            grid[best], grid[worst]
        ),
        format!(
            "{near} of the {} settings are within 5 % of the best: for a kernel that memory limits, the block hardly matters as long as enough threads run at a time.",
            grid.len()
        ),
        format!(
            "`Device::launch_config` takes blocks of {chosen}, for the most threads at a time: {by_config:.0} GB/s; a grid-stride loop, with as many blocks as run at a time, {stride:.0}; the library's own addition, with wide loads, {library:.0}."
        ),
    ]
}
