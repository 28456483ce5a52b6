// SPDX-License-Identifier: MIT OR Apache-2.0
//! Build scripts at the same time wait for each other, without keeping a processor from the one they wait for.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use jobserver::Client;

use crate::error::CudaBuilderError;

/// Takes this crate's own lock in the inner target folder, which ends with the returned file.
pub(crate) fn lock(target_dir: &Path) -> Result<File, CudaBuilderError> {
    fs::create_dir_all(target_dir).map_err(CudaBuilderError::io("create", target_dir))?;
    let path = target_dir.join(".cuda_builder.lock");
    let file = File::create(&path).map_err(CudaBuilderError::io("create", &path))?;
    let locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let lent = LentJob::new();
            let locked = file.lock();
            drop(lent);
            locked
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    match locked {
        // As cargo does: some network file systems know no locks.
        Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(CudaBuilderError::io("lock", &path)(error)),
        _ => Ok(file),
    }
}

/// What this process may do of cargo's jobs, given to others until it is dropped.
///
/// Cargo counts a build script as one job of as many as it does at a time, also while that waits. On two processors, the
/// compiler that a build script waits for would have one.
struct LentJob(Option<Client>);

impl LentJob {
    fn new() -> Self {
        // SAFETY: the variables are those that cargo has set for a build script, whose files it has opened for it; nothing
        // in this process closes them or takes others for its own.
        let client = unsafe { Client::from_env() };
        // Who has no job to give waits with it.
        Self(client.filter(|client| client.release_raw().is_ok()))
    }
}

impl Drop for LentJob {
    fn drop(&mut self) {
        if let Some(client) = &self.0 {
            // An error means that whoever counts jobs is gone.
            let _ = client.acquire_raw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// What the test below has itself run as.
    const WAITER: &str = "CUDA_BUILDER_TEST_WAITS_IN";

    #[test]
    fn who_waits_for_the_lock_lends_its_job() {
        if let Some(folder) = std::env::var_os(WAITER) {
            lock(Path::new(&folder)).unwrap();
            return;
        }
        let folder = std::env::temp_dir().join(format!("cuda_builder-lock-{}", std::process::id()));
        let held = lock(&folder).unwrap();
        // No job but the one that the waiting process is.
        let jobs = Client::new(0).unwrap();
        let mut waiter = Command::new(std::env::current_exe().unwrap());
        waiter.args(["--exact", "lock::tests::who_waits_for_the_lock_lends_its_job"]);
        waiter.env(WAITER, &folder);
        jobs.configure(&mut waiter);
        let mut waiter = waiter.spawn().unwrap();

        let (lent, is_lent) = channel();
        let taker = jobs.clone();
        std::thread::spawn(move || lent.send(taker.acquire_raw()));
        is_lent.recv_timeout(Duration::from_secs(60)).expect("a job").unwrap();
        drop(held);
        // The lock alone is not enough: it goes on when it has its job again.
        std::thread::sleep(Duration::from_millis(200));
        assert!(waiter.try_wait().unwrap().is_none());
        jobs.release_raw().unwrap();
        assert!(waiter.wait().unwrap().success());
        fs::remove_dir_all(folder).unwrap();
    }
}
