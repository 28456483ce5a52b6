// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches in clusters. A GPU without them refuses these.

use cuda_std::launch::Kernel;
use cuda_std::tma::Swizzle;
use device_test_kernels::clusters::{
    BINS, BLOCKS, THREADS, cluster_sums, distributed_histogram, multicast, multicast_ring, pass_round, places,
    reverse_in_clusters,
};
use device_tests::{PTX, device, download, upload, zeros};
use warpsmith::{Checks, Device, DeviceArray, Error, LaunchConfig, Schedule};

/// A test for each case, on the device if it has clusters, and all of them on the simulated GPU with its checks, and in any order.
macro_rules! tests {
    ($($case:ident)*) => {
        const CASES: &[fn(&Device)] = &[$(cases::$case),*];

        $(#[test]
        fn $case() {
            let device = device();
            if (device.properties().compute_capability).is_none_or(|(major, _)| major >= 9) {
                cases::$case(&device);
            }
        })*
    };
}

tests! {
    blocks_know_their_places
    a_histogram_in_distributed_shared_memory
    sums_of_clusters
    blocks_write_to_one_another
    blocks_arrive_at_one_anothers_barriers
    a_copy_comes_to_all_blocks
    copies_go_through_a_ring
    graphs_have_launches_in_clusters
}

#[test]
fn kernels_in_clusters_are_right_in_any_order() {
    let scheduled = Schedule::several(8, 2).map(Device::scheduled_simulator);
    for device in [Device::checked_simulator(Checks::ALL)].into_iter().chain(scheduled) {
        device.register_kernels(PTX).unwrap();
        CASES.iter().for_each(|case| case(&device));
    }
}

#[test]
fn a_device_without_clusters_refuses_them() {
    let device = device();
    let x = zeros::<u32>(&device, 4);
    let mut out = zeros::<u32>(&device, 4);
    let refused = device
        .default_stream()
        .launch::<distributed_histogram>(&LaunchConfig::new(6, 32), (&x, &mut out))
        .unwrap_err();
    let wanted = match device.properties().compute_capability {
        Some((major, minor)) if major < 9 => format!(
            "launch of kernel `distributed_histogram`: clusters: given a GPU of compute capability {major}.{minor}, wanted 9.0 \
             or later, which has them: the kernel's are of (4, 1, 1) blocks"
        ),
        _ => "launch of kernel `distributed_histogram`: grid: given (6, 1, 1), wanted a multiple of the kernel's clusters of \
              (4, 1, 1) blocks"
            .into(),
    };
    assert_eq!(refused.to_string(), wanted);
    assert!(matches!(refused, Error::LaunchConfig { .. }));
}

/// The instructions that each kernel is there for, and nothing that only whole warps may come to.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn instructions_of_clusters() {
    let sync = ["barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"];
    let cases: [(&str, &str, &[&str]); 6] = [
        (
            "places_2_4",
            "sm_90",
            &[".reqnctapercluster 2, 4, 1", "%cluster_ctarank", "%cluster_nctaid.y"],
        ),
        (
            "distributed_histogram",
            "sm_90",
            &[
                ".target sm_90",
                ".reqnctapercluster 4, 1, 1",
                "mapa.shared::cluster.u32",
                "atom.relaxed.cluster.shared::cluster.add.u32",
            ],
        ),
        ("cluster_sums", "sm_90", &["ld.shared::cluster.v2.b32"]),
        ("reverse_in_clusters", "sm_90", &["st.shared::cluster.v4.b32"]),
        (
            "pass_round",
            "sm_90",
            &[
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _,",
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
            ],
        ),
        (
            "multicast",
            "sm_90a",
            &[".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"],
        ),
    ];
    for (kernel, arch, parts) in cases {
        let ptx = PTX.text(kernel, arch).unwrap();
        for part in parts.iter().chain(sync.iter().filter(|_| kernel != "places_2_4")) {
            assert!(ptx.contains(part), "`{kernel}` lacks `{part}`:\n{ptx}");
        }
        assert!(!ptx.contains("barrier.cluster.arrive.aligned"), "{ptx}");
    }
}

