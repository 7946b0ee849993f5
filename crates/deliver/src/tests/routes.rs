//! What is kept of endpoints between their requests.

use std::time::Duration;

use super::rig::Rig;

/// L6: no key stays of a secret that was changed, also where nothing more is delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_forgotten_when_its_endpoint_is_set_up_otherwise() {
    let mut rig = Rig::start("ok").await;
    rig.append_numbered(0..1).await;
    rig.append(rig.other(0)).await;
    let run = rig.run();
    rig.wait_done(2).await;
    assert_eq!(run.routes(), 2);
    rig.rotate_secret().await;
    let forgotten = async {
        while run.routes() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), forgotten).await.expect("the routes are forgotten");
    run.stop().await;
}
