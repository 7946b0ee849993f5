//! The signals that end a process: SIGTERM and SIGINT drain, a second one cuts.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit status of a process that was cut, as shells give it for SIGINT.
const CUT: i32 = 130;

/// Cancels `stop` at the first SIGTERM or SIGINT. The second ends the process at once: what was not committed is done
/// again by the next owner.
///
/// # Errors
/// When the signals cannot be listened to.
pub(crate) fn on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        wait(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping: finishing what runs; a second signal cuts it");
        stop.cancel();
        wait(&mut terminate, &mut interrupt).await;
        tracing::warn!("cut by a second signal");
        std::process::exit(CUT);
    });
    Ok(())
}

async fn wait(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