mod cases {
    use super::*;

    pub fn blocks_know_their_places(device: &Device) {
        fn check<K: Kernel<Params = (cuda_std::SliceMut<'static, u32>,)> + cuda_std::launch::SafeKernel>(
            device: &Device,
            (x, y): (u32, u32),
        ) {
            assert_eq!((K::CLUSTER.x, K::CLUSTER.y, K::CLUSTER.z), (x, y, 1));
            let (columns, rows) = (4, 8);
            let mut out = zeros::<u32>(device, 8 * 32);
            let config = LaunchConfig::new((columns, rows), 1);
            device.default_stream().launch::<K>(&config, (&mut out,)).unwrap();
            let blocks = (0..rows).flat_map(|row| (0..columns).map(move |column| (column % x, row % y)));
            let wanted: Vec<u32> = blocks
                .flat_map(|(at_x, at_y)| [at_x + x * at_y, x * y, at_x, at_y, 0, x, y, 1])
                .collect();
            assert_eq!(download(&out), wanted, "clusters of {x} × {y}");
        }
        check::<places<2, 4>>(device, (2, 4));
        check::<places<2, 1>>(device, (2, 1));
        check::<places<1, 4>>(device, (1, 4));
        check::<places<1, 1>>(device, (1, 1));
    }

    pub fn a_histogram_in_distributed_shared_memory(device: &Device) {
        let bins = BINS * BLOCKS as usize;
        for (len, clusters) in [(10_000, 3), (100, 1), (0, 2)] {
            let x: Vec<u32> = (0..len).map(|i: u32| i.wrapping_mul(i) % bins as u32).collect();
            let elements = upload(device, &x);
            let mut counts = zeros::<u32>(device, bins);
            let config = LaunchConfig::new(clusters * BLOCKS, THREADS);
            device
                .default_stream()
                .launch::<distributed_histogram>(&config, (&elements, &mut counts))
                .unwrap();
            let mut wanted = vec![0; bins];
            x.iter().for_each(|&x| wanted[x as usize] += 1);
            assert_eq!(download(&counts), wanted, "{len} elements, {clusters} clusters");
        }
    }

    pub fn sums_of_clusters(device: &Device) {
        let blocks = 5 * BLOCKS;
        let x: Vec<f64> = (0..blocks * THREADS).map(f64::from).collect();
        let elements = upload(device, &x);
        let mut sums = zeros::<f64>(device, blocks as usize);
        device
            .default_stream()
            .launch::<cluster_sums>(&LaunchConfig::new(blocks, THREADS), (&elements, &mut sums))
            .unwrap();
        let of_clusters = x.chunks((BLOCKS * THREADS) as usize).map(|x| x.iter().sum::<f64>());
        let wanted: Vec<f64> = of_clusters.flat_map(|sum| vec![sum; BLOCKS as usize]).collect();
        assert_eq!(download(&sums), wanted);
    }

    pub fn blocks_write_to_one_another(device: &Device) {
        let share = 4 * (BLOCKS * THREADS) as usize;
        let x: Vec<u32> = (0..7 * share as u32).collect();
        let elements = upload(device, &x);
        let mut out = zeros::<u32>(device, x.len());
        device
            .default_stream()
            .launch::<reverse_in_clusters>(&LaunchConfig::new(7 * BLOCKS, THREADS), (&elements, &mut out))
            .unwrap();
        let wanted: Vec<u32> = x.chunks(share).flat_map(|x| x.iter().rev().copied()).collect();
        assert_eq!(download(&out), wanted);
    }

