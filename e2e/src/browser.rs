//! Chromium, driven by chromedriver.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{poll, tools};

/// No other host name resolves.
const NOTHING: &str = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1";

/// A browser with its own profile that reaches only one machine, until it is dropped.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    driver: Driver,
    capabilities: Capabilities,
}

impl Browser {
    /// Starts a browser that takes one Envoy with TLS for all hosts `*.example`, and checks no certificates.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(envoy: SocketAddr) -> Result<Self> {
        Self::start_with(envoy, &json!({})).await
    }

    /// Starts a browser with these preferences, named as in Chromium.
    ///
    /// # Errors
    /// As [`Browser::start`].
    pub async fn start_with(envoy: SocketAddr, preferences: &Value) -> Result<Self> {
        Self::start_knowing(&format!("MAP *.example:443 {envoy}, {NOTHING}"), preferences).await
    }

    /// Starts a browser that reaches only this IP address.
    ///
    /// # Errors
    /// As [`Browser::start`].
    pub async fn start_at(address: IpAddr) -> Result<Self> {
        Self::start_knowing(&format!("{NOTHING}, EXCLUDE {address}"), &json!({})).await
    }

    async fn start_knowing(hosts: &str, preferences: &Value) -> Result<Self> {
        let driver = Driver::start().await?;
        let capabilities = capabilities(&driver.directory, hosts, preferences)?;
        let client = driver.open(&capabilities).await?;
        Ok(Self {
            client,
            driver,
            capabilities,
        })
    }

    /// Ends the browser and starts it again with its profile.
    ///
    /// # Errors
    /// If it does not end or start.
    pub async fn restart(self) -> Result<Self> {
        poll::patiently("the browser to end", async { Ok(self.client.close().await?) }).await?;
        let client = self.driver.open(&self.capabilities).await?;
        Ok(Self { client, ..self })
    }

    /// Goes to a URL as typed, and waits for the page.
    ///
    /// # Errors
    /// If it does not come.
    pub async fn go(&self, url: &str) -> Result<()> {
        poll::patiently(url, async { Ok(self.client.goto(url).await?) }).await
    }

    /// Reloads the page.
    ///
    /// # Errors
    /// If it does not come.
    pub async fn reload(&self) -> Result<()> {
        poll::patiently("the page again", async { Ok(self.client.refresh().await?) }).await
    }

    /// Clicks on the element of this CSS selector.
    ///
    /// # Errors
    /// If there is none.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let click = async { Ok(self.client.find(Locator::Css(selector)).await?.click().await?) };
        poll::patiently(selector, click).await
    }

    /// Switches to the page's first frame.
    ///
    /// # Errors
    /// If there is none.
    pub async fn enter_frame(&self) -> Result<()> {
        Ok(self.client.enter_frame(0).await?)
    }

    /// The page's URL.
    ///
    /// # Errors
    /// If the browser has gone.
    pub async fn url(&self) -> Result<String> {
        Ok(self.client.current_url().await?.into())
    }

    /// The page, as a backend's JSON answer.
    ///
    /// # Errors
    /// If it is none.
    pub async fn page(&self) -> Result<Value> {
        let text = self.script("return document.body.innerText", &[]).await?;
        let text = text.as_str().context("a page without text")?;
        serde_json::from_str(text).with_context(|| format!("not an answer of a backend: {text}"))
    }

    /// Runs an asynchronous function's body in the page.
    ///
    /// # Errors
    /// If it throws.
    pub async fn script(&self, body: &str, arguments: &[Value]) -> Result<Value> {
        let function = format!("return (async function() {{ {body} }}).apply(null, arguments)");
        poll::patiently(body, async {
            Ok(self.client.execute(&function, arguments.to_vec()).await?)
        })
        .await
    }

    /// A PNG of a window of this size.
    ///
    /// # Errors
    /// If the browser has gone.
    pub async fn screenshot(&self, width: u32, height: u32) -> Result<Vec<u8>> {
        self.client.set_window_size(width, height).await?;
        Ok(self.client.screenshot().await?)
    }

    /// The names and values of the cookies for the page's URL, hidden ones included.
    ///
    /// # Errors
    /// If the browser has gone.
    pub async fn cookies(&self) -> Result<Vec<(String, String)>> {
        let cookies = self.client.get_all_cookies().await?;
        let pair = |cookie: &fantoccini::cookies::Cookie<'_>| (cookie.name().to_owned(), cookie.value().to_owned());
        Ok(cookies.iter().map(pair).collect())
    }
}

#[derive(Debug)]
struct Driver {
    process: Child,
    url: String,
    directory: TempDir,
}

impl Driver {
    async fn start() -> Result<Self> {
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let log = directory.path().join("log");
        let output = File::create(&log)?;
        // setpriv ends the driver even if the test is killed.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(tools::chromedriver()?)
            .arg("--port=0")
            .env("HOME", directory.path())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start chromedriver by setpriv (of util-linux)")?;
        let mut driver = Self {
            process,
            url: String::new(),
            directory,
        };
        let port = poll::until("chromedriver to start", async || port(&log)).await;
        let port = port.with_context(|| format!("chromedriver says:\n{}", driver.log()))?;
        driver.url = format!("http://127.0.0.1:{port}");
        Ok(driver)
    }

    async fn open(&self, capabilities: &Capabilities) -> Result<Client> {
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities.clone());
        poll::patiently("a browser", async { Ok(builder.connect(&self.url).await?) })
            .await
            .with_context(|| format!("chromedriver says:\n{}", self.log()))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The browser's processes end one after the other, and may write until then.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) && is_home_of_a_process(self.directory.path()) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn is_home_of_a_process(directory: &Path) -> bool {
    let home = format!("HOME={}", directory.display());
    let has_it = |process: fs::DirEntry| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == home.as_bytes())
    };
    fs::read_dir("/proc").is_ok_and(|processes| processes.flatten().any(has_it))
}

/// chromedriver's port, once its log says it.
fn port(log: &Path) -> Option<u16> {
    let said = fs::read_to_string(log).ok()?;
    let (_, behind) = said.split_once("started successfully on port ")?;
    behind.split('.').next()?.parse().ok()
}

fn capabilities(directory: &TempDir, hosts: &str, preferences: &Value) -> Result<Capabilities> {
    let profile = directory.path().join("profile");
    let arguments = [
        "--headless=new".to_owned(),
        format!("--user-data-dir={}", profile.display()),
        format!("--host-resolver-rules={hosts}"),
        "--ignore-certificate-errors".to_owned(),
        // The pages are the tests' own, and root has no sandbox.
        "--no-sandbox".to_owned(),
        // Containers often have little of it.
        "--disable-dev-shm-usage".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-gpu".to_owned(),
    ];
    let capabilities = json!({
        "browserName": "chrome",
        "goog:chromeOptions": {
            "binary": ended_with_its_driver(directory.path())?,
            "args": arguments,
            "prefs": preferences,
        },
    });
    match capabilities {
        Value::Object(object) => Ok(object),
        other => bail!("no object: {other}"),
    }
}

fn ended_with_its_driver(directory: &Path) -> Result<PathBuf> {
    let program = directory.join("browser");
    let chromium = tools::chromium()?;
    fs::write(
        &program,
        format!(
            "#!/bin/sh\nexec setpriv --pdeathsig KILL '{}' \"$@\"\n",
            chromium.display()
        ),
    )?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}
