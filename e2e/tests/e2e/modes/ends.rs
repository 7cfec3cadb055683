//! Sessions that only the application renews, at Envoys of both builds.

use anyhow::Result;
use limpet_e2e::{Build, Envoy, Site};
use serde_json::json;

use super::*;
use crate::dynamic_module::takes_both;

#[tokio::test]
async fn a_session_continues_at_an_envoy_with_the_other_build() -> Result<()> {
    if !takes_both().await? {
        return Ok(());
    }
    let load = |build| anyhow::Ok(every_mode(&json!({}))?.build(build));
    let site = Site::start(load(Build::Wasm)?).await?;
    let module = Envoy::serve(load(Build::Module)?.backends(&site.backends)).await?;
    let envoys = [&site.envoy, &module];
    for mode in Mode::ALL {
        for (here, there) in [(0, 1), (1, 0)] {
            let mut client = Client::new(envoys[here], mode);
            let first = client.begin("a~b").await?;
            for envoy in [there, here, there] {
                client.at = envoys[envoy].address();
                client.assert_holds(first.backend(), "a~b").await?;
            }
            // The other Envoy renews the session, and the first one honours the new token.
            let again = client.begin("c").await?;
            assert_eq!(again.backend(), first.backend(), "{mode:?}");
            client.at = envoys[here].address();
            client.assert_holds(first.backend(), "c").await?;
        }
    }
    Ok(())
}
