//! A leaked key is revoked: its tokens count no more, no request fails, and what ends is counted.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Carrier, Crowd, Envoy, KeyEncryptionKey, Keyring, Site};
use serde_json::Value;
use tempfile::TempDir;

use crate::keys::key_of;
use crate::wrapped_keys::{config, filter, push};

const CROWD: usize = 9;

struct Pair {
    site: Site,
    other: Envoy,
    keyring: Keyring,
    kek: KeyEncryptionKey,
    folder: TempDir,
}

impl Pair {
    async fn start() -> Result<Self> {
        let (keyring, kek) = (Keyring::generate()?, KeyEncryptionKey::generate(1)?);
        let filter = filter(&keyring.wrap(&kek)?, &[&kek]);
        let site = Site::start(config("ecds.yaml", &filter, &[&kek])?).await?;
        let other = config("ecds.yaml", &filter, &[&kek])?.backends(&site.backends);
        Ok(Self {
            other: Envoy::serve(other).await?,
            site,
            keyring,
            kek,
            folder: TempDir::new()?,
        })
    }

    fn envoys(&self) -> [&Envoy; 2] {
        [&self.site.envoy, &self.other]
    }

    async fn push(&self) -> Result<()> {
        let [one, other] = self.envoys();
        let push = |envoy| push(envoy, &self.keyring, &self.kek);
        let (one, other) = tokio::join!(push(one), push(other));
        one.and(other)
    }

    async fn stats(&self) -> Result<[String; 2]> {
        let mut files = Vec::new();
        for (number, envoy) in self.envoys().into_iter().enumerate() {
            let file: PathBuf = self.folder.path().join(format!("stats-{number}"));
            let path = ["/stats?format=json&filter=limpet", "/stats/prometheus?filter=limpet"][number];
            std::fs::write(&file, envoy.admin_text(path).await?)?;
            files.push(file.to_string_lossy().into_owned());
        }
        files.try_into().ok().context("two files")
    }

    /// The counts from the first Envoy's lines, and from its JSON.
    async fn counted_in_both_forms(&self) -> Result<[Value; 2]> {
        let file = self.folder.path().join("lines");
        std::fs::write(&file, self.site.envoy.admin_text("/stats?filter=limpet").await?)?;
        let json = &self.stats().await?[0];
        Ok([Keyring::count(&[&file.to_string_lossy()])?, Keyring::count(&[json])?])
    }

    async fn counted(&self, key: u8) -> Result<Value> {
        let stats = self.stats().await?;
        let said = Keyring::count(&[&stats[0], &stats[1]])?;
        let keys = said["keys"].as_array().context("no keys")?;
        let found = keys.iter().find(|found| found["id"] == key).context("no such key")?;
        Ok(found.clone())
    }

    async fn refused(&self) -> Result<u64> {
        let mut sum = 0;
        for envoy in self.envoys() {
            sum += envoy.metric("web.refused.revoked_key").await?;
        }
        Ok(sum)
    }
}

#[tokio::test]
async fn a_revoked_key_counts_nothing_and_no_request_fails() -> Result<()> {
    let pair = Pair::start().await?;
    let leaked = pair.keyring.copied()?;
    let addresses = pair.envoys().map(Envoy::address);
    let crowd = Crowd::gather(CROWD, &[Carrier::Cookie], &addresses).await?;
    crowd.rounds(2).await?;
    let victim = pair.site.backends[0].address().to_string();
    let stolen = || leaked.token("limpet-session", &victim);
    for envoy in pair.envoys() {
        let answer = envoy
            .get("/")
            .cookie(format!("limpet-session={}", stolen()?))
            .send()
            .await?;
        ensure!(
            answer.set_cookies().is_empty(),
            "the leaked key makes tokens: that is the emergency"
        );
    }

    let [lines, json] = pair.counted_in_both_forms().await?;
    assert_eq!(lines, json);

    let stats = pair.stats().await?;
    let stats = ["--stats", &stats[0], &stats[1]];
    let said = pair.keyring.revoke(&["1"], &[&stats[..], &["--dry-run"]].concat())?;
    let expected = format!("ends     at most {CROWD} sessions, counted by 2 Envoys");
    ensure!(said.contains(&expected), "{said}");
    pair.keyring.revoke(&["1"], &stats)?;
    pair.push().await?;

    for envoy in pair.envoys() {
        envoy
            .until_every_worker("no token of the key is honoured", |answer| {
                answer
                    .set_cookie("limpet-session")
                    .is_some_and(|cookie| key_of(&cookie.value).is_ok_and(|key| key == 2))
            })
            .await?;
        let answer = envoy
            .get("/")
            .cookie(format!("limpet-session={}", stolen()?))
            .send()
            .await?;
        let fresh = answer.set_cookie("limpet-session").context("it is honoured")?;
        assert_eq!(key_of(&fresh.value)?, 2);
    }
    crowd.rounds(4).await?;
    let ended = pair.counted(1).await?["ended"].as_u64().context("no count")?;
    ensure!(ended >= u64::try_from(CROWD)?, "{ended} ended");
    assert_eq!(pair.refused().await?, ended, "each was counted where it was refused");
    crowd.rounds(4).await?;
    assert_eq!(pair.counted(1).await?["ended"], ended, "and once each");
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        let last = journey.tokens().last().and_then(|visit| visit.token.clone());
        assert_eq!(key_of(&last.context("no token")?)?, 2);
    }
    assert_eq!(pair.counted(2).await?["replaced"], 0);
    Ok(())
}

#[tokio::test]
async fn a_retiring_key_is_revoked_and_other_sessions_go_on() -> Result<()> {
    let pair = Pair::start().await?;
    let leaked = pair.keyring.copied()?;
    let addresses = pair.envoys().map(Envoy::address);
    let victim = pair.site.backends[0].address().to_string();
    for _ in 1..=3 {
        pair.keyring.rotate()?;
        pair.push().await?;
    }
    let crowd = Crowd::gather(CROWD, &[Carrier::Cookie], &addresses).await?;
    pair.keyring.revoke(&["1"], &[])?;
    pair.push().await?;
    crowd.rounds(4).await?;
    for envoy in pair.envoys() {
        let token = leaked.token("limpet-session", &victim)?;
        let answer = envoy.get("/").cookie(format!("limpet-session={token}")).send().await?;
        ensure!(answer.set_cookie("limpet-session").is_some(), "the leaked key counts");
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    for journey in &journeys.0 {
        ensure!(
            journey.moves().is_empty(),
            "a session of another key moved: {:?}",
            journey.moves()
        );
    }
    assert_eq!(pair.refused().await?, 2);
    Ok(())
}
