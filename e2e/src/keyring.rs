//! A keyring file that `limpet` creates, changes and wraps.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tools;

/// A keyring in a temporary directory.
#[derive(Debug)]
pub struct Keyring {
    directory: TempDir,
}

/// A key-encryption key in an environment variable.
#[derive(Debug, Clone)]
pub struct KeyEncryptionKey {
    /// The key's id.
    pub id: u8,
    /// The variable's name.
    pub variable: String,
    /// The variable's value.
    pub key: String,
}

impl KeyEncryptionKey {
    /// Makes a key in the variable `LIMPET_KEK_<id>`.
    ///
    /// # Errors
    /// If the `limpet` binary is missing.
    pub fn generate(id: u8) -> Result<Self> {
        Ok(Self {
            id,
            variable: format!("LIMPET_KEK_{id}"),
            key: run(&["keys", "generate"], None)?.trim_end().to_owned(),
        })
    }

    /// The key in the filter's configuration.
    #[must_use]
    pub fn config(&self) -> Value {
        json!({"id": self.id, "env": self.variable})
    }

    fn argument(&self) -> String {
        format!("{}={}", self.id, self.variable)
    }
}

impl Keyring {
    /// Makes a keyring with one key.
    ///
    /// # Errors
    /// If the `limpet` binary is missing.
    pub fn generate() -> Result<Self> {
        let keyring = Self {
            directory: TempDir::new()?,
        };
        run(&["keys", "generate", "--write", &keyring.path()], None)?;
        Ok(keyring)
    }

    /// Rotates by one phase. A retiring key is removed at once.
    ///
    /// # Errors
    /// If `limpet` refuses.
    pub fn rotate(&self) -> Result<()> {
        run(&["keys", "rotate", "--force", &self.path()], None).map(drop)
    }

    /// Revokes these keys, with `more` arguments, and returns the output.
    ///
    /// # Errors
    /// If `limpet` refuses.
    pub fn revoke(&self, ids: &[&str], more: &[&str]) -> Result<String> {
        let path = self.path();
        run(&[&["keys", "revoke", &path, "--key"], ids, more].concat(), None)
    }

    /// The command's counts of each key, from files of Envoys' `/stats`.
    ///
    /// # Errors
    /// If `limpet` refuses.
    pub fn count(stats: &[&str]) -> Result<Value> {
        let said = run(&[&["keys", "count", "-o", "json"], stats].concat(), None)?;
        Ok(serde_json::from_str(&said)?)
    }

    /// Writes the discovery file of the secret `limpet-keyring`, which names the keyring's file or contains its text.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn secret_file(&self, as_text: bool) -> Result<PathBuf> {
        let source = if as_text {
            json!({"inline_string": std::fs::read_to_string(self.file())?})
        } else {
            json!({"filename": self.file()})
        };
        let secret = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            "name": "limpet-keyring",
            "generic_secret": {"secret": source},
        });
        let file = self.directory.path().join("secret.json");
        std::fs::write(&file, json!({"resources": [secret]}).to_string())?;
        Ok(file)
    }

    /// A copy in another file.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn copied(&self) -> Result<Self> {
        let copy = Self {
            directory: TempDir::new()?,
        };
        std::fs::copy(self.file(), copy.file())?;
        Ok(copy)
    }

    /// Replaces the file's text, which need not be valid.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn replace(&self, text: &str) -> Result<()> {
        // Envoy watches for moves, so it never sees half a file.
        let new = self.directory.path().join("new");
        std::fs::write(&new, text)?;
        Ok(std::fs::rename(new, self.file())?)
    }

    /// The wrapped keyring, for the filter's configuration.
    ///
    /// # Errors
    /// If `limpet` refuses.
    pub fn wrap(&self, under: &KeyEncryptionKey) -> Result<String> {
        let arguments = ["keys", "wrap", &self.path(), "--key-encryption-key", &under.argument()];
        Ok(run(&arguments, Some(under))?.trim_end().to_owned())
    }

    /// Writes the wrapped keyring into a file of the filter's configuration.
    ///
    /// # Errors
    /// If `limpet` refuses.
    pub fn wrap_into(&self, file: &Path, under: &KeyEncryptionKey) -> Result<()> {
        let file = file.to_string_lossy();
        let arguments = [
            "keys",
            "wrap",
            &self.path(),
            "--key-encryption-key",
            &under.argument(),
            "--write",
            &file,
        ];
        run(&arguments, Some(under)).map(drop)
    }

    /// A token for this backend, in this cookie, the scope `default` and the cluster `backends`.
    ///
    /// # Errors
    /// If `limpet` refuses.
    pub fn token(&self, cookie: &str, host: &str) -> Result<String> {
        let keys = ["token", "issue", "--keys", &self.path(), "--name", cookie];
        let token = run(&[&keys[..], &["--host", host, "--cluster", "backends"]].concat(), None)?;
        Ok(token.trim_end().to_owned())
    }

    /// The keys' secrets, in base64.
    ///
    /// # Errors
    /// If the file is not a keyring.
    pub fn secrets(&self) -> Result<Vec<String>> {
        let document: Value = serde_json::from_str(&std::fs::read_to_string(self.file())?)?;
        let keys = document["keys"].as_array().context("no keys")?;
        keys.iter()
            .map(|key| Ok(key["secret"].as_str().context("no secret")?.to_owned()))
            .collect()
    }

    /// The path of the file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("keyring.json")
    }

    /// The path of the file, as text.
    #[must_use]
    pub fn path(&self) -> String {
        self.file().to_string_lossy().into_owned()
    }
}

/// Runs `limpet`, which must succeed, and returns its output.
fn run(arguments: &[&str], key: Option<&KeyEncryptionKey>) -> Result<String> {
    let environment: Vec<_> = key
        .iter()
        .map(|key| (key.variable.as_str(), key.key.as_str()))
        .collect();
    let output = tools::run_limpet(arguments, &environment)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "limpet {}: {said}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}
