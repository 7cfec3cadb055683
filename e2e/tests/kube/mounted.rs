//! Secrets in folders, as a kubelet mounts them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_e2e::kube::Client;
use limpet_e2e::poll;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Writes these files as a kubelet does: they are links into a folder that is replaced as a whole.
pub(crate) fn mount(folder: &Path, version: &str, files: &[(&str, &str)]) -> Result<()> {
    let content = folder.join(format!("..{version}"));
    fs::create_dir_all(&content)?;
    for (name, text) in files {
        fs::write(content.join(name), text)?;
    }
    symlink(format!("..{version}"), folder.join("..data_tmp"))?;
    fs::rename(folder.join("..data_tmp"), folder.join("..data"))?;
    for (name, _) in files {
        if !folder.join(name).exists() {
            symlink(Path::new("..data").join(name), folder.join(name))?;
        }
    }
    Ok(())
}

pub(crate) fn texts(secret: &Value) -> Result<Vec<(String, String)>> {
    let data = secret["data"].as_object().context("a Secret without data")?;
    let text = |(name, value): (&String, &Value)| -> Result<(String, String)> {
        let bytes = BASE64_STANDARD.decode(value.as_str().context("no text")?)?;
        Ok((name.clone(), String::from_utf8(bytes)?))
    };
    data.iter().map(text).collect()
}

/// A folder with a Secret's content, until dropped. Without the Secret, it stays unchanged.
pub(crate) struct Mounted {
    folder: PathBuf,
    task: JoinHandle<()>,
}

impl Mounted {
    /// Waits until the Secret exists.
    pub(crate) async fn new(client: &Client, secret: &str, folder: &Path) -> Result<Self> {
        let what = format!("the Secret {secret}");
        let first = poll::until(&what, async || client.find("v1/Secret", secret).await.ok().flatten());
        let mut last = texts(&first.await?)?;
        put(folder, 0, &last)?;
        let (client, secret, into) = (client.clone(), secret.to_owned(), folder.to_owned());
        let task = tokio::spawn(async move {
            for version in 1.. {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let found = client.find("v1/Secret", &secret).await.ok().flatten();
                let Some(found) = found
                    .and_then(|found| texts(&found).ok())
                    .filter(|found| *found != last)
                else {
                    continue;
                };
                // Failed writes are repeated.
                if put(&into, version, &found).is_ok() {
                    last = found;
                }
            }
        });
        let folder = folder.to_owned();
        Ok(Self { folder, task })
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn put(folder: &Path, version: u32, files: &[(String, String)]) -> Result<()> {
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    mount(folder, &version.to_string(), &files)
}
