//! The lock of a look outlives the client that asked.

use std::sync::mpsc;

use tokio::sync::Mutex;

use super::*;

#[tokio::test]
async fn work_that_nobody_waits_for_any_more_keeps_its_lock() {
    let explaining = Arc::new(Mutex::new(()));
    let lock = Arc::clone(&explaining).try_lock_owned().expect("free");
    let (started, has_started) = tokio::sync::oneshot::channel();
    let (end, ended) = mpsc::channel::<()>();
    let request = tokio::spawn(on_a_thread_of_its_own(lock, move || {
        started.send(()).expect("somebody waits");
        let _ = ended.recv();
    }));
    has_started.await.expect("it started");
    request.abort();
    assert!(request.await.expect_err("the client went away").is_cancelled());
    assert!(explaining.try_lock().is_err(), "the work goes on");
    drop(end);
    // Until the work ends.
    let _free = explaining.lock().await;
}
