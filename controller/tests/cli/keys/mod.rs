mod generate;
mod list;
mod revoke;
mod rotate;
mod wrap;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use time::format_description::well_known::Rfc3339;

use crate::{KEY, OTHER_KEY, Ran, folder, limpet};

/// A keyring file in its own folder. No secret of it may be printed.
struct Keyring {
    folder: TempDir,
}

impl Keyring {
    fn generated() -> Self {
        let keyring = Self { folder: folder() };
        keyring.generate().code(0);
        keyring
    }

    /// Keys by id, state, and hours in that state. Each was made an hour after the one before it.
    fn with(keys: &[(u8, &str, f64)]) -> Self {
        let keys = keys.iter().enumerate().map(|(i, (id, state, hours))| {
            let (created, since) = (ago(1000.0 - f64::from(u8::try_from(i).unwrap())), ago(*hours));
            let secret = [KEY, OTHER_KEY][i % 2];
            let mut key = json!({"id": id, "state": state, "created": created, "since": since});
            if *state != "revoked" {
                key["secret"] = secret.into();
            }
            key
        });
        Self::of(&json!({"keys": keys.collect::<Vec<_>>()}))
    }

    fn of(document: &Value) -> Self {
        let keyring = Self { folder: folder() };
        std::fs::write(keyring.file(), document.to_string()).unwrap();
        keyring.set_mode(0o600);
        keyring
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("keyring.json")
    }

    fn gets_older_by(&self, passed: time::Duration) {
        let mut document = self.document();
        for key in document["keys"].as_array_mut().unwrap() {
            for field in ["created", "since"] {
                let then = time::OffsetDateTime::parse(key[field].as_str().unwrap(), &Rfc3339).unwrap();
                key[field] = (then - passed).format(&Rfc3339).unwrap().into();
            }
        }
        std::fs::write(self.file(), document.to_string()).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn document(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    fn states(&self) -> Vec<(u64, String)> {
        let document = self.document();
        let keys = document["keys"].as_array().unwrap().iter();
        keys.map(|key| (key["id"].as_u64().unwrap(), key["state"].as_str().unwrap().to_owned()))
            .collect()
    }

    fn mode(&self) -> u32 {
        mode(&self.file())
    }

    fn set_mode(&self, mode: u32) {
        set_mode(&self.file(), mode);
    }

    /// `limpet keys COMMAND FILE …`, with two key-encryption keys.
    fn generate(&self) -> Ran {
        limpet(&["keys", "generate", "--write", self.file().to_str().unwrap()]).run()
    }

    fn limpet(&self, args: &[&str]) -> Ran {
        let file = self.file();
        let (command, rest) = args.split_first().unwrap();
        let args = [&["keys", command, file.to_str().unwrap()], rest].concat();
        let before = self.secrets();
        let ran = limpet(&args)
            .env("LIMPET_KEK_1", OTHER_KEY)
            .env("LIMPET_KEK_2", KEY)
            .run();
        for secret in before.iter().chain(&self.secrets()) {
            let shown = ran.stdout.contains(secret) || ran.stderr.contains(secret);
            assert!(!shown, "a secret is in the output: {ran:?}");
        }
        ran
    }

    fn secrets(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        let document: Value = serde_json::from_str(&text).unwrap_or_default();
        let keys = document["keys"].as_array().into_iter().flatten();
        keys.filter_map(|key| key["secret"].as_str().map(str::to_owned))
            .collect()
    }
}

/// Unix seconds, so many hours ago.
fn ago(hours: f64) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let then = now.as_secs_f64() - hours * 3600.0;
    format!("{:.0}", then.floor())
}

fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn states(states: &[(u64, &str)]) -> Vec<(u64, String)> {
    states.iter().map(|(id, state)| (*id, (*state).to_owned())).collect()
}
