// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches whose blocks meet.

use device_test_kernels::cooperative::{add_neighbours, sum_in_two_phases};
use device_tests::{device, download, upload, zeros};
use warpsmith::{DeviceGridBarrier, Error, LaunchConfig};

/// What [`add_neighbours`] does.
fn add_rounds(values: &mut [u32], rounds: u32) {
    let blocks = values.len() / 2;
    for round in 0..rounds as usize {
        let (from, to) = (round % 2 * blocks, (round + 1) % 2 * blocks);
        for i in 0..blocks {
            values[to + i] = values[from + i].wrapping_add(values[from + (i + 1) % blocks]);
        }
    }
}

/// Values for so many blocks: 0, 1, 2 and so on, and the other half.
fn start(blocks: usize) -> Vec<u32> {
    (0..blocks as u32).chain(vec![0; blocks]).collect()
}

#[test]
fn a_sum_in_two_phases() {
    let device = device();
    let stream = device.default_stream();
    let x: Vec<u32> = (0..10_000).collect();
    let elements = upload(&device, &x);
    let mut barrier = DeviceGridBarrier::new(stream).unwrap();
    let most = device.cooperative_config::<sum_in_two_phases>(256, 0).unwrap();
    for config in [LaunchConfig::new(1, 32), LaunchConfig::new(2, 96), most] {
        let mut sums = zeros::<u32>(&device, config.grid.count() as usize);
        let mut out = zeros::<u32>(&device, 1);
        stream
            .launch::<sum_in_two_phases>(&config, (&mut barrier, &elements, &mut sums, &mut out))
            .unwrap();
        assert_eq!(download(&out), [x.iter().sum::<u32>()], "{config:?}");
    }
}

#[test]
fn blocks_meet_a_hundred_times() {
    let device = device();
    // Odd numbers of rounds too: a launch finds the barrier as the one before has left it.
    let mut barrier = DeviceGridBarrier::new(device.default_stream()).unwrap();
    let most = device.cooperative_config::<add_neighbours>((32, 8), 0).unwrap();
    for (config, rounds) in [
        (LaunchConfig::new(1, 32), 99),
        (LaunchConfig::new((1, 2), (8, 4)), 101),
        (LaunchConfig::new((1, 1, 2), 64), 100),
        (most, 100),
        (most, 1),
        (most, 100),
    ] {
        let blocks = config.grid.count() as usize;
        let mut values = upload(&device, &start(blocks));
        // Other launches of the barrier's are waited for.
        let stream = device.create_stream().unwrap();
        stream
            .launch::<add_neighbours>(&config, (rounds, &mut barrier, &mut values))
            .unwrap();
        let mut wanted = start(blocks);
        add_rounds(&mut wanted, rounds);
        assert_eq!(download(&values), wanted, "{config:?}");
    }
}

#[test]
fn a_grid_has_as_many_blocks_as_run_at_a_time() {
    let device = device();
    let stream = device.default_stream();
    let mut barrier = DeviceGridBarrier::new(stream).unwrap();
    for (threads, shared) in [(32, 0), (1024, 0), (64, 40_000)] {
        let most = device.cooperative_config::<add_neighbours>(threads, shared).unwrap();
        assert_eq!((most.block, most.dynamic_shared), (threads.into(), shared));
        let blocks = device.occupancy::<add_neighbours>(threads, shared).unwrap();
        let (blocks, all) = (most.grid.x, blocks * device.properties().multiprocessors);
        assert!(blocks == all || device.is_simulator() && blocks == 28 * 1024 / threads);
        let config = LaunchConfig {
            grid: (blocks + 1).into(),
            ..most
        };
        let mut values = zeros::<u32>(&device, 2 * blocks as usize + 2);
        let wanted = format!(
            "launch of kernel `add_neighbours`: blocks of a cooperative launch: given {}, wanted at most {blocks}, as many \
             as run at a time",
            blocks + 1
        );
        let refused = stream.launch::<add_neighbours>(&config, (1, &mut barrier, &mut values));
        assert_eq!(refused.unwrap_err().to_string(), wanted);
        let graph = stream.capture((&mut barrier, &mut values), |stream, (barrier, values)| {
            stream.launch::<add_neighbours>(&config, (1, &mut **barrier, &mut **values))
        });
        assert_eq!(graph.unwrap_err().to_string(), wanted);
        // Nothing was done, and the barrier is as it was.
        stream
            .launch::<add_neighbours>(&most, (3, &mut barrier, &mut values))
            .unwrap();
        assert!(download(&values).iter().all(|&value| value == 0));
    }
}

#[test]
fn graphs_have_cooperative_launches() {
    let device = device();
    let stream = device.default_stream();
    let config = device.cooperative_config::<add_neighbours>(64, 0).unwrap();
    let blocks = config.grid.x as usize;
    let barrier = DeviceGridBarrier::new(stream).unwrap();
    let values = upload(&device, &start(blocks));
    let mut graph = stream
        .capture((barrier, values), |stream, (barrier, values)| {
            stream.launch::<add_neighbours>(&config, (5, &mut *barrier, &mut *values))?;
            let squares = values.square()?;
            let mut own = DeviceGridBarrier::new(stream)?;
            stream.launch::<add_neighbours>(&config, (4, &mut own, &mut *values))?;
            stream.launch::<add_neighbours>(&config, (1, &mut own, &mut *values))?;
            Ok(squares)
        })
        .unwrap();
    // From half to half: five rounds leave the values in the second half, and the first is where the next five begin.
    for _ in 0..3 {
        let again = upload(&device, &start(blocks));
        graph.args_mut().1.assign(&again).unwrap();
        graph.launch().unwrap();
        let mut host = start(blocks);
        add_rounds(&mut host, 5);
        let squares: Vec<u32> = host.iter().map(|value| value.wrapping_mul(*value)).collect();
        assert_eq!(download(graph.output()), squares);
        add_rounds(&mut host, 4);
        add_rounds(&mut host, 1);
        assert_eq!(download(&graph.args().1), host);
    }
}

#[test]
fn a_barrier_is_for_its_own_device() {
    let (device, other) = (device(), warpsmith::Device::simulator());
    let mut barrier = DeviceGridBarrier::new(other.default_stream()).unwrap();
    let mut values = zeros::<u32>(&device, 2);
    let refused = device
        .default_stream()
        .launch::<add_neighbours>(&LaunchConfig::new(1, 32), (1, &mut barrier, &mut values));
    assert!(matches!(refused, Err(Error::DifferentDevices { .. })), "{refused:?}");
}