    pub fn blocks_arrive_at_one_anothers_barriers(device: &Device) {
        for rounds in [1, 2, 101] {
            let blocks = 3 * BLOCKS;
            let mut out = zeros::<u32>(device, (blocks * THREADS) as usize);
            device
                .default_stream()
                .launch::<pass_round>(&LaunchConfig::new(blocks, THREADS), (rounds, &mut out))
                .unwrap();
            let mut wanted: Vec<u32> = (0..blocks * THREADS).collect();
            for round in 0..rounds {
                for cluster in wanted.chunks_mut((BLOCKS * THREADS) as usize) {
                    cluster.rotate_right(THREADS as usize);
                }
                let next = |number: &mut u32| *number = number.wrapping_mul(3).wrapping_add(round);
                wanted.iter_mut().for_each(next);
            }
            assert_eq!(download(&out), wanted, "{rounds} rounds");
        }
    }

    pub fn a_copy_comes_to_all_blocks(device: &Device) {
        let rows = 2 * BLOCKS as usize;
        let x: Vec<f32> = (0..rows * 32).map(|i| i as f32).collect();
        let stream = device.default_stream();
        let elements = DeviceArray::from_ndarray(
            stream,
            &ndarray::ArrayView2::from_shape((rows, 32), &x).expect("as many elements"),
        )
        .unwrap();
        let mut out = zeros::<f32>(device, x.len() * BLOCKS as usize);
        let config = LaunchConfig {
            dynamic_shared: 1024,
            ..LaunchConfig::new(rows as u32, 32)
        };
        let map = elements.tensor_map(&[1, 32], Swizzle::None).unwrap();
        // SAFETY: the tiles are of 1 × 32 elements, and the memory is there.
        unsafe { stream.launch_unchecked::<multicast>(&config, (&map, &mut out)) }.unwrap();
        let wanted: Vec<f32> = x
            .chunks(32 * BLOCKS as usize)
            .flat_map(|rows| rows.repeat(BLOCKS as usize))
            .collect();
        assert_eq!(download(&out), wanted);
    }

    pub fn copies_go_through_a_ring(device: &Device) {
        for rounds in [1, 2, 33] {
            let rows = (rounds * BLOCKS) as usize;
            // Whole numbers, whose sums are exact.
            let x = ndarray::Array2::from_shape_fn((rows, 32), |(row, column)| (row * 5 + column) as f32);
            let stream = device.default_stream();
            let elements = DeviceArray::from_ndarray(stream, &x).unwrap();
            let mut out = zeros::<f32>(device, 2 * 32 * BLOCKS as usize);
            let config = LaunchConfig {
                dynamic_shared: 1024,
                ..LaunchConfig::new(2 * BLOCKS, 32)
            };
            let map = elements.tensor_map(&[1, 32], Swizzle::None).unwrap();
            // SAFETY: the tiles are of 1 × 32 elements, and the memory is there.
            unsafe { stream.launch_unchecked::<multicast_ring>(&config, (rounds, &map, &mut out)) }.unwrap();
            let wanted = x.sum_axis(ndarray::Axis(0)).to_vec().repeat(2 * BLOCKS as usize);
            assert_eq!(download(&out), wanted, "{rounds} rounds");
        }
    }

    pub fn graphs_have_launches_in_clusters(device: &Device) {
        let share = 4 * (BLOCKS * THREADS) as usize;
        let x: Vec<u32> = (0..2 * share as u32).collect();
        let (elements, out) = (upload(device, &x), zeros::<u32>(device, x.len()));
        let config = LaunchConfig::new(2 * BLOCKS, THREADS);
        let mut graph = device
            .default_stream()
            .capture((elements, out), |stream, (elements, out)| {
                stream.launch::<reverse_in_clusters>(&config, (&*elements, &mut *out))
            })
            .unwrap();
        graph.launch().unwrap();
        let wanted: Vec<u32> = x.chunks(share).flat_map(|x| x.iter().rev().copied()).collect();
        assert_eq!(download(&graph.args().1), wanted);
    }
}
