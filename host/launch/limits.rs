// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernel and device take of a launch's configuration, asked ahead of it.

use super::LaunchConfig;
use crate::backend::KernelInfo;
use crate::device::Properties;
use crate::error::{Error, Result};

/// The error of a configuration of which something is refused.
fn refused(kernel: &str, what: &'static str, given: String, wanted: String) -> Result<()> {
    Err(Error::LaunchConfig {
        kernel: kernel.into(),
        what,
        given,
        wanted,
    })
}

/// Whether the kernel and the device take the configuration.
pub(crate) fn check(kernel: &str, max_threads: u32, config: &LaunchConfig, device: &Properties) -> Result<()> {
    let refuse = |what, given, wanted| refused(kernel, what, given, wanted);
    let (grid, block) = (config.grid, config.block);
    for (what, given, most) in [("grid", grid, device.max_grid), ("block", block, device.max_block)] {
        let fits = |given: u32, most: u32| (1..=most).contains(&given);
        if !(fits(given.x, most.x) && fits(given.y, most.y) && fits(given.z, most.z)) {
            return refuse(what, given.to_string(), format!("(1, 1, 1) to {most}"));
        }
    }
    let most = max_threads.min(device.max_threads_per_block);
    if block.count() > u64::from(most) {
        return refuse(
            "threads of a block",
            block.count().to_string(),
            format!("at most {most}"),
        );
    }
    let most = device.shared_memory_per_block_optin;
    if config.dynamic_shared > most as usize {
        return refuse(
            "dynamic shared memory",
            format!("{} bytes", config.dynamic_shared),
            format!("at most {most}"),
        );
    }
    Ok(())
}

/// Whether the device has clusters, if the kernel wants some, and the grid a whole number of them.
pub(super) fn check_clusters(kernel: &KernelInfo, config: &LaunchConfig, device: &Properties) -> Result<()> {
    let (grid, cluster) = (config.grid, kernel.cluster);
    if cluster.count() == 1 {
        return Ok(());
    }
    let refuse = |what, given, wanted| refused(kernel.name, what, given, wanted);
    if let Some((major, minor)) = device.compute_capability
        && major < 9
    {
        return refuse(
            "clusters",
            format!("a GPU of compute capability {major}.{minor}"),
            format!("9.0 or later, which has them: the kernel's are of {cluster} blocks"),
        );
    }
    let is_cut = [(grid.x, cluster.x), (grid.y, cluster.y), (grid.z, cluster.z)];
    if is_cut.into_iter().any(|(grid, cluster)| !grid.is_multiple_of(cluster)) {
        return refuse(
            "grid",
            grid.to_string(),
            format!("a multiple of the kernel's clusters of {cluster} blocks"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn config(grid: u32, block: (u32, u32, u32), dynamic_shared: usize) -> LaunchConfig {
        LaunchConfig {
            grid: grid.into(),
            block: block.into(),
            dynamic_shared,
        }
    }

    #[test]
    fn clusters_are_checked_before_the_launch() {
        struct Any;
        let kernel = |cluster| KernelInfo {
            id: std::any::TypeId::of::<Any>(),
            package: "p",
            version: "1.0.0",
            name: "k",
            signature: 0,
            sizes: &[],
            cooperative: false,
            cluster,
            sets_cluster: false,
            run: |_| unreachable!("nothing is launched here"),
        };
        let gpu = |capability| Properties {
            compute_capability: Some(capability),
            ..Properties::default()
        };
        let config = |grid: (u32, u32, u32)| LaunchConfig::new(grid, 32);
        let check = |cluster: (u32, u32, u32), grid, capability| {
            check_clusters(&kernel(cluster.into()), &config(grid), &gpu(capability)).map_err(|error| error.to_string())
        };
        assert_eq!(check((1, 1, 1), (5, 1, 1), (7, 5)), Ok(()));
        assert_eq!(check((4, 2, 1), (8, 2, 3), (9, 0)), Ok(()));
        assert_eq!(check((4, 2, 1), (8, 2, 3), (12, 0)), Ok(()));
        assert_eq!(
            check((4, 2, 1), (8, 3, 1), (9, 0)).unwrap_err(),
            "launch of kernel `k`: grid: given (8, 3, 1), wanted a multiple of the kernel's clusters of (4, 2, 1) blocks"
        );
        assert_eq!(
            check((4, 2, 1), (8, 2, 1), (8, 9)).unwrap_err(),
            "launch of kernel `k`: clusters: given a GPU of compute capability 8.9, wanted 9.0 or later, which has them: the \
             kernel's are of (4, 2, 1) blocks"
        );
    }

    #[test]
    fn configurations_are_checked_before_the_launch() {
        let device = Device::simulator();
        let check = |max_threads, config: LaunchConfig| check("k", max_threads, &config, device.properties());
        assert!(check(1024, config(1, (1024, 1, 1), 0)).is_ok());
        let message = |max_threads, config| check(max_threads, config).unwrap_err().to_string();
        assert_eq!(
            message(256, config(1, (16, 17, 1), 0)),
            "launch of kernel `k`: threads of a block: given 272, wanted at most 256"
        );
        assert_eq!(
            message(1024, config(0, (32, 1, 1), 0)),
            "launch of kernel `k`: grid: given (0, 1, 1), wanted (1, 1, 1) to (2147483647, 65535, 65535)"
        );
        assert!(message(1024, config(1, (1, 1, 65), 0)).contains("block: given (1, 1, 65)"));
        assert!(message(1024, config(1, (1, 1, 1), 1 << 20)).contains("given 1048576 bytes"));
    }
}
